"""What there is by name: methods, benchmarks and backbones, imported only when one of them is used."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import sys
import traceback
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from rwf.errors import UserError
from rwf.seeds import hash32


@dataclass(frozen=True)
class Entry:
    """One registered thing. ``target`` is "module:Name" and imported on use; "" where there is nothing to import."""

    target: str
    title: str
    paper: str = ""
    alias_of: str = ""


METHODS: dict[str, Entry] = {
    "rwf": Entry(
        "rwf.methods.rwf:RwF",
        "learned queries retrieve prompts from the tokens of the first blocks",
        "Routing without Forgetting",
    ),
    "linear_probe": Entry("rwf.methods.linear_probe:LinearProbe", "a linear head on frozen features"),
    "finetune": Entry(
        "rwf.methods.finetune:Finetune", "the whole network trained on the stream, nothing against forgetting"
    ),
    "joint": Entry("rwf.methods.joint:Joint", "the whole network trained on the same pictures in random order"),
}

BENCHMARKS: dict[str, Entry] = {}
"""Benchmarks with a name of their own; ``rwf.data`` opens them."""

BENCHMARK_FORMS: dict[str, Entry] = {
    "folder:PATH": Entry("", "pictures in PATH/train/CLASS/ and PATH/test/CLASS/"),
    "parquet:PATH": Entry("", "a dataset in the hub's parquet layout, with a picture and a label column"),
}
"""How a user names data of his own."""

BACKBONE_FORMS: dict[str, Entry] = {
    "TIMM_NAME": Entry("", "a plain ViT of timm with its weights, e.g. vit_base_patch16_224.augreg_in21k"),
    "PATH.safetensors": Entry("", "a weights file whose metadata names its architecture"),
    "TIMM_NAME@PATH.safetensors": Entry("", "a weights file that does not say what it holds"),
    "TIMM_NAME@PATH.safetensors": Entry("", "the same for a file that does not name its architecture"),
    "random:WIDTHxDEPTH": Entry("", "a small ViT with seeded random weights, e.g. random:64x3, for tests"),
    "random:TIMM_NAME": Entry("", "a ViT of timm with seeded random weights, nothing is downloaded"),
}
"""The kinds of names a backbone can have."""


def unknown(kind: str, name: str, known: Iterable[str]) -> UserError:
    """The error for a name that is not registered, with the names that come close."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    if close:
        return UserError(f"there is no {kind} {name!r}; did you mean {' or '.join(map(repr, close))}?")
    listed = f"; there are {', '.join(names)}" if names else ""
    return UserError(f"there is no {kind} {name!r}{listed}.")


def load_object(target: str) -> Any:
    """The object "module:Name" points at."""
    module, _, name = target.partition(":")
    return getattr(importlib.import_module(module), name)


def entry(kind: str, table: Mapping[str, Entry], name: str) -> Entry:
    """The entry of that name, aliases followed."""
    if name not in table:
        raise unknown(kind, name, table)
    found = table[name]
    return entry(kind, table, found.alias_of) if found.alias_of else found


def resolve_method(spec: str) -> type:
    """The class of a registered method, or of "FILE.py:Class"."""
    if not is_file_spec(spec):
        return load_object(entry("method", METHODS, spec).target)
    file, _, name = spec.rpartition(":")
    if not file or name.endswith(".py"):
        raise UserError(f"{spec!r} names no class: write FILE.py:Class.")
    module = load_file(Path(file))
    found = getattr(module, name, None)
    if not isinstance(found, type):
        own = [n for n, v in vars(module).items() if isinstance(v, type) and v.__module__ == module.__name__]
        raise unknown(f"class in {file} called", name, own)
    return found


def is_file_spec(spec: str) -> bool:
    """Whether a method is given as a user's file rather than by a registered name."""
    return ".py" in spec or "/" in spec


def load_file(path: Path) -> ModuleType:
    """A user's Python file as a module under a name of its own; errors in it name the file and the line."""
    path = path.expanduser().resolve()
    if not path.is_file():
        raise UserError(f"there is no file {path}: give a Python file that holds your method.")
    name = f"rwf_user_{path.stem}_{hash32(str(path)):08x}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise UserError(f"{path} is not a Python file: give a file that ends in .py.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise UserError(
            f"{_place(error, path)}: {type(error).__name__}: {error}; mend the file and try again."
        ) from error
    return module


def _place(error: Exception, path: Path) -> str:
    """File and line, in the user's own file, where an exception came from."""
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return f"{path}, line {error.lineno}"
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    return f"{path}, line {lines[-1]}" if lines else str(path)
