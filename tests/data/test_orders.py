"""Streams without sharp tasks keep the statistics that their definitions say."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rwf.data.batch import Batch, Boundary
from rwf.data.orders import ORDERS, WITH_TASKS, Blur, si_blurry_sessions
from rwf.data.split import long_tailed
from rwf.data.stream import Stream, make_stream
from rwf.errors import UserError
from tests.data.make import viewer, world

MIXED = set(ORDERS) - WITH_TASKS


def stream_of(counts: list[int], **options: Any) -> Stream:
    return make_stream(world(counts, [1] * len(counts)), viewer=viewer(), **options)


def per_session(stream: Stream, sessions: int) -> np.ndarray:
    """How many pictures of each class come in each of so many equal parts of the stream.  # classes sessions"""
    labels = stream.catalog.train.labels[stream.plan.ids]
    parts = np.array_split(labels, sessions)
    return np.stack([np.bincount(part, minlength=len(stream.catalog.classes)) for part in parts], 1)


@pytest.mark.parametrize("order", sorted(MIXED))
def test_without_tasks_there_are_no_boundaries_and_evaluations_are_equally_spaced(order: str) -> None:
    stream = stream_of([40] * 10, tasks=5, order=order, batch_size=8)
    items = list(stream.items())
    assert not any(isinstance(item, Boundary) for item in items)
    assert stream.evaluations == [10, 20, 30, 40, 50]
    assert [len(group) for group in stream.tasks] == [2] * 5
    single = stream_of([4] * 4, tasks=2, order=order, batch_size=1)
    assert [len(item) for item in single.items() if isinstance(item, Batch)] == [1] * 16


