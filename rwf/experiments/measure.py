"""What an experiment measures beyond the figures of its runs: read from rows and run folders, after the runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rwf.experiments.moves import moved
from rwf.experiments.rows import Row
from rwf.files import read_json, read_jsonl
from rwf.run.maps import FOLDER
from rwf.run.params import row as count
from rwf.run.record import ROWS
from rwf.run.result import PREDICTIONS
from rwf.vit.weights import load_backbone

AFTER = (1, 2, 4, 8)
"""Batches after a change of task over which the online accuracy is taken."""


def measure(experiment: str, rows: Sequence[Row], out: Path) -> None:
    """Fills in what this experiment measures, in the rows of runs that have ended well."""
    done = [row for row in rows if row["status"] == "done"]
    if experiment in MEASURES:
        MEASURES[experiment](done, out)


def drops(rows: Sequence[Row], _out: Path) -> None:
    """Few-shot: points lost against all pictures, and the share of the accuracy that is lost."""
    whole = {_same(row, "fraction"): row["result"]["final_accuracy"] for row in rows if row["cell"]["fraction"] == 1}
    for row in rows:
        full = whole.get(_same(row, "fraction"))
        if full is not None:
            lost = full - row["result"]["final_accuracy"]
            row["measured"] |= {"drop": lost, "relative_drop": 100.0 * lost / full if full else None}


def _same(row: Row, apart: str) -> tuple[Any, ...]:
    """What two rows have in common that differ in one label only."""
    return (row["seed"], *sorted((key, str(value)) for key, value in row["cell"].items() if key != apart))


def after_switch(rows: Sequence[Row], out: Path) -> None:
    """Switch: mean online accuracy over the first batches after a change of task, changes weighing alike."""
    for row in rows:
        tasks = online_by_task(read_jsonl(out / row["folder"] / ROWS))
        later = tasks[1:]
        for first in AFTER:
            means = [100.0 * sum(task[:first]) / len(task[:first]) for task in later]
            row["measured"][f"first_{first}"] = sum(means) / len(means) if means else None
        ends = [100.0 * sum(task[-AFTER[-1] :]) / len(task[-AFTER[-1] :]) for task in later]
        row["measured"][f"last_{AFTER[-1]}"] = sum(ends) / len(ends) if ends else None


def online_by_task(lines: Sequence[dict[str, Any]]) -> list[list[float]]:
    """The online accuracies of each task's batches, in their order (a share of 1)."""
    tasks: list[list[float]] = []
    for line in lines:
        if "classes" in line:
            tasks.append([])
        elif "online" in line:
            tasks[-1].append(line["online"])
    return [task for task in tasks if task]


def last_figures(rows: Sequence[Row], out: Path) -> None:
    """Prompts, fine-grained: what the observer of routing saw at the end."""
    for row in rows:
        files = sorted((out / row["folder"] / FOLDER).glob("figures-*.json"))
        if files:
            row["measured"] |= read_json(files[-1])


def moves(rows: Sequence[Row], out: Path) -> None:
    """Drift: how far maps moved, and what was forgotten."""
    for row in rows:
        row["measured"] |= moved(out / row["folder"])


def gains(rows: Sequence[Row], _out: Path) -> None:
    """Resolution: points above the linear probe under the same labels and seed."""
    probes = {_same(row, "method"): row["result"]["final_accuracy"] for row in rows if row["method"] == "linear_probe"}
    for row in rows:
        probe = probes.get(_same(row, "method"))
        if probe is not None and row["method"] != "linear_probe":
            row["measured"]["above_probe"] = row["result"]["final_accuracy"] - probe


def counts(rows: Sequence[Row], out: Path) -> None:
    """Parameters: trained in a task and ever, and stored, as `rwf params` counts them on this backbone."""
    found: dict[str, dict[str, Any]] = {}
    for row in rows:
        run, method = row["asked"]["run"], row["method"]
        if method not in found:
            with np.load(out / row["folder"] / PREDICTIONS) as file:
                classes = len(file["classes"])
            vit = load_backbone(run["backbone"], pretrained=False, image_size=run["image_size"])
            found[method] = count(method, "", row["asked"]["options"], vit, classes)
        row["measured"] |= {key: found[method][key] for key in ("per_task", "ever", "stored", "paper_percent")}


MEASURES: dict[str, Callable[[Sequence[Row], Path], None]] = {
    "few-shot": drops,
    "parameters": counts,
    "prompts": last_figures,
    "switch": after_switch,
    "drift": moves,
    "resolution": gains,
    "fine-grained": last_figures,
}
