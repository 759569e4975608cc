"""The classifier that grows with the labels: row i belongs to the i-th label met."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from rwf.seeds import generator

HeadKind = Literal["linear", "cosine"]
HeadStart = Literal["imprint", "random"]


class Head(nn.Module):
    """Features to one score a class.

    A row's initial value is a function of (seed, row) alone, so a head that grows row by row holds the same numbers
    as one that was made with all its rows.  ``cosine`` scores are ``scale`` times the cosine of feature and row;
    with ``imprint`` its rows begin as the mean direction of the first features of their label (Qi, Brown and Lowe,
    "Low-shot learning with imprinted weights", CVPR 2018).  Where classes come one after the other this is what keeps
    the first ones: a softmax over one class has no gradient, so a random row would only ever be pushed away.
    """

    def __init__(
        self,
        width: int,
        *,
        kind: HeadKind = "linear",
        bias: bool = True,
        start: HeadStart = "random",
        scale: float = 16.0,
        init_std: float = 0.02,
        seed: int = 0,
        purpose: str = "head",
    ) -> None:
        super().__init__()
        self.kind, self.scale, self.init_std, self.seed, self.purpose = kind, scale, init_std, seed, purpose
        self.imprints = start == "imprint" and kind == "cosine"
        self.weight = nn.Parameter(torch.empty(0, width))
        self.bias = nn.Parameter(torch.empty(0)) if bias and kind == "linear" else None
        self.begun: Tensor
        self.register_buffer("begun", torch.zeros(0, dtype=torch.bool))

    @property
    def rows(self) -> int:
        return self.weight.shape[0]

    def grow(self, rows: int) -> bool:
        """Adds rows up to ``rows``; True if there are new ones (the parameters are then new objects)."""
        if rows <= self.rows:
            return False
        fresh = [self._initial(row) for row in range(self.rows, rows)]
        self.weight = nn.Parameter(torch.cat([self.weight.data, torch.stack(fresh).to(self.weight)]))
        if self.bias is not None:
            self.bias = nn.Parameter(torch.cat([self.bias.data, self.bias.new_zeros(len(fresh))]))
        self.begun = torch.cat([self.begun, self.begun.new_zeros(len(fresh))])
        return True

    @torch.no_grad()
    def begin(self, features: Tensor, rows: Tensor) -> None:
        """Gives the rows of labels that are met for the first time their beginning.  # B d, B"""
        if not self.imprints or bool(self.begun[rows].all()):
            return
        directions = functional.normalize(features.to(self.weight.dtype))
        for row in rows.unique().tolist():
            if not self.begun[row]:
                self.weight[row] = functional.normalize(directions[rows == row].mean(0), dim=0)
                self.begun[row] = True

    def _initial(self, row: int) -> Tensor:
        draw = torch.empty(self.weight.shape[1])
        return nn.init.trunc_normal_(draw, std=self.init_std, generator=generator(self.seed, self.purpose, row))

    def forward(self, features: Tensor) -> Tensor:  # B d -> B rows
        if self.kind == "cosine":
            return self.scale * functional.linear(functional.normalize(features), functional.normalize(self.weight))
        return functional.linear(features, self.weight, self.bias)
