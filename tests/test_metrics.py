"""Metrics against the official functions' outputs, against literal loops, and what must hold of any matrix."""

from __future__ import annotations

import json
import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from rwf import metrics
from tests.shared import shared

MATRICES = ["full_random", "lower_triangular", "realistic_decay"]
PERCENT = st.floats(0, 100)
TASK_METRICS = """forgetting forgetting_all_tasks forgetting_after_learning backward_transfer learning_accuracy
average_incremental_accuracy""".split()


@pytest.fixture(scope="module")
def golden() -> Any:
    return np.load(shared("golden", "metrics.npz"))


def learned_only(matrix: np.ndarray) -> np.ndarray:
    """NaN where a task had not been trained yet, as in a run that evaluates what it has seen."""
    return np.where(np.tri(len(matrix)) > 0, matrix, np.nan)


@st.composite
def matrices(draw: st.DrawFn, *, least: int = 1) -> np.ndarray:
    size = draw(st.integers(least, 6))
    return draw(arrays(float, (size, size), elements=PERCENT))


# -- the official functions' numbers -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MATRICES)
@pytest.mark.parametrize("trained_only", [True, False])
def test_online_lora_prints_these_after_every_task(golden: Any, name: str, trained_only: bool) -> None:
    r = 100 * golden[f"R_{name}"]
    for t, (average, forgotten, backward) in enumerate(golden[f"engine_{name}"], 1):
        part = learned_only(r)[:t, :t] if trained_only else r[:t, :t]
        assert metrics.final_accuracy(part) == pytest.approx(average, abs=6e-5)
        assert metrics.forgetting(part) == pytest.approx(forgotten, abs=6e-5, nan_ok=True)
        assert metrics.backward_transfer(part) == pytest.approx(backward, abs=6e-5, nan_ok=True)


@pytest.mark.parametrize("name", MATRICES)
def test_mammoth_gives_the_same_forgetting_and_backward_transfer(golden: Any, name: str) -> None:
    r = golden[f"R_{name}"]
    assert metrics.forgetting(r) == pytest.approx(golden[f"mammoth_forgetting_{name}"], abs=1e-9)
    assert metrics.backward_transfer(r) == pytest.approx(golden[f"mammoth_bwt_{name}"], abs=1e-9)


@pytest.mark.parametrize("name", MATRICES)
def test_raptor_gives_these_as_means_over_two_runs(golden: Any, name: str) -> None:
    runs = golden[f"raptor_runs_{name}"]
    final, forgotten, incremental = golden[f"raptor_perf_{name}"][:3, 0]
    assert np.mean([metrics.final_accuracy(r) for r in runs]) == pytest.approx(final, abs=1e-9)
    assert np.mean([metrics.forgetting_all_tasks(r) for r in runs]) == pytest.approx(forgotten, abs=1e-9)
    assert np.mean([metrics.average_incremental_accuracy(r) for r in runs]) == pytest.approx(incremental, abs=1e-9)


def test_three_definitions_of_forgetting_on_one_matrix(golden: Any) -> None:
    r = golden["R_full_random"]
    assert metrics.forgetting(r) == pytest.approx(0.4525, abs=5e-5)
    assert metrics.forgetting_all_tasks(r) == pytest.approx(0.426, abs=5e-5)
    # Avalanche counted a hundred test pictures a task, so its accuracies have two digits
    assert metrics.forgetting_after_learning(np.round(r, 2)) == pytest.approx(0.235, abs=1e-9)


# -- literal forms -------------------------------------------------------------------------------------------------


