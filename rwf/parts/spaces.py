"""Prototypes in feature spaces that are made on the way: sums by class and space, of running or of repeated looks."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional


class SpaceSums(nn.Module):
    """Sums of features by class in several spaces, in float64; a later space knows no picture that came before it."""

    sums: Tensor
    counts: Tensor

    def __init__(self, width: int) -> None:
        super().__init__()
        self.register_buffer("sums", torch.zeros(0, 0, width, dtype=torch.float64))  # C T d
        self.register_buffer("counts", torch.zeros(0, 0, dtype=torch.float64))  # C T

    @torch.no_grad()
    def add(self, features: Tensor, rows: Tensor) -> None:
        """Takes in features in the first T spaces with their classes' rows.  # B T d, B"""
        x = features.detach().to(self.sums)
        self.grow(int(rows.max()) + 1, x.shape[1])
        t = x.shape[1]
        self.sums[:, :t].index_add_(0, rows, x)
        self.counts[:, :t].index_add_(0, rows, torch.ones_like(x[:, :, 0]))

    def grow(self, classes: int, spaces: int) -> None:
        """Room for at least so many."""
        c, t = self.counts.shape
        more = (0, max(0, spaces - t), 0, max(0, classes - c))
        self.counts = functional.pad(self.counts, more)
        self.sums = functional.pad(self.sums, (0, 0, *more))

    def replace(self, other: SpaceSums) -> None:
        """What the other knows about its classes takes the place of what is known here."""
        c, t = other.counts.shape
        self.grow(c, t)
        known = other.counts.any(1).nonzero().squeeze(1)
        self.sums[known, :t], self.counts[known, :t] = other.sums[known], other.counts[known]

    @property
    def seen(self) -> Tensor:
        """Classes with a picture.  # C"""
        return self.counts.any(1)

    @property
    def means(self) -> Tensor:
        """Mean feature of each class in each space, zero where none was met.  # C T d"""
        return self.sums / self.counts.clamp_min(1)[:, :, None]