@given(st.lists(st.integers(1, 12), min_size=1, max_size=8), st.integers(1, 9), st.sampled_from(sorted(MIXED)))
def test_evaluations_are_as_many_as_groups_and_as_equally_spaced_as_batches_allow(
    counts: list[int], batch_size: int, order: str
) -> None:
    batches = -(-sum(counts) // batch_size)
    if batches < len(counts):
        with pytest.raises(UserError, match=f"{batches} batches, too few for {len(counts)} evaluations"):
            stream_of(counts, tasks=len(counts), order=order, batch_size=batch_size)
        return
    stream = stream_of(counts, tasks=len(counts), order=order, batch_size=batch_size)
    gaps = np.diff([0, *stream.evaluations])
    assert (len(gaps), gaps.sum()) == (len(counts), len(stream))
    assert gaps.min() >= 1
    assert np.ptp(gaps) <= 1


# -- i-Blurry ----------------------------------------------------------------------------------------------------------


def test_i_blurry_has_the_proportions_of_the_published_lists() -> None:
    """On the official lists for CIFAR-10, 5 tasks, N = 0, M = 10 a class has 4568 to 4617 of its 5000 pictures in its
    task and 78 to 119 in each other one: 1 - M + M / T and M / T, all tasks of one size."""
    for seed in range(3):
        stream = stream_of([500] * 10, tasks=5, order="blurry", blur=Blur(n=0, m=10), seed=seed)
        counts = per_session(stream, 5)
        assert (counts.sum(0) == 1000).all()
        home = counts.max(1)
        assert home.mean() == pytest.approx(460, abs=3)
        assert np.ptp(home) < 30
        others = np.array([np.delete(row, row.argmax()) for row in counts])
        assert others.mean() == pytest.approx(10, abs=1)
        assert others.min() > 0
        tasks = [[stream.catalog.classes[c] for c in np.flatnonzero(counts.argmax(1) == t)] for t in range(5)]
        assert tasks == stream.tasks  # the groups that are evaluated


@pytest.mark.parametrize(("n", "m"), [(50, 10), (50, 30), (100, 10), (0, 0), (0, 100), (30, 50)])
def test_i_blurry_n_and_m(n: int, m: int) -> None:
    counts = per_session(stream_of([100] * 20, tasks=5, order="blurry", blur=Blur(n=n, m=m), seed=1), 5)
    fixed = (counts == 100).any(1)
    if m:
        assert fixed.sum() == 20 * n // 100 // 5 * 5
        assert all(fixed[4 * t : 4 * t + 4].sum() == 20 * n // 100 // 5 for t in range(5))  # so many in each task
        if n < 100:
            home = counts[~fixed, np.arange(20)[~fixed] // 4]
            assert home.mean() == pytest.approx(100 * (1 - m / 100 + m / 500), abs=3)
    else:
        assert fixed.all()


def test_the_seed_draws_which_classes_keep_to_their_task() -> None:
    drawn = set()
    for seed in range(10):
        counts = per_session(stream_of([50] * 4, tasks=2, order="blurry", blur=Blur(50, 50), seed=seed), 2)
        drawn.add(tuple(np.flatnonzero((counts == 50).any(1)).tolist()))
    assert drawn == {(0, 2), (0, 3), (1, 2), (1, 3)}


# -- Si-Blurry ---------------------------------------------------------------------------------------------------------


def sessions_of(seed: int, n: int, m: int, classes: int = 20, each: int = 30, sessions: int = 5) -> np.ndarray:
    """Pictures of each class in each session.  # classes sessions"""
    groups = [
        [np.arange(each) + each * (classes // sessions * t + k) for k in range(classes // sessions)]
        for t in range(sessions)
    ]
    parts = si_blurry_sessions(groups, seed, Blur(n, m))
    assert sorted(np.concatenate(parts).tolist()) == list(range(classes * each))
    return np.stack([np.bincount(part // each, minlength=classes) for part in parts], 1)


def test_si_blurry_has_sessions_of_random_make_up() -> None:
    """N % of the classes keep to one session. How many come in each follows from cut points drawn from 0 to 9, as the
    official code draws them: the mean of the first is E min, of the last 10 - E max, of four draws."""
    fixed = []
    for seed in range(300):
        counts = sessions_of(seed, n=50, m=80)
        whole = (counts == 30).any(1)
        assert whole.sum() >= 10  # a blurry class can stay whole by chance
        fixed.append((counts[whole] == 30).sum(0))
    mean, spread = np.mean(fixed, 0), np.std(fixed, 0)
    least = sum((j / 10) ** 4 for j in range(1, 10))  # 1.533
    between = (10 - least - (1 + least)) / 3
    assert mean == pytest.approx([least, between, between, between, 1 + least], abs=0.35)
    assert (spread > 1).all()  # i-Blurry: 0
    assert (np.array(fixed) == 0).any(0)[:4].all()  # a session can be without; the last one has the rest


@pytest.mark.parametrize("m", [0, 10, 50])
def test_si_blurry_moves_at_most_m_percent_and_many(m: int) -> None:
    away = []
    for seed in range(40):
        counts = sessions_of(seed, n=0, m=m)
        away.append(1 - counts.max(1).sum() / counts.sum())
        sizes = counts.sum(0)
        assert np.ptp(sizes) > 0
    assert max(away) <= m / 100
    if m:
        assert np.mean(away) > m / 100 / 4  # some come back to where they were taken, some sessions have less to give


@pytest.mark.parametrize(
    ("n", "m", "away", "pairs"),
    [(50, 80, 0.143, 41.0), (0, 10, 0.060, 42.3), (0, 50, 0.233, 61.8), (50, 10, 0.028, 31.1)],
)
def test_si_blurry_has_the_statistics_of_the_official_sampler(n: int, m: int, away: float, pairs: float) -> None:
    """The official sampler with varying N and M over 400 seeds, on 20 classes of 30 pictures that lie in random order:
    the share of pictures outside the session that has most of their class, and how many sessions classes come in."""
    counts = np.stack([sessions_of(seed, n, m) for seed in range(150)])  # seeds classes sessions
    assert 1 - counts.max(2).sum() / counts.sum() == pytest.approx(away, abs=0.012)
    assert (counts > 0).sum((1, 2)).mean() == pytest.approx(pairs, abs=1.2)


# -- drift -------------------------------------------------------------------------------------------------------------


def normal(x: float) -> float:
    return 0.5 * (1 + math.erf(x / math.sqrt(2)))


@pytest.mark.parametrize("width", [0.02, 0.05, 0.2])
def test_drift_moves_as_gaussians(width: float) -> None:
    """The mean place of class k is E F(t_k) with F the mixture of all classes' Gaussians, in closed form."""
    classes, each = 10, 2000
    stream = stream_of([each] * classes, tasks=5, order="drift", blur=Blur(width=width), seed=3)
    labels = stream.catalog.train.labels[stream.plan.ids]
    centres = (np.arange(classes) + 0.5) / classes
    places = (np.arange(len(labels)) + 0.5) / len(labels)
    for k in range(classes):
        mine = places[labels == k]
        expected = np.mean([normal((centres[k] - c) / (width * math.sqrt(2))) for c in centres])
        assert mine.mean() == pytest.approx(expected, abs=0.008)
    middle = places[labels == 5]
    if width == 0.05:  # far from the ends places are times: the spread is the Gaussian's own
        assert middle.std() == pytest.approx(width, rel=0.05)
        inside = (abs(middle - centres[5]) < width).mean()
        assert inside == pytest.approx(0.6827, abs=0.03)


def test_drift_between_sorted_and_mixed() -> None:
    def order(width: float) -> list[int]:
        stream = stream_of([30] * 4, tasks=2, order="drift", blur=Blur(width=width))
        return stream.catalog.train.labels[stream.plan.ids].tolist()

    assert order(1e-6) == sorted(order(1e-6))
    late = np.array(order(100.0)[60:])
    assert np.bincount(late, minlength=4).min() > 5


def test_impossible_numbers() -> None:
    for numbers, says in (({"n": 101}, "n is 101"), ({"m": -1}, "m is -1"), ({"width": 0.0}, "width is 0.0")):
        with pytest.raises(UserError, match=says):
            Blur(**numbers)  # type: ignore[arg-type]
    for imbalance in (0.5, -1, float("nan"), float("inf")):
        with pytest.raises(UserError, match="imbalance is"):
            stream_of([3] * 3, tasks=1, imbalance=imbalance)


# -- long tails --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("classes", "each", "factor", "total"), [(100, 500, 100, 10_847), (10, 5000, 100, 12_406)])
def test_long_tails_have_the_published_sizes(classes: int, each: int, factor: int, total: int) -> None:
    """CIFAR-100-LT and CIFAR-10-LT with imbalance 100 are known to have 10,847 and 12,406 training pictures."""
    labels = np.repeat(np.arange(classes), each)
    ids = long_tailed(labels, np.arange(len(labels)), factor, seed=0)
    counts = np.bincount(labels[ids])
    assert len(ids) == len(set(ids.tolist())) == total
    assert sorted(counts, reverse=True) == [int(each * factor ** (-r / (classes - 1))) for r in range(classes)]
    assert (counts.max(), counts.min()) == (each, each // factor)
    other = np.bincount(labels[long_tailed(labels, np.arange(len(labels)), factor, seed=1)])
    assert sorted(other) == sorted(counts)
    assert (other != counts).any()  # which class is large is the seed's


def test_long_tails_in_a_stream() -> None:
    stream = stream_of([50, 50, 50, 50], tasks=2, imbalance=10, train_fraction=0.8, batch_size=7)
    assert "160 of 200 training pictures are used (fraction 0.8)." in stream.notices
    assert any("70 of 160 training pictures, 40 in the largest class and 4 in the" in n for n in stream.notices)
    assert stream.guard.certificate()["images_in_stream"] == sum(
        len(item) for item in stream.items() if isinstance(item, Batch)
    )
    even = stream_of([50] * 4, tasks=2)
    assert not any("Long" in notice for notice in even.notices)
    uneven = long_tailed(np.repeat([0, 1, 2], [100, 2, 30]), np.arange(132), 3, seed=0)
    assert np.bincount(np.repeat([0, 1, 2], [100, 2, 30])[uneven], minlength=3).min() >= 1
