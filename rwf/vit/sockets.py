"""The four sockets of a block, and the plugs that fill them.

A plug is any object with these hooks; an empty hook leaves the socket as timm has it. Blocks are counted from 0.
A plug may be made anew for every forward (prompts chosen for these very images) or be an ``nn.Module``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor, nn


@dataclass(frozen=True)
class Prefix:
    """Extra keys and values for one block's attention; they are attended to and never attend.

    Either ``tokens`` (B or 1, n, d), from which the block's own norm1, qkv (with the plug's own ``delta``) and k-norm
    make keys and values, or ``keys`` and ``values`` (B or 1, n, a; a = heads times their width, mostly d), which are
    only split into heads and else used as they are, without the k-norm of blocks that have one.
    """

    tokens: Tensor | None = None
    keys: Tensor | None = None
    values: Tensor | None = None
    bias: float = 0.0
    """Added to every score of these keys before the softmax: -log(n) lets n equal ones weigh as one."""


@dataclass(frozen=True)
class LowRank:
    """x -> scale * (x @ down.T) @ up.T, added to what a linear layer gives. ``down`` is r d_in, ``up`` d_out r."""

    down: Tensor
    up: Tensor
    scale: float = 1.0

    def __call__(self, x: Tensor) -> Tensor:
        return nn.functional.linear(nn.functional.linear(x, self.down), self.up * self.scale)


class Plug:
    """Base of all plugs: every socket empty."""

    def tokens(self, block: int, z: Tensor) -> Tensor | None:
        """Tokens (B or 1, n, d) that join at the end of the sequence before this block, and stay."""
        return None

    def prefix(self, block: int, z: Tensor) -> Prefix | None:
        """Extra keys and values for this block's attention; z is the block's input (B L d), un-normalised."""
        return None

    def delta(self, block: int) -> Mapping[str, LowRank]:
        """Low-rank additions to this block's linear layers; names out of q, k, v, proj, fc1, fc2."""
        return {}

    def bypass(self, block: int, h: Tensor) -> Tensor | None:
        """A path parallel to the MLP: h (B R d) is what enters norm2; the result is added to the block's output."""
        return None

    def tap(self, block: int, name: str, x: Tensor) -> None:
        """Reads the input of a layer and changes nothing; name is ``attn`` (after norm1) or ``mlp`` (after norm2).

        In the last block ``attn`` has all rows, ``mlp`` only those that the head reads.
        """

    def frozen_name(self) -> str | None:
        """A name for what a plug of fixed numbers adds, so that it may be kept; None while anything may change."""
        return None
