"""What the commands print alike; nothing heavy is imported before it is needed."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any


def first_line(thing: Any) -> str:
    """The first line of a docstring."""
    return (inspect.getdoc(thing) or "").partition("\n")[0]


def print_table(table: Any) -> None:
    """A table of rich."""
    from rich.console import Console

    Console().print(table)


def print_result(result: Mapping[str, Any]) -> None:
    """The result row of a run."""
    from rwf.run.console import result_table

    print_table(result_table(result))
