"""The table of a group: accuracies with their intervals, what a method was told, and what it costs, on every row."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from typing import Any

from rwf.report.groups import Group, Row
from rwf.report.sheet import Head, Line, Sheet
from rwf.report.statistics import Mean

ACCURACIES = ("final_accuracy", "forgetting", "anytime_accuracy", "online_accuracy")
COSTS = ("trainable_percent", "memory_bytes", "forwards_per_image", "timing.learned_images_per_second")
HEADS = (
    Head("method"),
    Head("runs"),
    Head("final accuracy", "%"),
    Head("forgetting", "points"),
    Head("anytime", "%"),
    Head("online", "%"),
    Head("told or kept", words=True),
    Head("mask", words=True),
    Head("trained", "% of ViT"),
    Head("memory", "MB"),
    Head("forwards", "an image"),
    Head("speed", "images/s"),
)
NOTE = (
    "Means over seeds (with a shuffled class order each seed is an order too) ± half the 95 % t interval; no interval "
    "from one run. Final accuracy: mean over tasks at the end of the stream, all classes competing. Forgetting: the "
    "best a task reached since it was trained minus its end. Anytime: mean along the stream. Online: right before the "
    "picture was learned. Trained: by gradients, without the head. Memory: kept pictures and what belongs to them. "
    "Forwards: through the backbone while learning. Speed depends on the machine and on what else it did."
)


def results_sheet(group: Group, against: str) -> Sheet:
    """All rows of a group."""
    highest = highest_shown(group)
    lines = []
    own = group.row(against) if group.plain else None
    for row in group.rows:
        best = frozenset({2} if f"{row.accuracy:.2f}" == highest and len(group.rows) > 1 else ())
        lines.append(Line(_cells(row), best, row is own))
    return Sheet(title(group), HEADS, lines)


def highest_shown(group: Group) -> str:
    """The highest accuracy as a table shows it: rows that show the same are equally good."""
    return max((f"{row.accuracy:.2f}" for row in group.rows), key=float, default="")


def told(row: Row) -> str:
    """What a row's method was told, or keeps."""
    return ", ".join(need.replace("_", " ") for need in row.first.result.get("needs", [])) or "nothing"


def measured_sheet(group: Group) -> Sheet | None:
    """What an experiment measured besides, mean over seeds; None if it is nothing."""
    keys = list(dict.fromkeys(key for row in group.rows for run in row.runs for key in run.measured))
    lines = []
    for row in group.rows:
        means = [Mean.of([_number(run.measured.get(key)) for run in row.runs]) for key in keys]
        if any(mean is not None for mean in means):
            lines.append(Line((row.name, *(spread(mean, 3) for mean in means))))
    if not lines:
        return None
    return Sheet("Measured besides", [Head("method"), *(Head(key.replace("_", " ")) for key in keys)], lines)


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else float("nan")


def _cells(row: Row) -> tuple[str, ...]:
    return (
        row.name,
        str(len(row.runs)),
        spread(row.mean("final_accuracy"), 2),
        spread(row.mean("forgetting"), 1),
        plain(row.mean("anytime_accuracy"), 1),
        plain(row.mean("online_accuracy"), 1),
        told(row),
        str(row.first.result.get("mask", "-")),
        plain(row.mean("trainable_percent"), 2),
        plain(row.mean("memory_bytes"), 2, 1e-6),
        plain(row.mean("forwards_per_image"), 2),
        plain(row.mean("timing.learned_images_per_second"), 0),
    )


def title(group: Group) -> str:
    """What a group is, in a line."""
    setting = group.setting
    tasks = group.tasks
    count = f"{tasks[0]} task{'s' if tasks[0] != 1 else ''}" if len(tasks) == 1 else f"{tasks[0]} to {tasks[-1]} tasks"
    parts = [setting.benchmark, setting.backbone, count, *group.unusual]
    return (f"Experiment {setting.experiment}: " if setting.experiment else "") + ", ".join(parts)


def spread(mean: Mean | None, digits: int) -> str:
    """A mean and half its interval."""
    if mean is None:
        return "-"
    return f"{mean.value:.{digits}f}" + ("" if mean.half is None else f" ± {mean.half:.{digits}f}")


def plain(mean: Mean | None, digits: int, unit: float = 1.0) -> str:
    """A mean alone."""
    return "-" if mean is None else f"{mean.value * unit:,.{digits}f}"


def results_csv(groups: Sequence[Group]) -> str:
    """Every row of every group, unrounded; what is not known is left empty."""
    shared: dict[str, Callable[[Group, Row], Any]] = {
        "experiment": lambda g, r: g.setting.experiment,
        "benchmark": lambda g, r: g.setting.benchmark,
        "data_hash": lambda g, r: g.setting.data,
        "backbone": lambda g, r: g.setting.backbone,
        "weights_hash": lambda g, r: g.setting.weights,
        "tasks": lambda g, r: " ".join(map(str, Group(g.setting, [r]).tasks)),
        "method": lambda g, r: r.method,
        "label": lambda g, r: r.label,
        "needs": lambda g, r: " ".join(r.first.result.get("needs", [])),
        "mask": lambda g, r: r.first.result.get("mask", ""),
        "seeds": lambda g, r: " ".join(str(run.seed) for run in r.runs),
    }
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    figures = [f"{key}{part}" for key in ACCURACIES for part in ("", "_deviation", "_half_interval")]
    writer.writerow([*shared, *figures, *(key.rpartition(".")[2] for key in COSTS)])
    for group in groups:
        for row in group.rows:
            cells = [value(group, row) for value in shared.values()]
            for key in ACCURACIES:
                mean = row.mean(key)
                cells += ["", "", ""] if mean is None else [mean.value, mean.deviation, mean.half]
            cells += [mean.value if (mean := row.mean(key)) is not None else "" for key in COSTS]
            writer.writerow(["" if cell is None else cell for cell in cells])
    return out.getvalue()
