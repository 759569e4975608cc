"""How the routing of fixed pictures moved in a run, and whether what moved was forgotten: read from its folder."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rwf.metrics import accuracy_matrix, plain
from rwf.run.maps import FOLDER, PICTURES
from rwf.run.result import PREDICTIONS

Floats = NDArray[np.float64]
LEAST = 3
"""Tasks or pictures of which a correlation may be spoken of."""


def moved(folder: Path) -> dict[str, float | None]:
    """Distances are total variation, mean over blocks and prompts; docs/experiments.md says how to read them."""
    files = sorted(path for path in (folder / FOLDER).glob("*.npz") if path.name != PICTURES)
    if not files:
        return {}
    maps = [load(path) for path in files]  # one before the stream, one an evaluation; P K L
    with np.load(folder / FOLDER / PICTURES) as kept:
        ids = kept["ids"]
    with np.load(folder / PREDICTIONS) as said:
        labels, tasks, guesses = said["labels"], said["tasks"], said["evaluations"]
    steps = [float(distance(a, b).mean()) for a, b in pairwise(maps)]
    learned = tasks[ids] + 1  # the map right after a picture's task was learned
    since = np.array([distance(maps[at][p : p + 1], maps[-1][p : p + 1])[0] for p, at in enumerate(learned)])
    matrix = accuracy_matrix(labels, tasks, guesses)
    earlier = [j for j in range(len(matrix) - 1) if (tasks[ids] == j).any()]
    lost = np.array([matrix[j, j] - matrix[-1, j] for j in earlier])
    by_task = np.array([since[tasks[ids] == j].mean() for j in earlier])
    once = guesses[tasks[ids], ids] == labels[ids]
    still = guesses[-1, ids] == labels[ids]
    out: dict[str, float] = {
        "moved_in_first_task": steps[0],
        "moved_in_last_task": steps[-1],
        "moved_since_learned": mean(since[tasks[ids] < len(matrix) - 1]),
        "moved_of_forgotten": mean(since[once & ~still]),
        "moved_of_kept": mean(since[once & still & (tasks[ids] < len(matrix) - 1)]),
        "correlation_with_forgetting": correlation(by_task, lost),
        "correlation_without_age": correlation(without_line(by_task), without_line(lost)),
    }
    return {name: plain(np.array([value]))[0] for name, value in out.items()}


def load(path: Path) -> Floats:
    """The maps of all routed blocks side by side.  # P K L"""
    with np.load(path) as file:
        return np.concatenate([file[name].astype(np.float64) for name in sorted(file.files)], axis=1)


def distance(a: Floats, b: Floats) -> Floats:
    """Total variation between two maps of each picture, mean over prompts.  # P K L, P K L -> P"""
    out: Floats = np.abs(a - b).sum(-1).mean(-1) / 2
    return out


def mean(values: Floats) -> float:
    return float(values.mean()) if len(values) else float("nan")


def correlation(a: Floats, b: Floats) -> float:
    """Pearson's; NaN where there is too little or nothing varies."""
    if len(a) < LEAST or np.ptp(a) == 0 or np.ptp(b) == 0:
        return float("nan")
    return float(np.corrcoef(a, b)[0, 1])


def without_line(values: Floats) -> Floats:
    """What is left of a series when its straight line over the tasks is taken off: older tasks lose and move more."""
    if len(values) < LEAST + 1:
        return np.zeros(len(values))
    at = np.arange(len(values))
    out: Floats = values - np.polyval(np.polyfit(at, values, 1), at)
    return out
