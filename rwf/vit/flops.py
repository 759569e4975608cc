"""Floating-point operations of a forward or a training step, counted on the meta device without computing them."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from rwf.vit.forward import ViT

M = TypeVar("M", bound=nn.Module)


def count(run: Callable[[], object]) -> int:
    """Operations of the matrix products and convolutions that ``run`` does, backward passes included.

    A multiplication with its addition is two. Norms, softmax and activations are not counted: they are about a
    hundredth of a ViT.
    """
    with FlopCounterMode(display=False) as counter:
        run()
    return counter.get_total_flops()


def on_meta(module: M) -> M:
    """The same module without numbers: same shapes, same ``requires_grad``, nothing computed, nothing copied.

    Every ViT in it gets explicit attention, because fused kernels are counted by formulas of their own.
    """
    twins: dict[int, Any] = {}
    for parameter in module.parameters():
        twins[id(parameter)] = nn.Parameter(parameter.to("meta"), requires_grad=parameter.requires_grad)
    for buffer in module.buffers():
        twins[id(buffer)] = buffer.to("meta")
    twin = copy.deepcopy(module, twins)
    for part in twin.modules():
        if isinstance(part, ViT):
            part.attention = "explicit"
    return twin


@torch.no_grad()
def frozen_forward_flops(vit: ViT, batch: int = 1, *, all_rows: bool = True) -> int:
    """F, the unit of costs: one frozen forward of a batch, with nothing in the sockets.

    ``all_rows`` counts timm's own forward, every row of the last block included, which is the unit that papers use;
    without it only the rows that the head reads are computed, which is what a forward costs here.
    """
    twin = on_meta(vit).requires_grad_(False)
    like = next(vit.parameters())
    pictures = torch.empty(batch, 3, vit.image_size, vit.image_size, device="meta", dtype=like.dtype)
    if all_rows:
        return count(lambda: twin.timm.forward_head(twin.timm.forward_features(pictures), pre_logits=True))
    return count(lambda: twin.features(pictures))
