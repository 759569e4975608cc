"""The command line: `rwf COMMAND ...`; every command imports what it needs when it is called."""

from __future__ import annotations

import dataclasses
import inspect
import json as jsonlib
import os
import shutil
import sys
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from rwf import registry
from rwf.errors import UserError
from rwf.options import RunOptions, read_options

DEFAULT_BACKBONE = str(RunOptions.backbone)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command; what a user caused is one sentence on stderr and exit code 2."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        return _dispatch(arguments)
    except UserError as error:
        if os.environ.get("RWF_TRACEBACK"):
            raise
        print(f"rwf: {error}", file=sys.stderr)
        return int(getattr(error, "code", 2))
    except KeyboardInterrupt:
        print("rwf: interrupted; a run that has begun goes on with `rwf resume DIR`.", file=sys.stderr)
        return 130
    except BrokenPipeError:  # whoever read our output has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141


def _dispatch(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(overview())
        return 0
    if arguments[0] == "--version":
        from rwf import __version__

        print(f"rwf {__version__}")
        return 0
    name, rest = arguments[0], arguments[1:]
    if name == "run":
        return run(rest)
    if name not in COMMANDS:
        raise registry.unknown("command", name, ["run", *COMMANDS])
    command = COMMANDS[name]
    about = inspect.getdoc(command) or ""
    values = read_options({"command": command}, rest, prog=f"rwf {name}", about=about, positional=True)
    return int(command(**values)())


def overview() -> str:
    """The commands and what each is for."""
    uses = {RUN_USAGE: run, **{command.usage: command for command in COMMANDS.values()}}
    width = max(map(len, uses)) + 2
    return "\n".join(
        [
            "rwf: a pre-trained ViT keeps learning from a stream, every picture seen once",
            "",
            *(f"  {usage:<{width}}{_first_line(command)}" for usage, command in uses.items()),
            "",
            "METHOD is a name of `rwf list methods`, or FILE.py:Class for one of your own.",
            "`rwf COMMAND --help` shows a command's options, `rwf run METHOD --help` those",
            "of a method too.",
        ]
    )


def _first_line(thing: Any) -> str:
    return (inspect.getdoc(thing) or "").partition("\n")[0]


# -- run: the method first, then the run's options and the method's, all flat ----------------------------------------

RUN_USAGE = "run METHOD --benchmark B"


def run(arguments: list[str]) -> int:
    """learn a stream with a method"""
    if arguments and arguments[0] in ("-h", "--help"):
        about = "METHOD is a name of `rwf list methods`, or FILE.py:Class.\n\n"
        about += "`rwf run METHOD --help` shows the method's own options too."
        read_options({"run": RunOptions}, ["--help"], prog="rwf run METHOD", about=about)
    if not arguments or arguments[0].startswith("-"):
        raise UserError("name the method first: rwf run METHOD --benchmark B (`rwf list methods` shows them).")
    spec, rest = arguments[0], arguments[1:]
    method = _method_class(spec)
    asked = _asks_for_paper(rest)
    paper = dict(method.paper_options) if asked else {}
    values = read_options(
        {"run": RunOptions, spec.rpartition(":")[2]: method},
        rest,
        prog=f"rwf run {spec}",
        about=registry.METHODS[spec].title if spec in registry.METHODS else _first_line(method),
        defaults=paper,
    )
    own = {field.name for field in dataclasses.fields(RunOptions)}
    options = RunOptions(**{name: value for name, value in values.items() if name in own})
    if asked:
        resolved = ", ".join(f"{name} {values[name]}" for name in paper)
        print(f"protocol paper: {resolved or f'{spec} has no row in the paper, its own settings are used'}")

    from rwf.run.start import start

    _print_result(start(spec, {name: value for name, value in values.items() if name not in own}, options))
    return 0


def _method_class(spec: str) -> Any:
    method = registry.resolve_method(spec)
    from rwf.parts.learner import Learner

    if not (issubclass(method, Learner) and dataclasses.is_dataclass(method)):
        raise UserError(f"{spec} is not a method: make it a dataclass that derives from rwf.Learner (see `rwf new`).")
    return method


def _asks_for_paper(arguments: list[str]) -> bool:
    """Whether ``--protocol paper`` is given: it changes defaults, so it must be known before options are read."""
    pairs = zip(arguments, [*arguments[1:], ""], strict=True)
    return "--protocol=paper" in arguments or ("--protocol", "paper") in pairs


def _print_result(result: Mapping[str, Any]) -> None:
    from rwf.run.console import result_table

    _print_table(result_table(result))


def _print_table(table: Any) -> None:
    from rich.console import Console

    Console().print(table)


# -- the other commands: a dataclass each, its fields are its options ------------------------------------------------


@dataclass
class Resume:
    """go on with a run from its last checkpoint

    It ends with the same bits as a run without interruption.
    """

    usage = "resume DIR"
    dir: Path
    """The folder of the run."""

    def __call__(self) -> int:
        from rwf.run.start import resume

        _print_result(resume(self.dir))
        return 0


@dataclass
class List:
    """what there is: methods, benchmarks, backbones"""

    usage = "list WHAT"
    what: Literal["methods", "benchmarks", "backbones"]
    """Which kind of thing."""
    json: bool = False
    """Print JSON."""

    def __call__(self) -> int:
        entries = {
            "methods": registry.METHODS,
            "benchmarks": registry.BENCHMARKS | registry.BENCHMARK_FORMS,
            "backbones": registry.BACKBONE_FORMS,
        }[self.what]
        if self.json:
            rows = [{"name": name, **dataclasses.asdict(entry)} for name, entry in entries.items()]
            print(jsonlib.dumps(rows, indent=2, ensure_ascii=False))
            return 0
        terminal, width = shutil.get_terminal_size().columns, max(map(len, entries)) + 2
        for name, entry in entries.items():
            text = f"the same as {entry.alias_of}" if entry.alias_of else entry.title
            text += f" ({entry.paper})" if entry.paper else ""
            print(textwrap.fill(text, terminal, initial_indent=f"{name:<{width}}", subsequent_indent=" " * width))
        return 0


@dataclass
class Params:
    """trained numbers of each method, beside the paper's

    Only shapes count, so no weights are downloaded.
    """

    usage = "params"
    backbone: str = DEFAULT_BACKBONE
    """The ViT, as for rwf run."""
    classes: int = 100
    """Classes of the head."""
    json: bool = False
    """Print JSON."""

    def __call__(self) -> int:
        from rwf.run.params import rows, table

        found = rows(self.backbone, self.classes)
        if self.json:
            print(jsonlib.dumps(found, indent=2))
        else:
            _print_table(table(found))
        return 0


@dataclass
class Doctor:
    """what rwf finds on this machine, and what is missing"""

    usage = "doctor"
    backbone: str | None = None
    """A ViT to try to load."""
    benchmark: str | None = None
    """A benchmark to try to open."""
    data_dir: Path | None = None
    """Where benchmarks with a name of their own lie."""
    device: str = "auto"
    """The device to try."""
    threads: int | None = None
    """Threads of torch."""

    def __call__(self) -> int:
        from rwf.run.doctor import examine

        return examine(**dataclasses.asdict(self))


@dataclass
class Check:
    """whether a method keeps the promises of all methods"""

    usage = "check METHOD"
    method: str
    """A name of `rwf list methods`, or FILE.py:Class."""

    def __call__(self) -> int:
        from rwf.run.conformance import main as check

        return check(self.method)


@dataclass
class New:
    """write a method of your own, ready to be changed"""

    usage = "new FILE.py"
    file: Path
    """The file to write; it must not exist."""

    def __call__(self) -> int:
        from rwf.run.new import write_template

        print(write_template(self.file))
        return 0


COMMANDS: dict[str, type[Any]] = {
    "resume": Resume,
    "list": List,
    "params": Params,
    "doctor": Doctor,
    "check": Check,
    "new": New,
}


if __name__ == "__main__":
    sys.exit(main())
