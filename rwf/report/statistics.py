"""Intervals and comparisons for a few runs of thousands of pictures: formulas in docs/report.md, numpy alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rwf.student import t_probability, t_quantile

Floats = NDArray[np.float64]
LEVEL = 0.95
DRAWS = 2000
BLOCK = 100  # draws made at a time, so that their counts fit a small memory


@dataclass(frozen=True)
class Mean:
    """A mean over runs. ``half`` is half its t interval and None for one run, as ``deviation`` is."""

    value: float
    count: int
    deviation: float | None
    """Between the runs, with n - 1."""
    half: float | None

    @staticmethod
    def of(values: ArrayLike, level: float = LEVEL) -> Mean | None:
        """None if there is no finite value."""
        known = np.asarray(values, float)
        known = known[np.isfinite(known)]
        n = len(known)
        if n == 0:
            return None
        if n == 1:
            return Mean(float(known[0]), 1, None, None)
        deviation = float(known.std(ddof=1))
        return Mean(float(known.mean()), n, deviation, t_quantile((1 + level) / 2, n - 1) * deviation / math.sqrt(n))


def paired_t(differences: ArrayLike) -> float | None:
    """The two-sided p of Student's test that paired differences have the mean 0; None for fewer than two."""
    mean = Mean.of(differences)
    if mean is None or mean.deviation is None:
        return None
    if mean.deviation == 0:
        return 1.0 if mean.value == 0 else 0.0
    t = abs(mean.value) / (mean.deviation / math.sqrt(mean.count))
    return 2 * (1 - t_probability(t, mean.count - 1))


def holm(ps: Sequence[float]) -> list[float]:
    """Each p after Holm's correction for all of them, in the given order."""
    order = sorted(range(len(ps)), key=lambda i: ps[i])
    corrected, least = [0.0] * len(ps), 0.0
    for rank, i in enumerate(order):
        least = max(least, min(1.0, (len(ps) - rank) * ps[i]))
        corrected[i] = least
    return corrected


def bootstrap(
    differences: Sequence[Floats], strata: ArrayLike | None = None, *, seed: int = 0, draws: int = DRAWS
) -> list[Floats]:
    """Means of differences over runs and pictures, drawn anew; percentiles of them are an interval.

    Each of ``differences`` holds what each picture adds to each run's difference (S N; S 1 where only sums are known).
    Runs and pictures are drawn independently of each other, as they cross: S - 1 of the runs, which makes the variance
    of a small number of runs come out right, and pictures within each of the ``strata`` (N), the same for all
    differences. A single run, or a single column, is kept.  # -> D each
    """
    if not differences:
        return []
    rng = np.random.default_rng(seed)
    pictures = differences[0].shape[1]
    everything = np.concatenate(differences).T  # N sum(S)
    groups = np.zeros(pictures, int) if strata is None else np.asarray(strata)
    sums = []
    for start in range(0, draws, BLOCK):
        sums.append(_counts(rng, groups, min(BLOCK, draws - start)) @ everything)
    drawn = np.concatenate(sums)  # D sum(S)
    ends = np.cumsum([len(table) for table in differences])
    return [_over_runs(rng, part) for part in np.split(drawn, ends[:-1], axis=1)]


def _counts(rng: np.random.Generator, groups: NDArray[Any], draws: int) -> Floats:
    """How often each picture is drawn, as many of each group as it has.  # N -> D N"""
    order = np.argsort(groups, kind="stable")
    _, first, place, size = np.unique(groups[order], return_index=True, return_inverse=True, return_counts=True)
    n = len(groups)
    chosen = order[first[place] + (rng.random((draws, n)) * size[place]).astype(int)]  # D N
    times = np.bincount((chosen + n * np.arange(draws)[:, None]).ravel(), minlength=draws * n)
    return times.reshape(draws, n).astype(np.float64)


def _over_runs(rng: np.random.Generator, sums: Floats) -> Floats:
    """Means over runs drawn anew for each line.  # D S -> D"""
    draws, runs = sums.shape
    drawn = max(1, runs - 1)
    return (rng.multinomial(drawn, np.full(runs, 1 / runs), draws) / drawn * sums).sum(1)


def percentiles(draws: ArrayLike, level: float = LEVEL) -> tuple[float, float]:
    """The middle part of what was drawn."""
    low, high = np.quantile(np.asarray(draws, float), [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def bootstrap_p(draws: ArrayLike) -> float:
    """Two-sided: how often what was drawn lies on the other side of 0; never less than one in the draws."""
    d = np.asarray(draws, float)
    return min(1.0, 2 * (1 + min(int((d <= 0).sum()), int((d >= 0).sum()))) / (1 + len(d)))


def within_band(ours: Mean, paper: float, paper_deviation: float, *, paper_runs: int = 3, most: float = 2.0) -> bool:
    """|ours - paper| <= 2 sqrt(s_p^2 / 3 + s_o^2 / n), and not more than two points."""
    if ours.deviation is None:
        raise ValueError("one run has no deviation")
    gap = abs(ours.value - paper)
    return gap <= 2 * math.sqrt(paper_deviation**2 / paper_runs + ours.deviation**2 / ours.count) and gap <= most
