"""Streaming LDA: the linear discriminant of all frozen features, whatever the batches and the order they came in."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rwf.run.build import make_method
from tests.methods.by_hand import needs, refuses
from tests.methods.test_ncm import LABELS, VIEWER, features_of, learned, scores


def literal(shrinkage: float, view: str = "train") -> np.ndarray:
    """w_c = S^-1 m_c, b_c = -1/2 m_c w_c, with S the covariance within classes, shrunk towards the identity."""
    x, test = features_of(view, range(20)), features_of("test", range(20, 26))
    groups = [x[[label == c for label in LABELS]] for c in "abc"]
    means = np.stack([group.mean(0) for group in groups])
    within = sum((group - group.mean(0)).T @ (group - group.mean(0)) for group in groups) / len(x)
    weights = means @ np.linalg.inv((1 - shrinkage) * within + shrinkage * np.eye(16))
    return np.asarray(test @ weights.T - 0.5 * (weights * means).sum(1))


@pytest.mark.parametrize("view", ["train", "test"])
@given(order=st.permutations(range(20)), cuts=st.lists(st.integers(1, 19), max_size=4))
def test_scores_are_those_of_the_discriminant_of_all(view: str, order: list[int], cuts: list[int]) -> None:
    learner = learned("slda", order, cuts, shrinkage=0.02, view=view)
    np.testing.assert_allclose(scores(learner), literal(0.02, view), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("shrinkage", [1e-4, 0.5, 1.0])
def test_shrinkage_goes_from_the_covariance_to_the_nearest_mean(shrinkage: float) -> None:
    learner = learned("slda", list(range(20)), [7, 8], shrinkage=shrinkage)
    expected = literal(shrinkage)
    np.testing.assert_allclose(scores(learner), expected, rtol=1e-6, atol=1e-6)
    if shrinkage == 1.0:
        nearest = scores(learned("ncm", list(range(20)), [], metric="distance"))
        gaps = 2 * scores(learner) - nearest  # |x|^2 of each picture, whatever the class
        np.testing.assert_allclose(gaps, gaps[:, :1] * np.ones((1, 3)), rtol=1e-9)


def test_asking_in_between_changes_nothing_and_answers_for_what_came() -> None:
    asked, quiet = learned("slda", list(range(12)), []), learned("slda", list(range(12)), [])
    before = scores(asked)
    for learner in (asked, quiet):
        learner.learn(VIEWER.batch(range(12, 20), LABELS[12:20]))
    assert not np.allclose(scores(asked), before)
    np.testing.assert_array_equal(scores(asked), scores(quiet))
    np.testing.assert_allclose(scores(asked), literal(1e-4), rtol=1e-6, atol=1e-6)


def test_nothing_is_trained_and_nothing_told() -> None:
    learner = learned("slda", list(range(20)), [])
    assert not learner.trained()
    assert needs("slda") == needs("slda", view="test", shrinkage=0.5) == frozenset()
    kept = {name: b.numel() for name, b in learner.net.named_buffers() if not name.startswith("vit.")}
    assert sum(kept.values()) == 3 * 16 + 3 + 16 * 16, "means and one matrix"
    method: Any = make_method("slda", {})
    assert method.shrinkage == 1e-4


@pytest.mark.parametrize("shrinkage", [0.0, -0.1, 1.1, float("nan")])
def test_impossible_shrinkage_is_one_sentence(shrinkage: float) -> None:
    refuses("slda", f"shrinkage is {shrinkage}; give a number above 0, at most 1", shrinkage=shrinkage)
