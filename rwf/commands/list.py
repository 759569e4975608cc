"""The command `rwf list`."""

from __future__ import annotations

import dataclasses
import json as jsonlib
import shutil
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from rwf import registry
from rwf.experiments import EXPERIMENTS


@dataclass
class List:
    """the methods, benchmarks, backbones, experiments"""

    usage = "list WHAT"
    what: Literal["methods", "benchmarks", "backbones", "experiments"]
    """Which kind of thing."""
    json: bool = False
    """Print JSON."""

    def __call__(self) -> int:
        tables: dict[str, Mapping[str, registry.Entry]] = {
            "methods": registry.METHODS,
            "benchmarks": registry.BENCHMARKS | registry.BENCHMARK_FORMS,
            "backbones": registry.BACKBONES | registry.BACKBONE_FORMS,
            "experiments": EXPERIMENTS,
        }
        entries = tables[self.what]
        if self.json:
            rows = [{"name": name, **dataclasses.asdict(entry)} for name, entry in entries.items()]
            print(jsonlib.dumps(rows, indent=2, ensure_ascii=False))
            return 0
        terminal, width = shutil.get_terminal_size().columns, max(map(len, entries)) + 2
        for name, entry in entries.items():
            text = f"the same as {entry.alias_of}" if entry.alias_of else entry.title
            text += f" ({entry.paper})" if entry.paper else ""
            told = getattr(entry, "needs", ())
            text += f"; needs {', '.join(told)}".replace("_", " ") if told else ""
            print(textwrap.fill(text, terminal, initial_indent=f"{name:<{width}}", subsequent_indent=" " * width))
        return 0
