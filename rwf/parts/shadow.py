"""Tensors kept beside parameters, by name: they follow when a head gains rows or moves to another device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import torch
from torch import Tensor


@torch.no_grad()
def follow(kept: dict[str, Tensor], parameters: Mapping[str, Tensor], fill: Literal["zeros", "copy"]) -> list[Tensor]:
    """The kept tensors in the order of the parameters; what is missing (all of it, or new rows) is filled in."""
    for name, parameter in parameters.items():
        old = kept.get(name)
        if old is not None and all(getattr(old, w) == getattr(parameter, w) for w in ("shape", "device", "dtype")):
            continue
        fresh = torch.zeros_like(parameter) if fill == "zeros" else parameter.detach().clone()
        if old is not None:
            fresh[tuple(slice(n) for n in old.shape)] = old.to(fresh)
        kept[name] = fresh
    return [kept[name] for name in parameters]
