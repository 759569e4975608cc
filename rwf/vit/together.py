"""Several plugs as one: what they bring to a socket is joined."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from rwf.vit.sockets import LowRank, Plug, Prefix


class Together(nn.Module, Plug):
    """Tokens and prefixes one after the other, low-rank terms and bypasses added, every tap reads."""

    def __init__(self, *plugs: Plug) -> None:
        super().__init__()
        self.plugs = plugs
        self.trained = nn.ModuleList(plug for plug in plugs if isinstance(plug, nn.Module))

    def tokens(self, block: int, z: Tensor) -> Tensor | None:
        return _joined([plug.tokens(block, z) for plug in self.plugs], z)

    def prefix(self, block: int, z: Tensor) -> Prefix | None:
        found = [p for p in (plug.prefix(block, z) for plug in self.plugs) if p is not None]
        if len(found) < 2:
            return found[0] if found else None
        if len({prefix.tokens is None for prefix in found}) == 2:
            raise ValueError(f"block {block} got a prefix of tokens and one of keys and values; these cannot be joined")
        if len({prefix.bias for prefix in found}) > 1:
            raise ValueError(f"block {block} got prefixes with different biases; these cannot be joined")
        tokens, keys, values = (_joined([getattr(p, n) for p in found], z) for n in ("tokens", "keys", "values"))
        return Prefix(tokens, keys, values, bias=found[0].bias)

    def delta(self, block: int) -> Mapping[str, LowRank]:
        out: dict[str, LowRank] = {}
        for plug in self.plugs:
            for name, term in plug.delta(block).items():
                out[name] = _both(out[name], term) if name in out else term
        return out

    def bypass(self, block: int, h: Tensor) -> Tensor | None:
        found = [b for b in (plug.bypass(block, h) for plug in self.plugs) if b is not None]
        return torch.stack(found).sum(0) if found else None

    def tap(self, block: int, name: str, x: Tensor) -> None:
        for plug in self.plugs:
            plug.tap(block, name, x)


def _joined(parts: list[Tensor | None], z: Tensor) -> Tensor | None:
    """One after the other in the sequence; what is the same for all pictures is repeated where it must."""
    found = [part for part in parts if part is not None]
    if len({len(part) for part in found}) > 1:
        found = [part.expand(len(z), -1, -1) for part in found]
    return torch.cat(found, dim=1) if found else None


def _both(a: LowRank, b: LowRank) -> LowRank:
    return LowRank(torch.cat([a.down, b.down]), torch.cat([a.up * a.scale, b.up * b.scale], dim=1))
