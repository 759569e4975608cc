"""CODA-Prompt: prefixes as sums of learned components, weighted by attention, a share of the components a task."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from rwf.errors import UserError
from rwf.seeds import generator
from rwf.vit.prompts import Prefixes, check_blocks, check_counts
from rwf.vit.sockets import Prefix


class PromptComponents(nn.Module):
    """In each of these blocks a pool of components, their keys and their attention vectors.

    Task t uses the components of the tasks up to t and trains its own; earlier ones are detached. Give the optimiser
    a reset at a task's begin: its momentum would move the earlier ones on.
    """

    entered: Tensor

    def __init__(
        self,
        *,
        width: int,
        depth: int,
        tasks: int,
        blocks: Iterable[int] = range(5),
        pool: int = 100,
        length: int = 8,
        seed: int = 0,
    ) -> None:
        super().__init__()
        check_counts(pool=pool, length=length, tasks=tasks)
        if tasks > pool:
            raise UserError(f"a pool of {pool} components has none for each of {tasks} tasks; give a larger pool.")
        if pool > width:
            raise UserError(f"{pool} components cannot be orthogonal in {width} dimensions; give a smaller pool.")
        if length % 2:
            raise UserError(f"half of a prompt are keys, half values: {length} is odd, give an even length.")
        self.blocks, self.tasks, self.seed = check_blocks(blocks, depth), tasks, seed
        self.share = pool // tasks
        n = len(self.blocks)
        self.register_buffer("entered", torch.zeros(0, dtype=torch.uint8))  # as long as there are tasks so far
        self.prompts = nn.Parameter(torch.zeros(n, pool, length, width))
        self.keys = nn.Parameter(torch.zeros(n, pool, width))
        self.attention = nn.Parameter(torch.zeros(n, pool, width))

    @torch.no_grad()
    def enter(self, task: int) -> None:
        """A task begins: its components become unit vectors, about orthogonal to the earlier ones, later ones zero."""
        if task >= self.tasks:
            raise UserError(f"the components were shared out among {self.tasks} tasks, task {task + 1} is one more.")
        self.entered = self.entered.new_zeros(task + 1)
        for name, values in self.named_parameters():
            for i, rows in enumerate(values):
                draws = torch.randn(
                    self.share, rows[0].numel(), generator=generator(self.seed, f"coda {name} {i}", task)
                )
                rows.copy_(gram_schmidt(rows, task * self.share, draws))

    def plug(self, query: Tensor) -> Prefixes:
        """The plug for pictures with these queries.  # B d"""
        keys, attention, prompts = self.used()
        weights = component_weights(query, keys, attention)  # n B p
        both = torch.einsum("nbp,npld->nbld", weights, prompts)
        k, v = both.chunk(2, dim=2)  # n B length/2 d
        return Prefixes({block: Prefix(keys=k[i], values=v[i]) for i, block in enumerate(self.blocks)})

    def penalty(self) -> Tensor:
        """How far keys, attention vectors and prompts of the used components are from orthonormal, over blocks."""
        return torch.stack([orthogonality(rows.flatten(1)) for used in self.used() for rows in used]).sum()

    def used(self) -> tuple[Tensor, Tensor, Tensor]:
        """Keys, attention vectors and prompts up to this task, the earlier ones detached.  # n p ..."""
        if not len(self.entered):
            raise ValueError("components are used before the first enter(task)")
        start = (len(self.entered) - 1) * self.share
        stop = start + self.share
        keys, attention, prompts = (
            torch.cat([values[:, :start].detach(), values[:, start:stop]], dim=1)
            for values in (self.keys, self.attention, self.prompts)
        )
        return keys, attention, prompts


def component_weights(query: Tensor, keys: Tensor, attention: Tensor) -> Tensor:
    """cos(query * attention_p, key_p), without forming all the products.  # B d, n p d -> n B p"""
    unit = keys / keys.norm(dim=-1, keepdim=True).clamp_min(1e-12)
    query = query.to(keys)
    with torch.autocast(query.device.type, enabled=False):
        squares = torch.einsum("bd,npd->nbp", query.square(), attention.square())
        return torch.einsum("bd,npd->nbp", query, attention * unit) / squares.clamp_min(1e-24).sqrt()


def orthogonality(rows: Tensor) -> Tensor:
    """Mean squared entry of M M^T - I.  # p d"""
    return (rows @ rows.T - torch.eye(len(rows)).to(rows)).square().mean()


def gram_schmidt(rows: Tensor, start: int, draws: Tensor) -> Tensor:
    """The rows before ``start`` as they are, then one for each draw, then zeros.  # p ..., n D -> p ...

    Classical: a draw loses its projections on every row before it, which after training are neither orthogonal nor
    of unit length; so what is new is of unit length, and about orthogonal.
    """
    out = torch.zeros_like(rows).flatten(1)
    out[:start] = rows.flatten(1)[:start]
    squares = out.square().sum(1).clamp_min(1e-24)
    for i, draw in enumerate(draws.to(rows), start):
        before = out[:i]
        left = draw - ((before @ draw) / squares[:i]) @ before
        out[i] = left / left.norm()
        squares[i] = out[i].square().sum()
    return out.reshape(rows.shape)
