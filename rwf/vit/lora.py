"""Low-rank additions to linear layers: a stack of frozen pairs, folded exactly, and the pair that is trained."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn

from rwf.errors import UserError
from rwf.seeds import generator
from rwf.vit.sockets import LowRank, Plug

TARGETS = ("q", "k", "v", "proj", "fc1", "fc2")


class LoRA(nn.Module, Plug):
    """x -> x + scale * up (down x) on the named layers of the chosen blocks.

    Trained are ``down_q``, ``up_q``, ... with one slice a block. ``fold`` freezes what they hold and starts a new
    pair; the sum of all pairs so far is kept exactly, as one wider pair or, when that is narrower, as a full matrix.
    """

    folds: Tensor

    def __init__(
        self,
        *,
        width: int,
        depth: int,
        rank: int = 4,
        targets: Sequence[str] = ("q", "v"),
        blocks: Iterable[int] | None = None,
        hidden: int | None = None,
        scale: float = 1.0,
        train_down: bool = True,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.blocks = list(range(depth)) if blocks is None else sorted(set(blocks))
        self.targets, self.rank, self.scale, self.train_down, self.seed = tuple(targets), rank, scale, train_down, seed
        if not 1 <= rank <= width:
            raise UserError(f"a LoRA rank of {rank} does not fit a width of {width}; give 1 to {width}.")
        if not self.targets or not set(self.targets) <= set(TARGETS):
            raise UserError(f"LoRA targets are out of {', '.join(TARGETS)}; got {', '.join(self.targets) or 'none'}.")
        if not self.blocks or not 0 <= self.blocks[0] <= self.blocks[-1] < depth:
            raise UserError(f"the ViT has the blocks 0 to {depth - 1}; LoRA was asked for {self.blocks}.")
        self._place = {block: i for i, block in enumerate(self.blocks)}
        self.register_buffer("folds", torch.tensor(0))
        for name in self.targets:
            d_in = (hidden or 4 * width) if name == "fc2" else width
            d_out = (hidden or 4 * width) if name == "fc1" else width
            n = len(self.blocks)
            down, up = torch.empty(n, rank, d_in), torch.zeros(n, d_out, rank)
            self.register_parameter(f"up_{name}", nn.Parameter(up))
            if train_down:
                self.register_parameter(f"down_{name}", nn.Parameter(down))
            else:
                self.register_buffer(f"down_{name}", down)
            self.register_buffer(f"frozen_down_{name}", torch.zeros(n, 0, d_in))
            self.register_buffer(f"frozen_up_{name}", torch.zeros(n, d_out, 0))
        self._start(0)

    def delta(self, block: int) -> dict[str, LowRank]:
        i = self._place.get(block)
        if i is None:
            return {}
        return {name: self._pair(name, i) for name in self.targets}

    def pairs(self) -> dict[str, nn.Parameter]:
        """What is trained, by name."""
        return dict(self.named_parameters())

    def set_down(self, block: int, matrix: Tensor) -> None:
        """A designed down-projection for all targets of one block.  # rank d_in"""
        with torch.no_grad():
            for name in self.targets:
                self._get("down", name)[self._place[block]].copy_(matrix)

    @torch.no_grad()
    def fold(self, *, official: bool = False) -> None:
        """Freezes the trained pair and starts a new one; the function of the network stays what it is.

        ``official`` adds A' to A and B' to B instead, which brings cross terms, and leaves a pair of zeros, which has
        no gradient: only the momentum of Adam revives it.
        """
        for name in self.targets:
            down, up = self._get("down", name), self._get("up", name)
            frozen_down, frozen_up = self._get("frozen_down", name), self._get("frozen_up", name)
            if official:
                summed = (frozen_down + down, frozen_up + up) if frozen_down.shape[1] else (down.clone(), up.clone())
                self._freeze(name, *summed)
                down.zero_()
                up.zero_()
            else:
                self._freeze(name, *_narrow(torch.cat([frozen_down, down], 1), torch.cat([frozen_up, up], 2)))
        self.folds += 1
        if not official:
            self._start(int(self.folds))

    @torch.no_grad()
    def _start(self, folds: int) -> None:
        """A pair that adds nothing yet: down as nn.Linear starts, up zero; a function of seed and number of folds."""
        for name in self.targets:
            self._get("up", name).zero_()
            for i, block in enumerate(self.blocks):
                draw = generator(self.seed, f"lora {name} {block}", folds)
                start = torch.empty(self._get("down", name).shape[1:])
                self._get("down", name)[i].copy_(nn.init.kaiming_uniform_(start, a=math.sqrt(5), generator=draw))

    def _pair(self, name: str, i: int) -> LowRank:
        down, up = self._get("down", name)[i], self._get("up", name)[i]
        frozen_down, frozen_up = self._get("frozen_down", name)[i], self._get("frozen_up", name)[i]
        if len(frozen_down):
            down, up = torch.cat([frozen_down, down]), torch.cat([frozen_up, up], dim=1)
        return LowRank(down, up, self.scale)

    def _freeze(self, name: str, down: Tensor, up: Tensor) -> None:
        setattr(self, f"frozen_down_{name}", down)
        setattr(self, f"frozen_up_{name}", up)

    def _get(self, kind: str, name: str) -> Tensor:
        found: Tensor = getattr(self, f"{kind}_{name}")
        return found


def _narrow(down: Tensor, up: Tensor) -> tuple[Tensor, Tensor]:
    """The same product with an inner width of at most the smaller outer one.  # n r d_in, n d_out r"""
    rank, d_in, d_out = down.shape[1], down.shape[2], up.shape[1]
    if rank <= min(d_in, d_out):
        return down, up
    product = up @ down  # n d_out d_in
    if d_out <= d_in:
        return product, torch.eye(d_out).to(product).expand(len(product), -1, -1).clone()
    return torch.eye(d_in).to(product).expand(len(product), -1, -1).clone(), product
