"""Every number of result.json that is made of accuracies: arrays in, percent out, formulas in docs/metrics.md.

R[i, j] is the accuracy on the test pictures of task j after training task i, in percent; NaN where it was not
evaluated.  A task that was never evaluated (it has no test pictures) is left out of every mean.  What a matrix does
not determine is NaN, and None in ``summary``, which is what goes into a file.

A stream without tasks has evaluations i and groups of classes j. There ``learned`` says by which evaluation each group
was learned (``learned_at`` finds it); without it task j is learned at evaluation j.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

NOT_EVALUATED = -1
"""Stands in arrays of predicted classes for a picture that was not shown at that point."""


def accuracy_matrix(labels: ArrayLike, tasks: ArrayLike, predictions: ArrayLike, count: int | None = None) -> Floats:
    """Percent right at each evaluation for each task's pictures.

    ``labels`` and ``tasks`` have one number a test picture (N), ``predictions`` a line an evaluation (E N).  # -> E T
    """
    labels, tasks, predictions = np.asarray(labels), np.asarray(tasks), np.atleast_2d(predictions)
    shown = predictions != NOT_EVALUATED
    right = shown & (predictions == labels)
    member = np.arange(int(tasks.max()) + 1 if count is None else count)[:, None] == tasks  # T N
    return _percent(right.astype(float) @ member.T, shown.astype(float) @ member.T)


def accuracy(labels: ArrayLike, predictions: ArrayLike) -> Floats:
    """Percent right at each evaluation over all pictures shown there.  # N, E N -> E"""
    predictions = np.atleast_2d(predictions)
    shown = predictions != NOT_EVALUATED
    return _percent((shown & (predictions == np.asarray(labels))).sum(1), shown.sum(1))


def _percent(part: Any, whole: Any) -> Floats:
    part, whole = np.asarray(part, float), np.asarray(whole, float)
    return np.divide(100.0 * part, whole, out=np.full(whole.shape, math.nan), where=whole > 0)


def _evaluated(matrix: Floats) -> list[int]:
    """The tasks that were evaluated at all."""
    return [int(j) for j in np.flatnonzero(~np.isnan(matrix).all(axis=0))]


def _mean(values: list[float]) -> float:
    return float(np.mean(values)) if values else math.nan


def learned_at(groups: ArrayLike, ends: ArrayLike, count: int) -> NDArray[np.int64]:
    """For each group the first evaluation by which at least half of its training pictures had come.

    ``groups`` is the group of each picture in the order of the stream (N), ``ends`` how many pictures had come at each
    evaluation (E). Where task follows task this is task j at evaluation j.  # -> T
    """
    groups = np.asarray(groups, int)
    came = np.stack([np.bincount(groups[:end], minlength=count) for end in np.asarray(ends, int)])  # E T
    return (2 * came >= came[-1]).argmax(0)


def _learned(matrix: Floats, learned: ArrayLike | None) -> list[int] | None:
    """By which evaluation each task was learned and asked; None if nobody says and evaluations are not one a task."""
    if learned is not None:
        asked = (~np.isnan(matrix)).argmax(axis=0)
        return [int(i) for i in np.maximum(np.asarray(learned, int), asked)]
    return list(range(len(matrix))) if matrix.shape[0] == matrix.shape[1] else None


def _loss(matrix: ArrayLike, learned: ArrayLike | None, lost: Callable[[Floats, int], float]) -> float:
    """Mean of what was lost on the tasks that were learned before the last evaluation.

    ``lost`` gets a task's accuracies at all evaluations, and by which of them it was learned.
    """
    r = np.asarray(matrix, float)
    at = _learned(r, learned)
    return math.nan if at is None else _mean([lost(r[:, j], at[j]) for j in _evaluated(r) if at[j] < len(r) - 1])


def final_accuracy(matrix: ArrayLike) -> float:
    """Mean over tasks of the accuracy at the end."""
    r = np.asarray(matrix, float)
    return _mean([r[-1, j] for j in _evaluated(r)])


def forgetting(matrix: ArrayLike, learned: ArrayLike | None = None) -> float:
    """Mean over tasks 1..T-1 of the best accuracy since the task was trained minus the one at the end."""
    return _loss(matrix, learned, lambda r, i: float(np.nanmax(r[i:]) - r[-1]))


def forgetting_all_tasks(matrix: ArrayLike, learned: ArrayLike | None = None) -> float:
    """As ``forgetting``, but evaluations before training count too, and the mean is over all T tasks."""
    r = np.asarray(matrix, float)
    if _learned(r, learned) is None:
        return math.nan
    return _mean([np.nanmax(r[:, j]) - r[-1, j] for j in _evaluated(r)])


def forgetting_after_learning(matrix: ArrayLike, learned: ArrayLike | None = None) -> float:
    """Mean over tasks 1..T-1 of the accuracy right after training minus the one at the end; can be negative."""
    return _loss(matrix, learned, lambda r, i: float(r[i] - r[-1]))


def backward_transfer(matrix: ArrayLike, learned: ArrayLike | None = None) -> float:
    """What later tasks gave to earlier ones: the negative of ``forgetting_after_learning``."""
    return 0.0 - forgetting_after_learning(matrix, learned)


