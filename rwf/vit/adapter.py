"""AdaptFormer adapters: a narrow path parallel to the MLP, and sets of them that were trained and kept."""

from __future__ import annotations

import hashlib
import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from rwf.errors import UserError
from rwf.seeds import generator
from rwf.vit.sockets import Plug

NAMES = ("down", "down_bias", "up", "up_bias")


class Adapters(nn.Module, Plug):
    """scale * (up relu(down h) + bias) beside the MLP of every block; h is the stream before norm2.

    Trained is one set, with one slice a block. ``keep`` puts a copy of it away as a set of its own and starts a new
    one; ``kept(i)`` is the plug of such a set. Kept sets are buffers, so a checkpoint holds them.
    """

    kept_down: Tensor

    def __init__(
        self,
        *,
        width: int,
        depth: int,
        bottleneck: int = 64,
        scale: float = 0.1,
        dropout: float = 0.0,
        seed: int = 0,
    ) -> None:
        super().__init__()
        if not 1 <= bottleneck <= width:
            raise UserError(f"an adapter of {bottleneck} does not fit a width of {width}; give 1 to {width}.")
        if not 0 <= dropout < 1:
            raise UserError(f"a dropout of {dropout} is impossible; give a number from 0 to below 1.")
        self.scale, self.dropout, self.seed = scale, dropout, seed
        shapes = ((depth, bottleneck, width), (depth, bottleneck), (depth, width, bottleneck), (depth, width))
        for name, shape in zip(NAMES, shapes, strict=True):
            self.register_parameter(name, nn.Parameter(torch.zeros(shape)))
            self.register_buffer(f"kept_{name}", torch.zeros(0, *shape))
        self._start()

    def bypass(self, block: int, h: Tensor) -> Tensor:
        return self._path([getattr(self, name)[block] for name in NAMES], h, self.training)

    def kept(self, index: int) -> Plug:
        """The plug of a set that was put away."""
        return Kept(self, index)

    def as_they_are(self) -> Plug:
        """The plug of the trained set, for as long as it is not trained."""
        return Kept(self, None)

    @property
    def kept_sets(self) -> int:
        """How many sets were put away."""
        return len(self.kept_down)

    @torch.no_grad()
    def keep(self) -> None:
        """Puts the trained set away and starts a new one from scratch."""
        for name in NAMES:
            trained = getattr(self, name).data[None].clone()
            setattr(self, f"kept_{name}", torch.cat([getattr(self, f"kept_{name}"), trained]))
        self._start()

    @torch.no_grad()
    def _start(self) -> None:
        """A set that adds nothing yet; a function of the seed and of how many came before."""
        for name in NAMES:
            getattr(self, name).zero_()
        down_of: Tensor = self.get_parameter("down")
        for block, down in enumerate(down_of):
            draw = generator(self.seed, f"adapter {block}", self.kept_sets)
            down.copy_(nn.init.kaiming_uniform_(torch.empty(down.shape), a=math.sqrt(5), generator=draw))

    def _path(self, weights: list[Tensor], h: Tensor, training: bool) -> Tensor:
        down, down_bias, up, up_bias = weights
        inner = functional.linear(h, down, down_bias).relu()  # B R b
        inner = functional.dropout(inner, self.dropout, training)
        return functional.linear(inner, up, up_bias) * self.scale


class Kept(Plug):
    """One set that was put away, or (None) the trained one while nobody trains it, as a plug."""

    def __init__(self, adapters: Adapters, index: int | None) -> None:
        self.adapters, self.index = adapters, index

    def bypass(self, block: int, h: Tensor) -> Tensor:
        return self.adapters._path([part[block] for part in self._weights()], h, False)

    def frozen_name(self) -> str:
        digest = hashlib.sha256(f"adapters {self.adapters.scale}".encode())
        for part in self._weights():
            plain = part.detach().cpu().contiguous()
            digest.update(f"\0{plain.dtype}\0{tuple(plain.shape)}\0".encode())
            digest.update(plain.flatten().view(torch.uint8).numpy().data)
        return digest.hexdigest()

    def _weights(self) -> list[Tensor]:
        if self.index is None:
            return [getattr(self.adapters, name) for name in NAMES]
        return [getattr(self.adapters, f"kept_{name}")[self.index] for name in NAMES]
