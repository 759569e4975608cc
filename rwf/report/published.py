"""The paper's numbers as data: one place for each configuration, with what the paper states of it."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

TABLES = {
    "Table 1": "table1_accuracy_forgetting.csv",
    "Table 2": "table2_few_shot.csv",
    "Table 3": "table3_routing_depth.csv",
    "Table 4": "table4_trainable_parameters.csv",
    "Figure 2": "figure2_number_of_tasks.csv",
}
ABOUT = {
    "Table 1": "accuracy and forgetting",
    "Table 2": "fewer training pictures",
    "Table 3": "depth and place of routing",
    "Table 4": "trained parameters",
    "Figure 2": "number of tasks",
}
FIGURES = ("final_accuracy", "forgetting", "trainable_percent")
ALIASES = {"split-imagenet-s": "split-imagenet-sketch"}
RUNS = 3
"""Over which the paper's deviations are."""


@dataclass(frozen=True)
class Value:
    """A mean of the paper; no deviation where it states none."""

    mean: float
    deviation: float | None


@dataclass(frozen=True)
class Place:
    """One configuration in one of the paper's tables."""

    table: str
    method: str
    benchmark: str
    tasks: int
    train_fraction: float
    blocks: int | None
    placement: str
    figures: Mapping[str, Value]

    @property
    def name(self) -> str:
        """As a row of the table is called."""
        parts = {
            "Table 2": f", {100 * self.train_fraction:g} %",
            "Table 3": f", k = {self.blocks}" + (f", {self.placement}" if self.placement in ("first", "last") else ""),
            "Figure 2": f", {self.tasks} tasks",
        }
        return self.method + parts.get(self.table, "")


@cache
def published() -> tuple[Place, ...]:
    """All numbers, in the order of the tables."""
    return tuple(_place(table, row) for table, name in TABLES.items() for row in _read(name))


def _read(name: str) -> list[dict[str, str]]:
    return list(csv.DictReader(files("rwf.report.paper").joinpath(name).read_text().splitlines()))


def _place(table: str, row: Mapping[str, str]) -> Place:
    benchmark = row.get("benchmark", "")
    blocks = int(row["routed_blocks"]) if "routed_blocks" in row else None
    return Place(
        table,
        # The paper's zero row of Table 3 is its Finetune row.
        row.get("method") or ("rwf" if blocks else "finetune"),
        ALIASES.get(benchmark, benchmark),
        int(row.get("tasks") or 10),
        float(row.get("train_fraction") or 1.0),
        blocks,
        row.get("placement", ""),
        {key: _value(row, key) for key in FIGURES if row.get(key)},
    )


def _value(row: Mapping[str, str], key: str) -> Value:
    deviation: Any = row.get(f"{key}_std")
    return Value(float(row[key]), float(deviation) if deviation else None)
