"""The table at the end of an experiment: a line a cell, mean and deviation over its seeds, in Markdown."""

from __future__ import annotations

import json
from collections.abc import Sequence
from statistics import fmean, stdev

from rwf.experiments.rows import Row

FIGURES = ("final_accuracy", "forgetting", "online_accuracy", "trainable_percent", "forwards_per_image")


def summary(rows: Sequence[Row]) -> str:
    """The rows for a person."""
    cells: dict[str, list[Row]] = {}
    for row in rows:
        cells.setdefault(json.dumps(row["cell"]), []).append(row)
    labels = list(dict.fromkeys(name for row in rows for name in row["cell"]))
    more = list(dict.fromkeys(n for row in rows for n, v in row["measured"].items() if isinstance(v, int | float)))
    titles = [*labels, "runs", *(name.replace("_", " ") for name in (*FIGURES, *more)), "needs"]
    lines = [_line(group, labels, more) for group in cells.values()]
    table = "\n".join("| " + " | ".join(cells) + " |" for cells in [titles, ["---"] * len(titles), *lines])
    failed = [f"- {_name(row)}: {row['error']}" for row in rows if row["status"] == "failed"]
    return "\n\n".join([table, *(["Failed:\n\n" + "\n".join(failed)] if failed else [])])


def _line(group: Sequence[Row], labels: Sequence[str], more: Sequence[str]) -> list[str]:
    done = [row for row in group if row["status"] == "done"]
    figures = [spread([row["result"].get(name) for row in done]) for name in FIGURES]
    figures += [spread([row["measured"].get(name) for row in done]) for name in more]
    needs = ", ".join(done[0]["result"]["needs"]) if done else ""
    runs = str(len(done)) if len(done) == len(group) else f"{len(done)} of {len(group)}"
    return [*(_label(group[0]["cell"].get(name, "")) for name in labels), runs, *figures, needs]


def spread(values: Sequence[float | None]) -> str:
    """Mean and standard deviation of a sample."""
    known = [value for value in values if value is not None]
    if not known:
        return ""
    return f"{fmean(known):.2f}" + (f" ± {stdev(known):.2f}" if len(known) > 1 else "")


def _label(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _name(row: Row) -> str:
    return ", ".join([*(f"{name} {_label(value)}" for name, value in row["cell"].items()), f"seed {row['seed']}"])
