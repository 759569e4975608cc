"""The options of a run, whatever the method; and how the fields of a dataclass become options of a command."""

from __future__ import annotations

import ast
import inspect
import math
import textwrap
from collections.abc import Collection, Mapping, Sequence
from dataclasses import MISSING, Field, asdict, dataclass, field, fields, is_dataclass, make_dataclass
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal, cast, get_args, get_origin, get_type_hints

from rwf.errors import UserError

_LEAST = {"tasks": 1, "batch_size": 1, "image_size": 1, "threads": 1, "anytime": 0, "checkpoint_every": 0}
_LEAST |= {"workers": 0, "blurry_n": 0, "blurry_m": 0, "imbalance": 1, "validation": 0}
_PATHS = ("out", "data_dir", "train_list", "tuned")


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """Which stream, on which backbone, in which arithmetic."""

    benchmark: str
    """What to learn: a name of `rwf list benchmarks`, folder:PATH or parquet:PATH."""
    backbone: str = "vit_base_patch16_224.augreg_in21k"
    """The ViT: a timm name, a .safetensors file, or random:WIDTHxDEPTH."""
    seed: int = 0
    """Seed of order, views and initial weights."""
    out: Path | None = None
    """Folder of the run; a new one under runs/ if not given."""
    tasks: int = 10
    """Into how many tasks the classes are split."""
    class_order: Literal["natural", "shuffled"] = "natural"
    """Sorted by name, or shuffled by the seed."""
    train_fraction: float = 1.0
    """Part of each class's training pictures that is used."""
    test_fraction: float = 1.0
    """Part of each class's test pictures that is asked about, the same for every seed."""
    order: Literal["split", "iid", "sorted", "blurry", "si-blurry", "drift"] = "split"
    """Task after task, all mixed, class after class, or without sharp tasks: i-Blurry, Si-Blurry, smooth drift."""
    blurry_n: int = 50
    """For order blurry and si-blurry: percent of the classes that keep to one session."""
    blurry_m: int = 10
    """For order blurry and si-blurry: percent of the other classes' pictures that are spread over all sessions."""
    drift_width: float = 0.05
    """For order drift: standard deviation of a class's presence, as a part of the stream."""
    imbalance: float = 1.0
    """How many times the largest training class exceeds the smallest; above 1 the classes are long-tailed."""
    batch_size: int = 64
    """Pictures a step."""
    detail: int | None = None
    """Shrink each picture to so many pixels on its shorter side and enlarge it again; as it is if not given."""
    image_size: int | None = None
    """Side of the network's input; the backbone's own if not given."""
    normalize: Literal["weights", "none"] = "weights"
    """Mean and deviation that belong to the weights, or pixels in [0, 1]."""
    test_view: Literal["center", "cut"] = "center"
    """Test pictures resized and cut to their middle; center leaves small square ones whole."""
    precision: Literal["fp32", "bf16"] = "fp32"
    """Arithmetic of the backbone."""
    device: str = "cpu"
    """cpu, cuda, mps, or auto for the fastest there is."""
    threads: int | None = None
    """Threads of torch; torch's own choice if not given."""
    workers: int = 0
    """Processes that decode and cut pictures ahead, for a device that is faster than one of them; 0 for none."""
    data_dir: Path | None = None
    """Where benchmarks with a name of their own lie, or are downloaded to."""
    train_list: Path | None = None
    """A list of the training pictures, for a benchmark without an official split."""
    validation: int = 0
    """To choose settings: learn so many tasks, and ask a fifth of their training pictures, no test picture."""
    tuned: Path | None = None
    """Folder of an rwf tune of this method: the settings found there; an option that is given wins."""
    protocol: Literal["own", "paper"] = "own"
    """paper: this method's settings in the paper's tables; an option that is given wins."""
    anytime: int = 3
    """Points of the anytime curve in each task; 0 for none."""
    checkpoint_every: float = 60.0
    """Seconds between checkpoints."""
    on_bad_image: Literal["stop", "skip"] = "stop"
    """What to do with a picture that cannot be decoded: stop, or leave it out and say so."""
    feature_cache: str = "auto"
    """Where answers of the frozen network are kept: a folder, off, or auto (the user's cache, on the CPU)."""
    feature_cache_gb: float = 4.0
    """Gigabytes of answers that are kept; the oldest leave first."""

    def __post_init__(self) -> None:
        """Refuses impossible numbers before anything is opened."""
        for name, least in _LEAST.items():
            value = getattr(self, name)
            if value is not None and not (value >= least and math.isfinite(value)):
                raise UserError(f"{flag(name)} is {value}: give a number that is {least} or more.")
        if self.validation > self.tasks:
            raise UserError(f"--validation is {self.validation}, but there are {self.tasks} tasks: give at most that.")
        for name in ("train_fraction", "test_fraction"):
            if not 0 < getattr(self, name) <= 1:
                raise UserError(f"{flag(name)} is {getattr(self, name)}: give a part above 0 and up to 1.")
        for name in ("blurry_n", "blurry_m"):
            if getattr(self, name) > 100:
                raise UserError(f"{flag(name)} is {getattr(self, name)}: give a percentage from 0 to 100.")
        if not 0 < self.drift_width < math.inf:
            raise UserError(f"--drift-width is {self.drift_width}: give a part of the stream above 0.")
        if not 0 < self.feature_cache_gb < math.inf:
            raise UserError(f"--feature-cache-gb is {self.feature_cache_gb}: give gigabytes, or --feature-cache off.")
        if not self.feature_cache:
            raise UserError("--feature-cache is empty: give a folder, off or auto.")
        if not self.benchmark:
            raise UserError("--benchmark is empty: `rwf list benchmarks` shows what there is.")

    def as_json(self) -> dict[str, Any]:
        """All options, as config.json holds them."""
        return {key: str(value) if isinstance(value, Path) else value for key, value in asdict(self).items()}

    @staticmethod
    def from_json(content: Mapping[str, Any]) -> RunOptions:
        """What ``as_json`` gave."""
        unknown = content.keys() - {own.name for own in fields(RunOptions)}
        if unknown:
            raise UserError(f"this run has options that this rwf does not know: {', '.join(sorted(unknown))}.")
        paths = {key: Path(content[key]) for key in _PATHS if content.get(key) is not None}
        return RunOptions(**{**content, **paths})


