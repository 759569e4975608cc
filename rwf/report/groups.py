"""Runs that may stand in one table: the same stream of the same data on the same weights; seeds become one row."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rwf.report.gather import Measured
from rwf.report.statistics import Mean

STREAM = (
    *("tasks", "class_order", "order", "blurry_n", "blurry_m", "drift_width", "train_fraction", "imbalance"),
    *("test_fraction", "batch_size", "image_size", "detail", "precision", "validation"),
)
"""Options that make the stream or the arithmetic: other ones, another table."""
USUAL = {"class_order": "natural", "order": "split", "train_fraction": 1.0, "imbalance": 1.0, "precision": "fp32"}
USUAL |= {"blurry_n": 50, "blurry_m": 10, "drift_width": 0.05, "image_size": None, "batch_size": 64}
USUAL |= {"detail": None, "validation": 0, "test_fraction": 1.0}
FIRST = {"": 0, "table1": 1}
"""Where the tables that compare methods stand, by their experiment; the others come after these."""
OWN = ("normalize", "test_view")
"""Options of a run that belong to a method's settings."""


@dataclass(frozen=True)
class Setting:
    """What all rows of a table share. Hashes are in it, so two data or two weights never meet in a mean."""

    experiment: str
    benchmark: str
    data: str
    backbone: str
    weights: str
    stream: tuple[tuple[str, Any], ...]
    """Empty for an experiment, whose cells may differ in it."""

    @staticmethod
    def of(run: Measured) -> Setting:
        stream = () if run.experiment else tuple((name, _frozen(stream_option(run, name))) for name in STREAM)
        keys = ("benchmark", "benchmark_fingerprint", "backbone", "backbone_hash")
        benchmark, data, backbone, weights = (str(run.result.get(key, "")) for key in keys)
        return Setting(run.experiment, benchmark, data, backbone, weights, stream)


@dataclass
class Row:
    """The runs of one method in one configuration, one a seed."""

    method: str
    label: str
    """What sets it apart from the method's other rows; "" if it has no others."""
    cell: Mapping[str, Any]
    runs: list[Measured] = field(default_factory=list)
    place: int = 0
    """Which row it was when the runs were read."""

    @property
    def name(self) -> str:
        return f"{self.method} ({self.label})" if self.label else self.method

    def mean(self, key: str) -> Mean | None:
        """Of a figure of result.json; dots lead into it."""
        return Mean.of([number(run.result, key) for run in self.runs])

    @property
    def first(self) -> Measured:
        return self.runs[0]

    @property
    def accuracy(self) -> float:
        mean = self.mean("final_accuracy")
        return float("nan") if mean is None else mean.value


@dataclass
class Group:
    """A table: its setting and its rows, the most accurate first (an experiment's as they came)."""

    setting: Setting
    rows: list[Row]
    double: list[str] = field(default_factory=list)
    """Runs left out because there is another of the same configuration and seed."""

    @property
    def tasks(self) -> list[int]:
        return sorted({task_count(run) for row in self.rows for run in row.runs})

    @property
    def plain(self) -> bool:
        """Whether methods alone are compared, and nothing else is varied."""
        return not any(row.cell for row in self.rows)

    @property
    def unusual(self) -> list[str]:
        """The options of the stream that all rows share and that differ from what a run has if nothing is said."""
        found = []
        for name in STREAM[1:]:
            values = {_frozen(stream_option(run, name)) for row in self.rows for run in row.runs}
            if len(values) == 1 and values != {USUAL.get(name)}:
                found.append(f"{name.replace('_', ' ')} {_text(values.pop())}")
        return found

    def row(self, method: str) -> Row | None:
        """The method's row; of several the one with most runs, then the one read first: never the best one chosen."""
        own = [row for row in self.rows if row.method == method]
        return min(own, key=lambda row: (-len(row.runs), row.place)) if own else None


def groups(runs: Iterable[Measured]) -> list[Group]:
    """All tables: those of plain runs first, then of the experiment that compares methods, then the others."""
    sorted_out: dict[Setting, list[Measured]] = {}
    for run in runs:
        sorted_out.setdefault(Setting.of(run), []).append(run)
    made = [_group(setting, own) for setting, own in sorted_out.items()]
    return sorted(made, key=lambda group: FIRST.get(group.setting.experiment, len(FIRST)))


def _group(setting: Setting, runs: Sequence[Measured]) -> Group:
    by_key: dict[str, list[Measured]] = {}
    double: list[str] = []
    for run in runs:
        own = by_key.setdefault(_key(run), [])
        same = next((other for other in own if other.seed == run.seed), None)
        if same is None:
            own.append(run)
        elif same.result["final_accuracy"] != run.result["final_accuracy"]:
            double.append(f"{run.source} is left out: {same.source} is the same configuration and seed, and differs")
    rows = [
        Row(own[0].name, "", own[0].cell, sorted(own, key=lambda r: r.seed), i) for i, own in enumerate(by_key.values())
    ]
    for row, label in zip(rows, _labels(rows), strict=True):
        row.label = label
    group = Group(setting, rows, double)
    if group.plain:
        rows.sort(key=lambda row: -row.accuracy)
    return group


def _key(run: Measured) -> str:
    return json.dumps([run.name, configuration(run)], sort_keys=True, default=str)


def configuration(run: Measured) -> dict[str, Any]:
    """Everything chosen for a run but its seed: cell, stream, the method's own options."""
    own = {name: run.option(name) for name in OWN if run.option(name) is not None}
    stream = {name: stream_option(run, name) for name in STREAM}
    options = {key: value for key, value in run.result.get("options", {}).items() if key != "seed"}
    return stream | own | options | dict(run.cell)


def _labels(rows: Sequence[Row]) -> list[str]:
    """For each row the cell's names where these tell it apart, and else what differs between the method's rows."""
    labels = []
    for row in rows:
        peers = [configuration(other.first) for other in rows if other.method == row.method]
        cells = [dict(other.cell) for other in rows]
        in_cell = [key for key in row.cell if len({_text(cell.get(key)) for cell in cells}) > 1]
        near = [p for p in peers if all(_text(p.get(k)) == _text(row.cell[k]) for k in in_cell)]
        mine = configuration(row.first)
        more = [k for k in mine if k not in row.cell and len({_text(p.get(k)) for p in near}) > 1]
        words = [f"{key.replace('_', ' ')} {_text(mine[key])}" for key in (*in_cell, *more)]
        labels.append(", ".join(words))
    return labels


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    return value if isinstance(value, str) else json.dumps(value, default=str)


def _frozen(value: Any) -> Any:
    return value if isinstance(value, str | int | float | bool | None) else json.dumps(value, default=str)


def stream_option(run: Measured, name: str) -> Any:
    """An option of the stream; the tasks from the matrix where nothing else says them."""
    return task_count(run) if name == "tasks" else run.option(name, USUAL.get(name))


def task_count(run: Measured) -> int:
    matrix = run.result.get("accuracy_matrix")
    return int(run.option("tasks") or (len(matrix[0]) if matrix else 0))


def number(result: Mapping[str, Any], key: str) -> float:
    """A figure of a result, NaN where it is not there."""
    value: Any = result
    for part in key.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return float(value) if isinstance(value, int | float) else float("nan")
