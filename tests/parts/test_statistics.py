"""Classifiers in closed form: against direct solutions, and independent of order and batching."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from rwf.errors import UserError
from rwf.parts.statistics import (
    FeatureStatistics,
    RandomFeatures,
    choose_ridge,
    discriminant,
    nearest_mean,
    ridge,
)


def data(n: int = 60, width: int = 5, classes: int = 4, seed: int = 0) -> tuple[Tensor, Tensor]:
    g = torch.Generator().manual_seed(seed)
    rows = torch.cat([torch.arange(classes), torch.randint(classes, (n - classes,), generator=g)])
    centres = torch.randn(classes, width, dtype=torch.float64, generator=g) * 2
    return centres[rows] + torch.randn(n, width, dtype=torch.float64, generator=g), rows


def statistics_of(x: Tensor, rows: Tensor, second_moment: bool = True) -> FeatureStatistics:
    out = FeatureStatistics(x.shape[1], second_moment=second_moment)
    out.add(x, rows)
    return out


@given(st.permutations(range(20)), st.lists(st.integers(1, 19), max_size=4))
def test_order_and_batching_do_not_matter(order: list[int], cuts: list[int]) -> None:
    x, rows = data(20)
    whole, parts = statistics_of(x, rows), FeatureStatistics(5, second_moment=True)
    edges = [0, *sorted(set(cuts)), 20]
    for a, b in pairwise(edges):
        parts.add(x[order[a:b]], rows[order[a:b]])
    for name, buffer in whole.named_buffers():
        torch.testing.assert_close(parts.get_buffer(name), buffer, rtol=1e-12, atol=1e-12)


def test_sum_of_two_halves_is_the_whole() -> None:
    x, rows = data()
    both = statistics_of(x[:4], rows[:4]) + statistics_of(x[4:], rows[4:])
    for name, buffer in statistics_of(x, rows).named_buffers():
        torch.testing.assert_close(both.get_buffer(name), buffer)


def test_nearest_mean_is_the_distance() -> None:
    x, rows = data()
    statistics = statistics_of(x, rows, second_moment=False)
    means = torch.stack([x[rows == c].mean(0) for c in range(4)])
    torch.testing.assert_close(statistics.means, means)
    torch.testing.assert_close(nearest_mean(x[:7], statistics.means), -torch.cdist(x[:7], means).square())


def test_means_are_float64_whatever_comes_in() -> None:
    statistics = FeatureStatistics(1)
    for _ in range(10):
        statistics.add(torch.full((1000, 1), 0.1, dtype=torch.bfloat16), torch.zeros(1000, dtype=torch.long))
    exact = float(torch.tensor(0.1, dtype=torch.bfloat16))
    assert float(statistics.means) == pytest.approx(exact, rel=1e-12)


def test_discriminant_is_the_gaussian_rule_with_pooled_covariance() -> None:
    x, rows = data()
    shrinkage = 0.03
    statistics = statistics_of(x, rows)
    within = sum(((x[rows == c] - x[rows == c].mean(0)).T @ (x[rows == c] - x[rows == c].mean(0))) for c in range(4))
    covariance = (1 - shrinkage) * within / len(x) + shrinkage * torch.eye(5).double()
    torch.testing.assert_close(statistics.within, within / len(x))
    weights, biases = discriminant(statistics, shrinkage)
    scores = x[:9] @ weights.T + biases
    literal = torch.stack(
        [
            -0.5 * torch.einsum("bi,ij,bj->b", x[:9] - m, torch.linalg.inv(covariance), x[:9] - m)
            for m in statistics.means
        ],
        dim=1,
    )
    torch.testing.assert_close(scores - scores[:, :1], literal - literal[:, :1])


def test_discriminant_of_one_picture_exists() -> None:
    weights, biases = discriminant(statistics_of(torch.ones(1, 3), torch.tensor([0])))
    assert torch.isfinite(weights).all()
    assert torch.isfinite(biases).all()


def test_running_update_of_slda_gives_the_same_covariance() -> None:
    """The streaming form, one picture after another, with the class's own count (Welford)."""
    x, rows = data()
    means, counts = torch.zeros(4, 5).double(), torch.zeros(4).double()
    scatter = torch.zeros(5, 5).double()
    for f, c in zip(x, rows.tolist(), strict=True):
        gap = f - means[c]
        scatter += counts[c] / (counts[c] + 1) * torch.outer(gap, gap)
        counts[c] += 1
        means[c] += gap / counts[c]
    torch.testing.assert_close(statistics_of(x, rows).within, scatter / len(x))


