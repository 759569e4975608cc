"""Subspaces of layer inputs: InfLoRA's design of down-projections and its dual gradient projection memory."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import cast

import torch
from torch import Tensor, nn

from rwf.errors import UserError
from rwf.vit.sockets import Plug

NOTHING = 1e-12
"""Squared singular values below this share of the unprojected ones are rounding, not a direction."""
LEAF = 192
"""Columns below which a product is no longer split: smaller ones save no more time."""


class InputMoments(nn.Module, Plug):
    """Taps the attention inputs of all blocks: sums of x x^T over all tokens, in float64."""

    sums: Tensor
    counts: Tensor

    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        self.register_buffer("sums", torch.zeros(depth, width, width, dtype=torch.float64))
        self.register_buffer("counts", torch.zeros(depth, dtype=torch.long))

    @torch.no_grad()
    def tap(self, block: int, name: str, x: Tensor) -> None:
        if name == "attn":
            tokens = x.detach().flatten(0, -2)  # B*L d
            with torch.autocast(x.device.type, enabled=False):
                self.sums[block] += gram(tokens)
            self.counts[block] += len(tokens)

    def mean(self, block: int) -> Tensor:
        """The uncentred covariance of one block's tokens.  # d d"""
        return self.sums[block] / self.counts[block].clamp_min(1)

    def reset(self) -> None:
        self.sums.zero_()
        self.counts.zero_()


def gram(x: Tensor) -> Tensor:
    """x^T x, whose two halves are mirror images: of each pair of blocks of columns one is computed.  # N d -> d d"""
    width = x.shape[1]
    if width <= LEAF:
        return x.T @ x
    middle = width // 2
    left, right = x[:, :middle], x[:, middle:]
    across = left.T @ right
    return torch.cat([torch.cat([gram(left), across], dim=1), torch.cat([across.T, gram(right)], dim=1)])


class DualMemory(nn.Module):
    """DualGPM of one layer: a basis of the input space that learned tasks occupy, or of what they left free.

    The basis starts as the occupied directions (mode remove); once these are more than half of all, the free ones
    are fewer to store (mode retain). Energies are squared singular values of the covariance.
    """

    basis: Tensor
    retains: Tensor
    tasks: Tensor

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width
        self.register_buffer("basis", torch.zeros(width, 0, dtype=torch.float64))
        self.register_buffer("retains", torch.tensor(False))
        self.register_buffer("tasks", torch.tensor(0))

    def allowed(self, moment: Tensor) -> Tensor:
        """The part of a covariance that lies in the free directions.  # d d"""
        kept = self.basis @ (self.basis.T @ moment)
        return kept if bool(self.retains) else moment - kept

    def design(self, moment: Tensor, rank: int) -> Tensor:
        """A down-projection whose rows are the strongest free directions of these inputs.  # d d -> rank d

        Divided by sqrt(3), as long as the rows that LoRA's initial values have on average. Rows for which no free
        direction is left are zero: they must not reach into the occupied ones.
        """
        if rank > self.width:
            raise UserError(f"a rank of {rank} is above the width {self.width}; give a smaller rank.")
        moment = moment.double()
        energies, directions = _directions(self.allowed(moment))
        real = energies[:rank] > NOTHING * moment.square().sum()
        return (directions[:, :rank] * real).T / math.sqrt(3)

    def update(self, moment: Tensor, threshold: float) -> None:
        """A task with these inputs has been learned: until ``threshold`` of their energy is occupied."""
        moment = moment.double()
        total = moment.square().sum()
        energies, directions = _directions(self.allowed(moment))
        share = energies / total
        real = int((share > NOTHING).sum())
        if int(self.tasks) == 0:
            n = max(1, min(real, int((share.cumsum(0) < threshold).sum())))  # without the one that crosses it
            self.basis = directions[:, :n]
        elif bool(self.retains):
            self._give_up(directions[:, : _needed(share, float(share.sum()) - (1 - threshold), inclusive=True)])
        else:
            n = min(real, _needed(share, threshold - (1 - float(share.sum())), inclusive=False))
            self.basis = torch.cat([self.basis, directions[:, :n]], dim=1)[:, : self.width]
        self.tasks += 1
        self._turn()

    def _give_up(self, directions: Tensor) -> None:
        """Takes directions out of the free ones."""
        left = self.basis - directions @ (directions.T @ self.basis)
        self.basis = _directions(left)[1][:, : max(0, self.basis.shape[1] - directions.shape[1])]

    def _turn(self) -> None:
        """Stores the free directions instead, once the occupied ones are more than half."""
        occupied = self.basis.shape[1]
        if not bool(self.retains) and occupied > self.width / 2:
            complete, _ = torch.linalg.qr(self.basis, mode="complete")
            self.basis, self.retains = complete[:, occupied:], torch.ones_like(self.retains)


class DualMemories(nn.ModuleList):
    """One memory for each block."""

    def __init__(self, width: int, depth: int) -> None:
        super().__init__(DualMemory(width) for _ in range(depth))

    def __iter__(self) -> Iterator[DualMemory]:
        return cast(Iterator[DualMemory], super().__iter__())

    def update_all(self, moments: InputMoments, threshold: float) -> None:
        """A task whose inputs were collected has been learned."""
        for block, memory in enumerate(self):
            memory.update(moments.mean(block), threshold)

    def designs(self, moments: InputMoments, rank: int) -> Iterator[Tensor]:
        """A down-projection for each block, from the inputs that were collected."""
        for block, memory in enumerate(self):
            yield memory.design(moments.mean(block), rank)


def energy_threshold(task: int, tasks: int, first: float = 0.95, last: float = 1.0) -> float:
    """InfLoRA's share of the energy that task number ``task`` (from 0) occupies: rises from first towards last."""
    return first + (last - first) * task / tasks


def _directions(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """Squared singular values, largest first, and left singular vectors, by eigh of M M^T.  # d n -> d, d d"""
    energies, vectors = torch.linalg.eigh(matrix @ matrix.T)
    return energies.flip(0).clamp_min(0), vectors.flip(1)


def _needed(share: Tensor, excess: float, *, inclusive: bool) -> int:
    """How many of the largest shares it takes to cover ``excess``."""
    before = torch.cat([share.new_zeros(1), share.cumsum(0)[:-1]])  # covered when it is this direction's turn
    return int(((before <= excess) if inclusive else (before < excess)).sum())
