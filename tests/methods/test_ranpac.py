"""RanPAC: ridge regression on random features of all pictures, and the strength that held-out pictures choose."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rwf.methods.ranpac import FIRST_CHOICE, HELD_OUT, STRENGTHS
from rwf.run.build import make_method
from tests.methods.by_hand import Pictures, bound, needs, noise, refuses
from tests.methods.test_ncm import LABELS, VIT, features_of, learned, scores
from tests.pictures import tiny_vit

WIDE = 40


def expand(learner: Any, x: np.ndarray) -> np.ndarray:
    return np.maximum(x @ learner.project.weight.double().numpy(), 0.0)


def solve(h: np.ndarray, y: np.ndarray, strength: float) -> np.ndarray:
    """Least squares with the penalty as further rows: no normal equations."""
    rows = np.concatenate([h, strength**0.5 * np.eye(h.shape[1])])
    return np.linalg.lstsq(rows, np.concatenate([y, np.zeros((h.shape[1], y.shape[1]))]), rcond=None)[0]


@pytest.mark.parametrize("view", ["train", "test"])
@given(order=st.permutations(range(20)), cuts=st.lists(st.integers(1, 19), max_size=4))
def test_scores_are_those_of_the_ridge_on_all(view: str, order: list[int], cuts: list[int]) -> None:
    learner = learned("ranpac", order, cuts, random_features=WIDE, ridge=0.3, view=view)
    h, test = (expand(learner, x) for x in (features_of(view, range(20)), features_of("test", range(20, 26))))  # N M
    y = np.array([[label == c for c in "abc"] for label in LABELS], dtype=float)
    np.testing.assert_allclose(scores(learner), test @ solve(h, y, 0.3), rtol=1e-7, atol=1e-8)


MANY = 2 * FIRST_CHOICE + 12
CROWD_LABELS = [(i * i + i // 3) % 4 for i in range(MANY)]
CROWD = Pictures(noise(MANY + 6, 3, 8, 8, seed=3))
CROWD.x[:MANY] += 0.7 * noise(4, 3, 8, 8, seed=4)[CROWD_LABELS]  # a class shows a little: there is something to choose


def crowd(sizes: list[int]) -> Any:
    """All of them, in batches of these sizes in turn."""
    learner = bound("ranpac", tiny_vit(depth=2), CROWD, random_features=WIDE)
    start, turn = 0, 0
    while start < MANY:
        ids = range(start, min(MANY, start + sizes[turn % len(sizes)]))
        learner.learn(CROWD.batch(ids, [CROWD_LABELS[i] for i in ids]))
        start, turn = ids.stop, turn + 1
    return learner


def test_the_strength_is_chosen_on_every_fifth_picture_whenever_their_number_has_doubled() -> None:
    learner = crowd([MANY])
    with torch.no_grad():
        h = expand(learner, VIT.timm(CROWD.x[:MANY] + 0.1).numpy())
        test = expand(learner, VIT.timm(CROWD.x[MANY:]).numpy())
    columns = [learner.classes.index(c) for c in range(4)]
    y = np.array([[label == c for c in range(4)] for label in CROWD_LABELS], dtype=float)
    chosen = {}
    for count in (FIRST_CHOICE, 2 * FIRST_CHOICE):
        held = np.arange(count) % HELD_OUT == HELD_OUT - 1
        fit = ~held
        errors = [
            ((h[:count][held] @ solve(h[:count][fit], y[:count][fit], s) - y[:count][held]) ** 2).sum()
            for s in STRENGTHS
        ]
        chosen[count] = STRENGTHS[int(np.argmin(errors))]
    assert float(learner.strength) == chosen[2 * FIRST_CHOICE]
    assert STRENGTHS[0] < chosen[2 * FIRST_CHOICE] < STRENGTHS[-1], "the case says nothing"
    found = learner.predict(CROWD.batch(range(MANY, MANY + 6), [""] * 6))[:, columns].numpy()
    everything = solve(h, y, float(learner.strength))
    np.testing.assert_allclose(found, test @ everything, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("sizes", [[1], [63, 2], [64], [17, 5, 128]])
def test_how_pictures_are_batched_does_not_matter_to_the_choice(sizes: list[int]) -> None:
    whole, parts = crowd([MANY]), crowd(sizes)
    assert float(whole.strength) == float(parts.strength)
    tests = CROWD.batch(range(MANY, MANY + 6), [""] * 6)
    torch.testing.assert_close(whole.predict(tests), parts.predict(tests), rtol=1e-8, atol=1e-9)


def test_before_the_first_choice_the_strength_is_1() -> None:
    learner = bound("ranpac", tiny_vit(depth=2), CROWD, random_features=WIDE)
    learner.learn(CROWD.batch(range(FIRST_CHOICE - 1), CROWD_LABELS[: FIRST_CHOICE - 1]))
    assert float(learner.strength) == 1.0
    learner.strength.fill_(7.0)
    learner.learn(CROWD.batch([FIRST_CHOICE - 1], [0]))
    assert float(learner.strength) in STRENGTHS, "the picture that makes it 64 has it chosen"


def test_nothing_is_trained_and_nothing_told() -> None:
    assert needs("ranpac") == needs("ranpac", ridge=1.0, view="test") == frozenset()
    given, chosen = (learned("ranpac", list(range(20)), [], random_features=WIDE, ridge=r) for r in (1.0, None))
    assert not given.trained()

    def kept(learner: Any) -> int:
        return sum(b.numel() for name, b in learner.net.named_buffers() if not name.startswith("vit."))

    one = WIDE * WIDE + 3 * WIDE + 3
    assert kept(given) == one + 1
    assert kept(chosen) > 2 * WIDE * WIDE, "two sets of sums, one of them held out of the choice"
    method: Any = make_method("ranpac", {})
    assert (method.random_features, method.ridge, method.view) == (2000, None, "train")
    assert (min(STRENGTHS), max(STRENGTHS)) == (1e-8, 1e8)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"ridge": 0.0}, "ridge is 0.0; give a finite number above 0"),
        ({"ridge": float("inf")}, "ridge is inf"),
        ({"random_features": 0}, "0 random features are none"),
    ],
)
def test_impossible_settings_are_one_sentence(options: dict[str, Any], sentence: str) -> None:
    refuses("ranpac", sentence, **options)
