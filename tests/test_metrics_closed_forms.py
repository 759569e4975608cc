"""Learners whose accuracy is a formula of time: the metrics give what the formula says."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rwf import metrics

TASKS = st.integers(2, 12)
LEVELS = st.floats(1, 100)
RATES = st.floats(0.05, 0.95)


def geometric(level: float, rate: float, tasks: int) -> np.ndarray:
    """A task is learned to ``level``, and every later one leaves the part ``rate`` of it.  # T T"""
    i, j = np.indices((tasks, tasks))
    return np.where(i >= j, level * rate ** np.maximum(i - j, 0.0), np.nan)


@given(LEVELS, RATES, TASKS)
def test_geometric_forgetting(level: float, rate: float, tasks: int) -> None:
    found = metrics.summary(geometric(level, rate, tasks))
    part = (1 - rate**tasks) / (1 - rate)  # 1 + rate + ... + rate^(T - 1)
    assert found["learning_accuracy"] == pytest.approx(level)
    assert found["final_accuracy"] == pytest.approx(level * part / tasks)
    lost = level * (1 - (part - 1) / (tasks - 1))
    assert found["forgetting"] == found["forgetting_after_learning"] == pytest.approx(lost, abs=1e-9)
    assert found["forgetting_all_tasks"] == pytest.approx(lost * (tasks - 1) / tasks, abs=1e-9)
    assert found["backward_transfer"] == pytest.approx(-lost, abs=1e-9)
    rows = [level * (1 - rate**i) / (1 - rate) / i for i in range(1, tasks + 1)]
    assert found["average_incremental_accuracy"] == pytest.approx(np.mean(rows))


@given(st.integers(1, 50), st.floats(0, 100), st.floats(0, 100))
def test_the_area_under_a_straight_line(points: int, start: float, rise: float) -> None:
    """At k / K of the stream a + b k / K: the step function of the later values has the area a + b (K + 1) / 2 K, which
    goes to that of the line, a + b / 2."""
    k = np.arange(1, points + 1)
    area = metrics.anytime_accuracy(64.0 * k, start + rise * k / points)
    assert area == pytest.approx(start + rise * (points + 1) / (2 * points), abs=1e-9)


@given(st.lists(st.integers(1, 100), min_size=1, max_size=10), LEVELS)
def test_the_area_does_not_care_where_a_level_curve_is_asked(steps: list[int], level: float) -> None:
    assert metrics.anytime_accuracy(np.cumsum(steps), [level] * len(steps)) == pytest.approx(level)


def test_points_at_which_nothing_was_asked_are_left_out() -> None:
    assert metrics.anytime_accuracy([10, 20, 40], [np.nan, 50.0, 80.0]) == pytest.approx((20 * 50 + 20 * 80) / 40)
    assert np.isnan(metrics.anytime_accuracy([10], [np.nan]))


@given(TASKS, LEVELS, st.floats(0, 1), st.floats(0, 1))
def test_a_dip_that_comes_back(tasks: int, level: float, depth: float, back: float) -> None:
    """Three points a task. In the first third of the next task every earlier task falls to ``low``, then it comes back
    to ``high``: the worst case sees the fall, the stability gap what came back of it, forgetting what did not."""
    low, high = level * depth * back, level * back
    by_task = np.full((3 * tasks, tasks), np.nan)
    for point in range(3 * tasks):
        task, third = divmod(point, 3)
        by_task[point, :task] = low if third == 0 else high
        by_task[point, task] = level
    seen = np.arange(100.0, 300 * tasks + 1, 100)
    curve = metrics.Curve(seen, np.nanmean(by_task, 1).astype(float), by_task, seen[2::3])
    assert metrics.stability_gap(curve) == pytest.approx(high - low, abs=1e-9)
    assert metrics.worst_case_accuracy(curve) == pytest.approx((level + (tasks - 1) * low) / tasks)
    found = metrics.summary(by_task[2::3], curve=curve)
    assert found["forgetting"] == pytest.approx(level - high, abs=1e-9)
    assert found["learning_accuracy"] == pytest.approx(level)
    each = [(level + t * low + 2 * (level + t * high)) / (3 * (t + 1)) for t in range(tasks)]
    assert found["anytime_accuracy"] == pytest.approx(np.mean(each))


def test_a_group_is_learned_when_it_could_be_asked() -> None:
    nan = np.nan
    r = [[nan, 50.0], [nan, 60.0], [40.0, 70.0]]
    assert metrics.learning_accuracy(r, [0, 1]) == pytest.approx((40 + 60) / 2)
    assert metrics.forgetting(r, [0, 1]) == pytest.approx(0)