def learning_accuracy(matrix: ArrayLike, learned: ArrayLike | None = None) -> float:
    """Mean over tasks of the accuracy right after training."""
    r = np.asarray(matrix, float)
    at = _learned(r, learned)
    return math.nan if at is None else _mean([r[at[j], j] for j in _evaluated(r)])


def average_incremental_accuracy(matrix: ArrayLike, learned: ArrayLike | None = None) -> float:
    """Mean over i of the mean accuracy on the tasks trained so far, 1..i; without tasks, on all groups met so far."""
    r = np.asarray(matrix, float)
    if _learned(r, learned) is None:
        return math.nan
    tasks = _evaluated(r)
    if learned is None:
        rows = [[r[i, j] for j in tasks if j <= i] for i in range(len(r))]
    else:
        rows = [[r[i, j] for j in tasks if not math.isnan(r[i, j])] for i in range(len(r))]
    return _mean([_mean(row) for row in rows if row])


def online_accuracy(correct: ArrayLike) -> float:
    """Percent of the stream's pictures that were classified right before they were learned."""
    return 100.0 * _mean(np.asarray(correct, float).ravel().tolist())


@dataclass(frozen=True)
class Curve:
    """Accuracy on one fixed set of test pictures while the stream goes by."""

    seen: Floats
    """Pictures learned before each point, growing.  # K"""
    accuracy: Floats
    """Percent right at each point, over the pictures of classes met so far.  # K"""
    by_task: Floats
    """The same for each task's pictures.  # K T"""
    task_end: Floats
    """Pictures learned when each task had ended, or each group of classes had been learned.  # T"""

    def until(self, j: int) -> Floats:
        """Accuracies on task j at the points up to its end at which it was asked."""
        return _known(self.by_task[self.seen <= self.task_end[j], j])

    def after(self, j: int) -> Floats:
        """Accuracies on task j at all points after its end."""
        return _known(self.by_task[self.seen > self.task_end[j], j])

    @property
    def earlier(self) -> list[int]:
        """The tasks that others came after, and that have pictures in the fixed set."""
        return [j for j in _evaluated(self.by_task) if len(self.after(j)) and len(self.until(j))]


def _known(values: Floats) -> Floats:
    return values[~np.isnan(values)]


def anytime_accuracy(seen: ArrayLike, accuracies: ArrayLike) -> float:
    """Area under the accuracy curve over pictures seen, divided by all pictures seen.

    A step function that has, between two points, the value of the later one: the mean if points are evenly spaced.
    Points at which nothing could be asked are left out.
    """
    n, a = np.asarray(seen, float), np.asarray(accuracies, float)
    n, a = n[~np.isnan(a)], a[~np.isnan(a)]
    return float(np.average(a, weights=np.diff(n, prepend=0.0))) if len(n) else math.nan


def worst_case_accuracy(curve: Curve) -> float:
    """Last task's accuracy at the end, and for each earlier task the lowest after its end; mean over tasks."""
    if not len(curve.seen):
        return math.nan
    earlier = curve.earlier
    rest = [j for j in _evaluated(curve.by_task) if j not in earlier]
    return _mean([curve.after(j).min() for j in earlier] + [curve.by_task[-1, j] for j in rest])


def stability_gap(curve: Curve) -> float:
    """How far accuracy on an earlier task sank below both where it started and where it ended; mean over tasks.

    The part of forgetting that came back: 0 if every loss is a lasting one.
    """
    gaps = [min(curve.until(j)[-1], curve.by_task[-1, j]) - curve.after(j).min() for j in curve.earlier]
    return max(_mean(gaps), 0.0) if gaps else math.nan


def summary(
    matrix: ArrayLike,
    *,
    curve: Curve | None = None,
    correct: ArrayLike | None = None,
    learned: ArrayLike | None = None,
) -> dict[str, Any]:
    """All accuracies of result.json by key, as JSON can hold them: None for what is not determined."""
    r = np.atleast_2d(np.asarray(matrix, float))
    numbers = {
        "final_accuracy": final_accuracy(r),
        "forgetting": forgetting(r, learned),
        "forgetting_all_tasks": forgetting_all_tasks(r, learned),
        "forgetting_after_learning": forgetting_after_learning(r, learned),
        "backward_transfer": backward_transfer(r, learned),
        "learning_accuracy": learning_accuracy(r, learned),
        "average_incremental_accuracy": average_incremental_accuracy(r, learned),
        "anytime_accuracy": math.nan if curve is None else anytime_accuracy(curve.seen, curve.accuracy),
        "worst_case_accuracy": math.nan if curve is None else worst_case_accuracy(curve),
        "stability_gap": math.nan if curve is None else stability_gap(curve),
        "online_accuracy": math.nan if correct is None else online_accuracy(correct),
    }
    return {**{key: plain(value) for key, value in numbers.items()}, "accuracy_matrix": plain(r)}


def plain(value: Any) -> Any:
    """Numbers and arrays as JSON can hold them: NaN becomes None."""
    if isinstance(value, np.ndarray):
        return [plain(item) for item in value]
    return None if math.isnan(value) else float(value)
