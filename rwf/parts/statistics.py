"""Streaming statistics of frozen features in float64, and the classifiers that are read off them in closed form."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import torch
from torch import Tensor, nn
from torch.nn import functional

from rwf.errors import UserError
from rwf.seeds import generator


class FeatureStatistics(nn.Module):
    """Sums of features by class, and if wanted the sum of x x^T: sufficient for NCM, LDA and ridge regression.

    Sums and not running means: the order in which pictures came does not matter, nor how they were batched.
    """

    sums: Tensor
    counts: Tensor
    moment: Tensor

    def __init__(self, width: int, *, second_moment: bool = False, dtype: torch.dtype = torch.float64) -> None:
        super().__init__()
        side = width if second_moment else 0
        self.register_buffer("sums", torch.zeros(0, width, dtype=dtype))  # C F
        self.register_buffer("counts", torch.zeros(0, dtype=dtype))  # C
        self.register_buffer("moment", torch.zeros(side, side, dtype=dtype))  # F F

    @torch.no_grad()
    def add(self, features: Tensor, rows: Tensor) -> None:
        """Takes in features with their classes' rows.  # B F, B"""
        if not len(rows):
            return
        x = features.detach().to(self.sums)
        self.grow(int(rows.max()) + 1)
        self.sums.index_add_(0, rows, x)
        self.counts.index_add_(0, rows, torch.ones_like(x[:, 0]))
        if self.moment.numel():
            self.moment.addmm_(x.T, x)

    def grow(self, classes: int) -> None:
        """Room for so many classes."""
        more = classes - len(self.counts)
        if more > 0:
            self.sums = functional.pad(self.sums, (0, 0, 0, more))
            self.counts = functional.pad(self.counts, (0, more))

    @property
    def means(self) -> Tensor:
        """Mean feature of each class, zero where none was met.  # C F"""
        return self.sums / self.counts.clamp_min(1)[:, None]

    @property
    def within(self) -> Tensor:
        """The covariance around the class means, pooled over all pictures.  # F F"""
        total = self.counts.sum().clamp_min(1)
        return (self.moment - self.means.T @ self.sums) / total

    def __add__(self, other: FeatureStatistics) -> Self:
        """The statistics of both sets of pictures."""
        both = type(self)(self.sums.shape[1], second_moment=bool(self.moment.numel()), dtype=self.sums.dtype)
        classes = max(len(self.counts), len(other.counts))
        both.to(self.sums.device).grow(classes)
        for part in (self, other):
            both.sums[: len(part.counts)] += part.sums
            both.counts[: len(part.counts)] += part.counts
            both.moment += part.moment
        return both


def nearest_mean(features: Tensor, means: Tensor) -> Tensor:
    """NCM: minus the squared distance to each class mean.  # B F, C F -> B C"""
    x = features.to(means)
    return -(x.square().sum(1, keepdim=True) - 2 * x @ means.T + means.square().sum(1))


def discriminant(statistics: FeatureStatistics, shrinkage: float = 1e-4) -> tuple[Tensor, Tensor]:
    """Streaming LDA: weights and biases of a linear classifier.  # C F, C

    The pooled covariance is shrunk towards the identity, so that it can be inverted from the first picture on.
    """
    if not 0 < shrinkage <= 1:
        raise UserError(f"a shrinkage of {shrinkage} leaves the covariance singular; give one above 0, at most 1.")
    within, means = statistics.within, statistics.means
    identity = torch.eye(len(within), dtype=within.dtype, device=within.device)
    factor = torch.linalg.cholesky((1 - shrinkage) * within + shrinkage * identity)
    weights = torch.cholesky_solve(means.T, factor).T
    return weights, -0.5 * (weights * means).sum(1)


def ridge(statistics: FeatureStatistics, strength: float) -> Tensor:
    """Weights of the regression on one-hot labels with penalty ``strength`` * |W|^2.  # C F"""
    if strength <= 0:
        raise UserError(f"a ridge of {strength} leaves the problem singular; give a number above 0.")
    moment = statistics.moment
    identity = torch.eye(len(moment), dtype=moment.dtype, device=moment.device)
    factor = torch.linalg.cholesky(moment + strength * identity)
    return torch.cholesky_solve(statistics.sums.T, factor).T


def choose_ridge(fitted: FeatureStatistics, held_out: FeatureStatistics, strengths: Sequence[float]) -> float:
    """The strength whose weights, from ``fitted`` alone, have the least squared error on the held-out pictures.

    RanPAC's rule, from sums alone: |H W - Y|^2 = tr W^T (H^T H) W - 2 tr W^T (H^T Y) + n, so no feature is stored.
    One eigendecomposition serves all strengths.
    """
    if not strengths:
        raise UserError("there is no ridge to choose from; give at least one.")
    values, vectors = torch.linalg.eigh(fitted.moment)
    classes = max(len(fitted.counts), len(held_out.counts))
    target, wanted = (functional.pad(s.sums, (0, 0, 0, classes - len(s.counts))) for s in (fitted, held_out))
    target, wanted = target @ vectors, wanted @ vectors  # C F
    moment = vectors.T @ held_out.moment @ vectors
    errors = []
    for strength in strengths:
        weights = target / (values.clamp_min(0) + strength)
        errors.append((weights @ moment * weights).sum() - 2 * (weights * wanted).sum())
    return float(strengths[int(torch.stack(errors).argmin())])


class RandomFeatures:
    """RanPAC's fixed random projection with ReLU; a function of the seed, so it is never stored."""

    def __init__(self, width: int, features: int, seed: int) -> None:
        if features < 1:
            raise UserError(f"{features} random features are none; give 1 or more.")
        self.weight = torch.randn(width, features, generator=generator(seed, "random features"))

    def __call__(self, x: Tensor) -> Tensor:  # B F -> B M
        x = x if x.dtype == torch.float64 else x.float()
        if self.weight.device != x.device or self.weight.dtype != x.dtype:
            self.weight = self.weight.to(x)
        with torch.autocast(x.device.type, enabled=False):
            return (x @ self.weight).relu()