def flag(name: str) -> str:
    """How an option is written on the command line."""
    return "--" + name.replace("_", "-")


def read_options(
    groups: Mapping[str, type],
    arguments: Sequence[str],
    *,
    prog: str,
    about: str,
    defaults: Mapping[str, Any] | None = None,
    positional: bool = False,
    first_wins: Collection[str] = (),
) -> dict[str, Any]:
    """The values that a command line gives to the fields of one or more dataclasses.

    All options are flat, without a prefix; the help shows one box a group. ``defaults`` replace the fields' own.
    A field named in ``first_wins`` belongs to the first group that has it. With ``positional``, fields without a
    default are named by their place. Ends the process on --help (0) and on an option that is wrong (2).
    """
    import tyro

    defaults = defaults or {}
    owners = _owners(groups, first_wins)
    unknown = sorted(defaults.keys() - owners.keys())
    if unknown:
        raise UserError(f"the paper's settings of `{prog}` name {', '.join(unknown)}, which it has not: correct them.")
    made: dict[str, Any] = {
        _word(title): _plain(cls, title, [n for n in owners if owners[n] is cls], defaults, positional)
        for title, cls in groups.items()
    }
    config: tuple[Any, ...] = (tyro.conf.OmitArgPrefixes,)
    if positional:
        config += (tyro.conf.PositionalRequiredArgs,)
    several = len(made) > 1
    command: Any = make_dataclass("Command", list(made.items())) if several else next(iter(made.values()))
    parsed = tyro.cli(command, args=list(arguments), prog=prog, description=about, config=config)
    parts = [getattr(parsed, name) for name in made] if several else [parsed]
    return {own.name: getattr(part, own.name) for part in parts for own in fields(part)}


def _owners(groups: Mapping[str, type], first_wins: Collection[str]) -> dict[str, type]:
    """The dataclass that each option belongs to."""
    owners: dict[str, type] = {}
    for cls in groups.values():
        for own in fields(cls):
            if own.init and owners.setdefault(own.name, cls) is not cls and own.name not in first_wins:
                raise UserError(
                    f"the field {own.name!r} of {cls.__name__} has the name of an option of every run: rename it."
                )
    return owners


def _plain(cls: type, title: str, names: Collection[str], defaults: Mapping[str, Any], positional: bool) -> type:
    """A dataclass of nothing but these fields of ``cls``, their docstrings as help."""
    hints, docs = get_type_hints(cls), field_docs(cls)
    members = []
    for own in fields(cls):
        if own.name in names:
            default = _default(own, defaults)
            annotation = _annotation(own.name, hints[own.name], docs.get(own.name, ""), default, positional)
            members.append((own.name, annotation, default))
    made = make_dataclass(_word(title), members, kw_only=True)
    made.__doc__ = ""
    return made


def _default(own: Field[Any], defaults: Mapping[str, Any]) -> Any:
    if own.name in defaults:
        return field(default=defaults[own.name])
    if own.default_factory is not MISSING:
        return field(default_factory=own.default_factory)
    return field(default=own.default)


def _annotation(name: str, hint: Any, text: str, default: Field[Any], positional: bool) -> Any:
    """The type with its help; None and False are not shown as defaults, the text says what they mean."""
    import tyro

    bare = [part for part in get_args(hint) if part is not type(None)]
    optional = type(None) in get_args(hint) and len(bare) == 1
    required = default.default is MISSING and default.default_factory is MISSING
    kind = bare[0] if optional else hint
    metavar = None
    if kind in (str, Path):
        metavar = name.upper() if positional and required else {str: "NAME", Path: "PATH"}[kind]
    elif optional:
        metavar = (
            "{" + ",".join(map(str, get_args(kind))) + "}" if get_origin(kind) is Literal else kind.__name__.upper()
        )
    hint_text = "" if default.default is None or default.default is False or (required and positional) else None
    made: Any = Annotated[hint, tyro.conf.arg(help=text, metavar=metavar, help_behavior_hint=hint_text)]
    off: Any = tyro.conf.FlagCreatePairsOff
    return off[made] if positional and default.default is False else made  # --x, no --no-x


def _word(title: str) -> str:
    return "".join(c if c.isalnum() else "_" for c in title)


def field_docs(cls: type) -> dict[str, str]:
    """The docstrings under the fields of a dataclass and of its bases, by field name."""
    docs: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        if not is_dataclass(base):
            continue
        body = cast(ast.ClassDef, ast.parse(textwrap.dedent(inspect.getsource(base))).body[0]).body
        for node, after in pairwise(body):
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                match after:
                    case ast.Expr(value=ast.Constant(value=str(text))):
                        docs[node.target.id] = inspect.cleandoc(text)
    return docs
