"""Statistics against tables, closed forms and exact enumerations."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rwf.report.statistics import (
    Mean,
    bootstrap,
    bootstrap_p,
    holm,
    paired_t,
    percentiles,
    within_band,
)


def test_a_mean_and_its_interval() -> None:
    mean = Mean.of([1.0, 2.0, 3.0, math.nan])
    assert mean is not None
    assert mean.half is not None
    assert (mean.value, mean.count, mean.deviation) == (2.0, 3, 1.0)
    assert mean.half == pytest.approx(4.3027 / math.sqrt(3), abs=1e-4)
    assert Mean.of([5.0]) == Mean(5.0, 1, None, None)
    assert Mean.of([math.nan]) is None
    assert Mean.of([4.0, 4.0]) == Mean(4.0, 2, 0.0, 0.0)


def test_the_paired_test() -> None:
    assert paired_t([1.0, 2.0, 3.0]) == pytest.approx(0.0742, abs=5e-5)  # t = 3.4641 with 2 degrees
    assert paired_t([-1.0, -2.0, -3.0]) == pytest.approx(0.0742, abs=5e-5)
    assert paired_t([1.0, -1.0]) == pytest.approx(1)
    assert paired_t([0.0, 0.0]) == 1
    assert paired_t([2.0, 2.0]) == 0
    assert paired_t([2.0]) is None


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.5, 0.9]) == [1.0, 1.0]
    assert holm([]) == []


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_lies_between_nothing_and_bonferroni_and_keeps_the_order(ps: list[float]) -> None:
    corrected = holm(ps)
    for p, q in zip(ps, corrected, strict=True):
        assert p - 1e-12 <= q <= min(1.0, len(ps) * p) + 1e-12
    order = np.argsort(ps, kind="stable")
    assert (np.diff(np.array(corrected)[order]) >= 0).all()


def test_the_bootstrap_has_the_variance_of_theory() -> None:
    rng = np.random.default_rng(1)
    runs, pictures = rng.normal(3.0, 1.0, (5, 1)), rng.normal(0.0, 1.0, (1, 400))
    (drawn,) = bootstrap([runs], draws=20_000)
    assert drawn.mean() == pytest.approx(runs.mean(), abs=0.02)
    assert drawn.var() == pytest.approx(runs.var(ddof=1) / 5, rel=0.05)
    (drawn,) = bootstrap([pictures / 400], draws=5_000)
    assert drawn.mean() == pytest.approx(pictures.mean(), abs=0.01)
    assert drawn.var() == pytest.approx(pictures.var() / 400, rel=0.1)


def test_the_bootstrap_draws_pictures_within_their_strata_only() -> None:
    strata = np.array(["b", "a", "c"] * 20)
    apart = np.array([5.0, -3.0, 1.0] * 20)[None] / 60
    assert np.allclose(bootstrap([apart], strata, draws=150), 1.0)
    assert bootstrap([apart], draws=150)[0].std() > 0.1
    whole = np.random.default_rng(0).normal(size=(2, 60))
    drawn = bootstrap([whole], np.arange(60), draws=150)[0]
    assert set(np.round(drawn, 9)) == set(np.round(whole.sum(1), 9))


def test_the_bootstrap_is_seeded_and_draws_the_same_pictures_for_all() -> None:
    table = np.random.default_rng(2).normal(size=(1, 50))
    one, other = bootstrap([table, 2 * table], seed=4, draws=150)
    assert np.allclose(2 * one, other)
    assert np.allclose(bootstrap([table], seed=4, draws=150)[0], one)
    assert not np.allclose(bootstrap([table], seed=5, draws=150)[0], one)
    assert len(one) == 150
    assert bootstrap([]) == []


def test_percentiles_and_p_of_what_was_drawn() -> None:
    drawn = np.arange(1, 1001.0)
    assert percentiles(drawn) == pytest.approx((25.975, 975.025))
    assert bootstrap_p(drawn) == pytest.approx(2 / 1001)
    assert bootstrap_p(drawn - 500.5) == 1
    assert bootstrap_p(drawn - 100.5) == pytest.approx(2 * 101 / 1001)
    assert bootstrap_p(np.zeros(10)) == 1


@pytest.mark.parametrize(
    ("ours", "paper", "deviation", "inside"),
    [
        (Mean(74.2, 3, 0.3, None), 74.09, 0.29, True),
        (Mean(74.7, 3, 0.3, None), 74.09, 0.29, False),  # 2 sqrt(0.29^2/3 + 0.3^2/3) = 0.482
        (Mean(74.57, 3, 0.3, None), 74.09, 0.29, True),
        (Mean(43.0, 3, 0.3, None), 41.0, 19.97, True),
        (Mean(43.1, 3, 0.3, None), 41.0, 19.97, False),  # more than two points
    ],
)
def test_the_band(ours: Mean, paper: float, deviation: float, inside: bool) -> None:
    assert within_band(ours, paper, deviation) is inside


def test_one_run_has_no_band() -> None:
    with pytest.raises(ValueError, match="one run"):
        within_band(Mean(1.0, 1, None, None), 1.0, 0.1)
