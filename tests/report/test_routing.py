"""The numbers of routing maps: closed forms, and what a run left read back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rwf.report.routing import START, Routing, entropy, total_variation


def rows(seed: int, *shape: int, sharp: float = 1.0) -> np.ndarray:
    scores = sharp * np.random.default_rng(seed).normal(size=shape)
    e = np.exp(scores - scores.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def a_routing(tokens: int = 17, moments: tuple[int, ...] = (0, 1, 2, 3, 4)) -> Routing:
    maps = {n: {b: rows(10 * n + b, 2, 5, tokens) for b in (0, 2)} for n in moments}
    return Routing(np.array([3, 8]), np.zeros((2, 8, 8, 3), np.uint8), 1, 16, maps)


def test_entropy_is_a_part_of_the_highest() -> None:
    even, one, two = np.full(8, 1 / 8), np.eye(8)[3], np.array([0.5, 0.5, 0, 0, 0, 0, 0, 0])
    assert entropy(np.stack([even, one, two])) == pytest.approx([1.0, 0.0, 1 / 3], abs=1e-15)


def test_total_variation_is_the_share_that_moves() -> None:
    a, b = np.array([0.5, 0.5, 0.0]), np.array([0.0, 0.25, 0.75])
    assert total_variation(a, b) == 0.75
    assert total_variation(np.eye(3)[0], np.eye(3)[1]) == 1.0


@given(st.integers(0, 99), st.integers(0, 99), st.integers(0, 99))
def test_total_variation_is_a_distance(i: int, j: int, k: int) -> None:
    a, b, c = (rows(seed, 7, sharp=3.0) for seed in (i, j, k))
    assert total_variation(a, a) == 0
    assert total_variation(a, b) == total_variation(b, a)
    assert 0 <= total_variation(a, b) <= 1 + 1e-12
    assert total_variation(a, c) <= total_variation(a, b) + total_variation(b, c) + 1e-12


def test_patches_and_shares_make_up_the_whole() -> None:
    for tokens in (17, 23):  # the second with kept prompts
        routing = a_routing(tokens)
        inner = routing.on_patches(4, 2)
        assert inner.shape == (2, 5, 4, 4)
        on_patches = inner.sum((-1, -2)).mean() / tokens
        assert on_patches + routing.prefix_share(4, 2) + routing.kept_share(4, 2) == pytest.approx(1)
        assert inner[1, 3, 2, 1] == tokens * routing.maps[4][2][1, 3, 1 + 4 * 2 + 1]
    assert a_routing(17).kept_share(4, 2) == 0


def test_the_sharpest_queries_are_those_of_the_end() -> None:
    routing = a_routing()
    routing.maps[4][0] = np.stack([rows(1, 5, 17) ** p for p in (1, 1)])
    sharp = np.array([1.0, 9.0, 0.0, 3.0, 5.0])[None, :, None]
    scores = sharp * np.random.default_rng(0).normal(size=(2, 1, 17))
    a = np.exp(scores)
    routing.maps[4][0] = a / a.sum(-1, keepdims=True)
    assert routing.sharpest(0, 3) == [1, 4, 3]


def test_queries_that_see_the_same_are_not_apart() -> None:
    routing = a_routing()
    routing.maps[4][0] = np.repeat(rows(1, 2, 1, 17), 5, axis=1)
    assert routing.apart(4, 0) == 0
    a = routing.maps[4][2]
    by_hand = np.mean([total_variation(a[:, i], a[:, j]).mean() for i in range(5) for j in range(i)])
    assert routing.apart(4, 2) == pytest.approx(by_hand, rel=1e-12)


@pytest.mark.parametrize(
    ("kept", "shown"),
    [((0, 1, 2, 3, 4), [1, 2, 4]), (tuple(range(11)), [1, 5, 10]), ((0, 1, 2), [1, 2]), ((0, 1), [1]), ((0,), [0])],
)
def test_moments_are_the_first_the_middle_and_the_last(kept: tuple[int, ...], shown: list[int]) -> None:
    assert a_routing(moments=kept).moments == shown


def test_what_was_left_is_read(tmp_path: Path) -> None:
    assert Routing.read(tmp_path) is None
    pixels = np.arange(2 * 3 * 4 * 4, dtype=np.uint8).reshape(2, 3, 4, 4)
    np.savez(tmp_path / "pictures.npz", ids=np.array([5, 1]), pixels=pixels, prefix=np.array(1), patches=np.array(4))
    for n in (0, 1, 12):
        kept: Any = {"block 0": rows(n, 2, 3, 5), "block 10": rows(n + 1, 2, 3, 5)}
        np.savez(tmp_path / f"{n:03d}.npz", **kept)
    found = Routing.read(tmp_path)
    assert found is not None
    assert (found.prefix, found.patches, found.last, found.blocks) == (1, 4, 12, [0, 10])
    assert found.pixels[1, 2, 3, 0] == pixels[1, 0, 2, 3]
    assert (found.maps[12][10] == rows(13, 2, 3, 5)).all()
    assert found.moved(START, 12, 0) == pytest.approx(total_variation(rows(0, 2, 3, 5), rows(12, 2, 3, 5)).mean())