def test_ridge_is_the_direct_solution() -> None:
    x, rows = data()
    y = torch.nn.functional.one_hot(rows, 4).double()
    stacked = torch.cat([x, 0.7**0.5 * torch.eye(5).double()])  # least squares with the penalty as more rows
    literal = torch.linalg.lstsq(stacked, torch.cat([y, torch.zeros(5, 4).double()])).solution.T
    torch.testing.assert_close(ridge(statistics_of(x, rows), 0.7), literal)


def test_chosen_ridge_has_the_least_error_on_what_was_held_out() -> None:
    strengths = [10.0**e for e in range(-4, 6)]
    for seed in range(5):
        x, rows = data(40, width=30, seed=seed)
        y = torch.nn.functional.one_hot(rows, 4).double()
        fitted, held = statistics_of(x[:25], rows[:25]), statistics_of(x[25:], rows[25:])
        errors = [float((x[25:] @ ridge(fitted, s).T - y[25:]).square().sum()) for s in strengths]
        assert choose_ridge(fitted, held, strengths) == strengths[errors.index(min(errors))]
        assert 0 < errors.index(min(errors)) < len(strengths) - 1, "the case says nothing"


def test_chosen_ridge_where_a_class_was_only_held_out() -> None:
    x, rows = data(40, width=6)
    fitted, held = statistics_of(x[rows < 3], rows[rows < 3]), statistics_of(x, rows)
    y = torch.nn.functional.one_hot(rows, 4).double()
    strengths = [0.1, 10.0, 1000.0]
    errors = [float((x @ ridge(fitted, s).T - y[:, :3]).square().sum()) for s in strengths]
    assert choose_ridge(fitted, held, strengths) == strengths[errors.index(min(errors))]


def test_random_features_are_a_function_of_the_seed() -> None:
    x = torch.randn(3, 4)
    assert torch.equal(RandomFeatures(4, 9, seed=1)(x), RandomFeatures(4, 9, seed=1)(x))
    assert not torch.equal(RandomFeatures(4, 9, seed=1)(x), RandomFeatures(4, 9, seed=2)(x))
    out = RandomFeatures(4, 9, seed=1)(x.double())
    assert out.dtype == torch.float64
    assert out.shape == (3, 9)
    assert float(out.min()) == 0


def test_statistics_stay_exact_under_autocast() -> None:
    x, rows = data(width=8)
    single, features = x.float(), RandomFeatures(8, 6, seed=1)
    exact = statistics_of(features(single), rows)
    with torch.autocast("cpu", torch.bfloat16):
        found = statistics_of(features(single), rows)
        scores = nearest_mean(features(single), found.means)
    for name, buffer in exact.named_buffers():
        assert torch.equal(found.get_buffer(name), buffer)
    assert torch.equal(scores, nearest_mean(features(single), exact.means))


def test_impossible_settings_are_one_sentence() -> None:
    x, rows = data()
    with pytest.raises(UserError, match="shrinkage"):
        discriminant(statistics_of(x, rows), 0.0)
    with pytest.raises(UserError, match="ridge of 0"):
        ridge(statistics_of(x, rows), 0.0)
    with pytest.raises(UserError, match="no ridge"):
        choose_ridge(statistics_of(x, rows), statistics_of(x, rows), [])
    with pytest.raises(UserError, match="random features"):
        RandomFeatures(3, 0, 0)
