"""Every number of result.json that is made of accuracies: arrays in, percent out, formulas in docs/metrics.md.

R[i, j] is the accuracy on the test pictures of task j after training task i, in percent; NaN where it was not
evaluated.  A task that was never evaluated (it has no test pictures) is left out of every mean.  What a matrix does
not determine is NaN, and None in ``summary``, which is what goes into a file.
"""

from __future__ import annotations

import math
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


def _learned(matrix: Floats, j: int) -> float:
    """Accuracy on task j right after it was trained; NaN if evaluations do not follow the tasks (an iid stream)."""
    return float(matrix[j, j]) if matrix.shape[0] == matrix.shape[1] else math.nan


def final_accuracy(matrix: ArrayLike) -> float:
    """Mean over tasks of the accuracy at the end."""
    r = np.asarray(matrix, float)
    return _mean([r[-1, j] for j in _evaluated(r)])


def forgetting(matrix: ArrayLike) -> float:
    """Mean over tasks 1..T-1 of the best accuracy since the task was trained minus the one at the end."""
    r = np.asarray(matrix, float)
    if r.shape[0] != r.shape[1]:
        return math.nan
    return _mean([np.nanmax(r[j:, j]) - r[-1, j] for j in _evaluated(r) if j < r.shape[1] - 1])


def forgetting_all_tasks(matrix: ArrayLike) -> float:
    """As ``forgetting``, but evaluations before training count too, and the mean is over all T tasks."""
    r = np.asarray(matrix, float)
    if r.shape[0] != r.shape[1]:
        return math.nan
    return _mean([np.nanmax(r[:, j]) - r[-1, j] for j in _evaluated(r)])


def forgetting_after_learning(matrix: ArrayLike) -> float:
    """Mean over tasks 1..T-1 of the accuracy right after training minus the one at the end; can be negative."""
    r = np.asarray(matrix, float)
    return _mean([_learned(r, j) - r[-1, j] for j in _evaluated(r) if j < r.shape[1] - 1])


def backward_transfer(matrix: ArrayLike) -> float:
    """What later tasks gave to earlier ones: the negative of ``forgetting_after_learning``."""
    return 0.0 - forgetting_after_learning(matrix)


def learning_accuracy(matrix: ArrayLike) -> float:
    """Mean over tasks of the accuracy right after training."""
    r = np.asarray(matrix, float)
    return _mean([_learned(r, j) for j in _evaluated(r)])


def average_incremental_accuracy(matrix: ArrayLike) -> float:
    """Mean over i of the mean accuracy on the tasks trained so far, 1..i."""
    r = np.asarray(matrix, float)
    if r.shape[0] != r.shape[1]:
        return math.nan
    tasks = _evaluated(r)
    rows = [[r[i, j] for j in tasks if j <= i] for i in range(len(r))]
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
    """Pictures learned when each task had ended.  # T"""

    def after(self, j: int) -> Floats:
        """Accuracies on task j at all points after its end."""
        return self.by_task[self.seen > self.task_end[j], j]

    def at_end(self, j: int) -> float:
        """Accuracy on task j at the last point before the next task began."""
        return float(self.by_task[self.seen <= self.task_end[j], j][-1])

    @property
    def earlier(self) -> list[int]:
        """The tasks that others came after, and that have pictures in the fixed set."""
        return [j for j in _evaluated(self.by_task) if len(self.after(j)) and (self.seen <= self.task_end[j]).any()]


def anytime_accuracy(seen: ArrayLike, accuracies: ArrayLike) -> float:
    """Area under the accuracy curve over pictures seen, divided by all pictures seen.

    A step function that has, between two points, the value of the later one: the mean if points are evenly spaced.
    """
    n, a = np.asarray(seen, float), np.asarray(accuracies, float)
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
    gaps = [min(curve.at_end(j), curve.by_task[-1, j]) - curve.after(j).min() for j in curve.earlier]
    return max(_mean(gaps), 0.0) if gaps else math.nan


def summary(matrix: ArrayLike, *, curve: Curve | None = None, correct: ArrayLike | None = None) -> dict[str, Any]:
    """All accuracies of result.json by key, as JSON can hold them: None for what is not determined."""
    r = np.atleast_2d(np.asarray(matrix, float))
    numbers = {
        "final_accuracy": final_accuracy(r),
        "forgetting": forgetting(r),
        "forgetting_all_tasks": forgetting_all_tasks(r),
        "forgetting_after_learning": forgetting_after_learning(r),
        "backward_transfer": backward_transfer(r),
        "learning_accuracy": learning_accuracy(r),
        "average_incremental_accuracy": average_incremental_accuracy(r),
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