@given(st.data(), st.integers(1, 4), st.integers(1, 12), st.integers(1, 4))
def test_the_matrix_is_what_counting_gives(data: st.DataObject, evaluations: int, pictures: int, count: int) -> None:
    labels = data.draw(arrays(int, pictures, elements=st.integers(0, 3)))
    tasks = data.draw(arrays(int, pictures, elements=st.integers(0, count - 1)))
    predictions = data.draw(arrays(int, (evaluations, pictures), elements=st.integers(-1, 3)))
    r = metrics.accuracy_matrix(labels, tasks, predictions, count)
    assert r.shape == (evaluations, count)
    for i in range(evaluations):
        everywhere = [predictions[i, n] == labels[n] for n in range(pictures) if predictions[i, n] != -1]
        expected = 100 * sum(everywhere) / len(everywhere) if everywhere else math.nan
        assert metrics.accuracy(labels, predictions)[i] == pytest.approx(expected, nan_ok=True)
        for j in range(count):
            shown = [n for n in range(pictures) if tasks[n] == j and predictions[i, n] != -1]
            right = [n for n in shown if predictions[i, n] == labels[n]]
            expected = 100 * len(right) / len(shown) if shown else math.nan
            assert r[i, j] == pytest.approx(expected, nan_ok=True)


def test_by_hand() -> None:
    nan = math.nan
    r = np.array([[90.0, nan, nan], [50.0, 80.0, nan], [70.0, 60.0, 85.0]])
    assert metrics.final_accuracy(r) == pytest.approx((70 + 60 + 85) / 3)
    assert metrics.forgetting(r) == pytest.approx((20 + 20) / 2)
    assert metrics.forgetting_all_tasks(r) == pytest.approx((20 + 20 + 0) / 3)
    assert metrics.learning_accuracy(r) == pytest.approx((90 + 80 + 85) / 3)
    assert metrics.average_incremental_accuracy(r) == pytest.approx((90 + 65 + (70 + 60 + 85) / 3) / 3)
    assert metrics.online_accuracy([True, False, False, True, True]) == pytest.approx(60)


def curve_by_hand() -> metrics.Curve:
    nan = math.nan
    by_task = np.array([[80.0, nan], [90.0, nan], [30.0, 40.0], [70.0, 60.0]])
    return metrics.Curve(np.array([10.0, 20, 30, 40]), np.array([80.0, 90, 35, 65]), by_task, np.array([20.0, 40]))


def test_the_curve_by_hand() -> None:
    curve = curve_by_hand()
    assert metrics.anytime_accuracy(curve.seen, curve.accuracy) == pytest.approx((80 + 90 + 35 + 65) / 4)
    assert metrics.anytime_accuracy([10, 40], [80, 50]) == pytest.approx((10 * 80 + 30 * 50) / 40)
    assert metrics.worst_case_accuracy(curve) == pytest.approx((30 + 60) / 2)
    assert metrics.stability_gap(curve) == pytest.approx(min(90, 70) - 30)


def test_the_summary_is_json_with_none_for_what_is_not_known() -> None:
    whole = metrics.summary([[90.0, math.nan], [70.0, 80.0]], curve=curve_by_hand(), correct=[1, 0])
    assert json.loads(json.dumps(whole, allow_nan=False)) == whole
    assert whole["accuracy_matrix"] == [[90.0, None], [70.0, 80.0]]
    assert None not in [value for key, value in whole.items() if key != "accuracy_matrix"]
    bare = metrics.summary([[90.0]])
    assert {key for key, value in bare.items() if value is None} == {
        "forgetting",
        "forgetting_after_learning",
        "backward_transfer",
        "anytime_accuracy",
        "worst_case_accuracy",
        "stability_gap",
        "online_accuracy",
    }


def test_one_evaluation_at_the_end_of_an_iid_stream_has_a_final_accuracy_only() -> None:
    found = metrics.summary([[50.0, 60.0, 70.0]])
    assert {key for key, value in found.items() if value is not None} == {"final_accuracy", "accuracy_matrix"}
    assert found["final_accuracy"] == pytest.approx(60)


def test_a_missing_last_evaluation_is_not_passed_over() -> None:
    r = [[90.0, math.nan], [math.nan, 80.0]]
    assert math.isnan(metrics.final_accuracy(r))
    assert math.isnan(metrics.forgetting(r))


# -- streams without tasks -----------------------------------------------------------------------------------------


