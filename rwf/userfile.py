"""A method of the user's own: a class in a Python file, named as FILE.py:Class."""

from __future__ import annotations

import importlib.util
import sys
import traceback
from pathlib import Path
from types import ModuleType

from rwf.errors import UserError
from rwf.seeds import hash32


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
