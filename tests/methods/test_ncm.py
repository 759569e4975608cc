"""Nearest class mean: class means of all frozen features, whatever the batches and the order they came in."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rwf.run.build import make_method
from tests.methods.by_hand import Pictures, bound, needs, pictures, refuses
from tests.pictures import tiny_vit

LABELS = "abcabbcaaccbbacbacab"
VIT, VIEWER = tiny_vit(depth=2), pictures(26)
TESTS = VIEWER.batch(range(20, 26), [""] * 6)


def features_of(kind: str, ids: range, viewer: Pictures = VIEWER) -> np.ndarray:
    """By timm alone."""
    batch = viewer.batch(ids, [""] * len(ids))
    found: np.ndarray = VIT.timm(batch.view(kind=kind)).numpy()
    return found


def learned(method: str, order: list[int], cuts: list[int], **options: Any) -> Any:
    learner = bound(method, tiny_vit(depth=2), VIEWER, **options)
    edges = [0, *sorted({cut for cut in cuts if 0 < cut < len(order)}), len(order)]
    for start, stop in pairwise(edges):
        ids = order[start:stop]
        learner.learn(VIEWER.batch(ids, [LABELS[i] for i in ids]))
    return learner


def scores(learner: Any) -> np.ndarray:
    """Of the last six pictures over a, b, c, in whichever order these were met."""
    columns = [learner.classes.index(label) for label in "abc"]
    found: np.ndarray = learner.predict(TESTS)[:, columns].numpy()
    return found


def literal(metric: str, view: str) -> np.ndarray:
    x, test = features_of(view, range(20)), features_of("test", range(20, 26))
    means = np.stack([x[[label == c for label in LABELS]].mean(0) for c in "abc"])
    if metric == "distance":
        return -((test[:, None] - means[None]) ** 2).sum(2)
    return (test @ means.T) / np.linalg.norm(test, axis=1)[:, None] / np.linalg.norm(means, axis=1)


@pytest.mark.parametrize("view", ["train", "test"])
@pytest.mark.parametrize("metric", ["cosine", "distance"])
@given(order=st.permutations(range(20)), cuts=st.lists(st.integers(1, 19), max_size=4))
def test_scores_are_those_of_the_means_of_all(metric: str, view: str, order: list[int], cuts: list[int]) -> None:
    learner = learned("ncm", order, cuts, metric=metric, view=view)
    np.testing.assert_allclose(scores(learner), literal(metric, view), rtol=1e-9, atol=1e-9)


def test_nothing_is_trained_and_nothing_told() -> None:
    learner = learned("ncm", list(range(20)), [])
    assert not learner.trained()
    assert learner.gradient_steps == 0
    for options in ({}, {"metric": "distance"}, {"view": "test"}):
        assert needs("ncm", **options) == frozenset()
    kept = {name: b.numel() for name, b in learner.net.named_buffers() if not name.startswith("vit.")}
    assert sum(kept.values()) == 3 * 16 + 3, "a sum and a count a class"


def test_what_is_said_while_learning_is_the_answer_before() -> None:
    """Over the classes known until then; with the test view learned it would not be about the view that is asked."""
    learner = learned("ncm", list(range(8)), [])
    batch = VIEWER.batch(range(8, 12), "acca")
    before = learner.scores(batch.view())
    learner.learn(batch)
    np.testing.assert_allclose(learner.answered.numpy(), before.numpy(), rtol=1e-12)
    assert learner.answers_while_learning
    assert not learned("ncm", [0], [], view="test").answers_while_learning


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"metric": "angle"}, "metric is 'angle'; choose cosine, distance"),
        ({"view": "both"}, "view is 'both'; choose train, test"),
    ],
)
def test_impossible_settings_are_one_sentence(options: dict[str, Any], sentence: str) -> None:
    refuses("ncm", sentence, **options)


def test_the_default_is_one_look_at_augmented_pictures_by_angle() -> None:
    method: Any = make_method("ncm", {})
    assert (method.metric, method.view) == ("cosine", "train")