def test_a_group_is_learned_at_the_first_evaluation_by_which_half_of_it_has_come() -> None:
    groups = [0, 0, 0, 1, 1, 0, 1, 1, 2, 0, 2, 1]
    assert metrics.learned_at(groups, [4, 8, 12], 3).tolist() == [0, 1, 2]  # 3 of 5 by 4; 1 of 5, then 4, by 8
    assert metrics.learned_at(groups, [2, 3, 9, 12], 3).tolist() == [1, 2, 2]  # exactly half of group 2 is enough


@given(st.lists(st.integers(1, 9), min_size=1, max_size=6))
def test_where_task_follows_task_each_is_learned_at_its_own_evaluation(sizes: list[int]) -> None:
    groups = np.repeat(np.arange(len(sizes)), sizes)
    assert metrics.learned_at(groups, np.cumsum(sizes), len(sizes)).tolist() == list(range(len(sizes)))


def test_without_tasks_by_hand() -> None:
    nan = math.nan
    r = [[nan, 40.0], [30.0, 60.0], [50.0, 55.0], [20.0, 65.0]]  # four evaluations, two groups
    learned = [2, 1]
    assert metrics.learning_accuracy(r, learned) == pytest.approx((50 + 60) / 2)
    assert metrics.forgetting(r, learned) == pytest.approx((30 + 0) / 2)
    assert metrics.forgetting_all_tasks(r, learned) == pytest.approx((30 + 0) / 2)
    assert metrics.forgetting_after_learning(r, learned) == pytest.approx((30 - 5) / 2)
    assert metrics.backward_transfer(r, learned) == pytest.approx(-(30 - 5) / 2)
    assert metrics.average_incremental_accuracy(r, learned) == pytest.approx((40 + 45 + 52.5 + 42.5) / 4)
    assert math.isnan(metrics.forgetting(r, [3, 3]))  # learned at the very end: nothing can have been forgotten
    found = metrics.summary(r, learned=learned)
    assert found["learning_accuracy"] == pytest.approx(55)
    assert None not in [found[key] for key in ("forgetting", "backward_transfer", "average_incremental_accuracy")]


@given(matrices())
def test_tasks_are_groups_learned_one_after_another(r: np.ndarray) -> None:
    seen = learned_only(r)
    own = range(len(r))
    for name in TASK_METRICS:
        metric = getattr(metrics, name)
        assert metric(seen, own) == pytest.approx(metric(seen), nan_ok=True)


@given(matrices(least=2), st.data())
def test_what_holds_whenever_a_group_is_learned(r: np.ndarray, data: st.DataObject) -> None:
    at = data.draw(st.lists(st.integers(0, len(r) - 1), min_size=len(r), max_size=len(r)))
    lasting = [j for j in range(len(r)) if at[j] < len(r) - 1]
    if lasting:
        assert metrics.forgetting(r, at) >= metrics.forgetting_after_learning(r, at) - 1e-9
        assert metrics.forgetting(r, at) == pytest.approx(
            np.mean([max(r[i, j] for i in range(at[j], len(r))) - r[-1, j] for j in lasting])
        )
    assert r.min() - 1e-9 <= metrics.learning_accuracy(r, at) <= r.max() + 1e-9
    assert metrics.forgetting_all_tasks(r, at) == pytest.approx(metrics.forgetting_all_tasks(r))


def test_points_at_which_a_group_was_not_asked_are_no_accuracy() -> None:
    nan = math.nan
    by_task = np.array([[80.0, nan], [nan, 50.0], [30.0, nan], [60.0, 60.0]])
    curve = metrics.Curve(np.array([1.0, 2, 3, 4]), np.array([80.0, 50, 30, 60]), by_task, np.array([2.0, 2]))
    assert metrics.worst_case_accuracy(curve) == pytest.approx((30 + 60) / 2)
    assert metrics.stability_gap(curve) == pytest.approx(((60 - 30) + (50 - 60)) / 2)


# -- what holds of any run -----------------------------------------------------------------------------------------


@given(matrices(least=2))
def test_relations_between_the_definitions(r: np.ndarray) -> None:
    size = len(r)
    assert metrics.forgetting(r) >= -1e-9
    assert metrics.forgetting(r) >= metrics.forgetting_after_learning(r) - 1e-9
    assert metrics.backward_transfer(r) == -metrics.forgetting_after_learning(r)
    assert metrics.forgetting_all_tasks(r) * size >= metrics.forgetting(r) * (size - 1) - 1e-9
    seen = learned_only(r)
    assert metrics.forgetting(seen) == metrics.forgetting(r)  # what came before training is not forgotten
    assert metrics.forgetting_all_tasks(seen) == pytest.approx(metrics.forgetting(r) * (size - 1) / size)
    last_mean = metrics.learning_accuracy(r) * size - r[-1, -1]  # sums over tasks 1..T-1
    final_mean = metrics.final_accuracy(r) * size - r[-1, -1]
    assert metrics.backward_transfer(r) * (size - 1) == pytest.approx(final_mean - last_mean, abs=1e-6)


@given(matrices(least=2), PERCENT)
def test_an_unchanging_learner_forgets_nothing(r: np.ndarray, level: float) -> None:
    still = np.tile(r[0], (len(r), 1))
    flat = np.full_like(r, level)
    assert metrics.forgetting(still) == pytest.approx(0, nan_ok=True)
    for name in ("final_accuracy", "learning_accuracy", "average_incremental_accuracy"):
        assert getattr(metrics, name)(flat) == pytest.approx(level)


@given(matrices(least=2), st.data())
def test_a_task_without_test_pictures_changes_no_mean(r: np.ndarray, data: st.DataObject) -> None:
    gone = data.draw(st.integers(0, len(r) - 1))
    keep = [j for j in range(len(r)) if j != gone]
    with_hole = r.copy()
    with_hole[:, gone] = math.nan
    assert metrics.final_accuracy(with_hole) == pytest.approx(np.mean(r[-1, keep]))
    assert metrics.learning_accuracy(with_hole) == pytest.approx(np.mean([r[j, j] for j in keep]))


@st.composite
def curves(draw: st.DrawFn) -> metrics.Curve:
    count, points = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    steps = draw(st.lists(st.integers(1, 50), min_size=count * points, max_size=count * points))
    seen = np.cumsum(steps).astype(float)
    by_task = draw(arrays(float, (count * points, count), elements=PERCENT))
    for j in range(count):
        by_task[: j * points, j] = math.nan
    return metrics.Curve(seen, np.nanmean(by_task, axis=1), by_task, seen[points - 1 :: points])


@given(curves())
def test_bounds_of_the_curve_metrics(curve: metrics.Curve) -> None:
    area = metrics.anytime_accuracy(curve.seen, curve.accuracy)
    assert curve.accuracy.min() - 1e-9 <= area <= curve.accuracy.max() + 1e-9
    assert metrics.anytime_accuracy(7 * curve.seen, curve.accuracy) == pytest.approx(area)
    assert metrics.worst_case_accuracy(curve) <= np.mean(curve.by_task[-1]) + 1e-9
    gap = metrics.stability_gap(curve)
    assert math.isnan(gap) if len(curve.task_end) == 1 else 0 <= gap <= 100


@given(curves())
def test_a_lasting_loss_is_no_stability_gap(curve: metrics.Curve) -> None:
    falling = -np.sort(-np.nan_to_num(curve.by_task, nan=100.0), axis=0)
    sunk = metrics.Curve(curve.seen, curve.accuracy, falling, curve.task_end)
    gap = metrics.stability_gap(sunk)
    assert math.isnan(gap) if len(curve.task_end) == 1 else gap == 0


@given(curves())
def test_splitting_a_step_of_the_curve_leaves_its_area(curve: metrics.Curve) -> None:
    middles = [(a + b) / 2 for a, b in pairwise([0.0, *curve.seen])]
    seen = [point for pair in zip(middles, curve.seen, strict=True) for point in pair]
    doubled = metrics.anytime_accuracy(seen, np.repeat(curve.accuracy, 2))
    assert doubled == pytest.approx(metrics.anytime_accuracy(curve.seen, curve.accuracy))
