"""Small pictures, batches and ViTs for tests."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import torch
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor, nn

from rwf.data.batch import Batch
from rwf.vit.forward import ViT


def viewer(images: Sequence[Tensor], ids: Sequence[int], visits: Sequence[int], kind: str) -> Tensor:
    """A view that shows which picture at which visit it is.  # B 3 1 1"""
    return torch.tensor([[i, v, kind == "train"] for i, v in zip(ids, visits, strict=True)]).reshape(-1, 3, 1, 1)


def picture(i: int, height: int = 1, width: int = 1) -> Tensor:
    return torch.full((3, height, width), i % 256, dtype=torch.uint8)


def batch_of(ids: Sequence[int], labels: Sequence[Hashable], sizes: Sequence[tuple[int, int]] | None = None) -> Batch:
    """Pictures with these ids, each filled with its id."""
    shapes = sizes or [(1, 1)] * len(ids)
    return Batch([picture(i, *shape) for i, shape in zip(ids, shapes, strict=True)], list(labels), list(ids), viewer)


def linear(weight: Tensor, bias: Tensor) -> nn.Linear:
    """A linear layer with these weights."""
    net = nn.Linear(weight.shape[1], weight.shape[0], dtype=weight.dtype)
    net.load_state_dict({"weight": weight, "bias": bias})
    return net


def tiny_vit(weights: dict[str, Tensor] | None = None, *, depth: int = 4, width: int = 16, heads: int = 2) -> ViT:
    """A ViT on 8 x 8 pictures in float64, with given weights or seeded random ones."""
    options: dict[str, Any] = {"img_size": 8, "patch_size": 4, "num_classes": 0}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = VisionTransformer(embed_dim=width, depth=depth, num_heads=heads, **options).double()
        with torch.no_grad():
            for p in model.parameters():
                p.add_(torch.randn_like(p) * 0.1)
    if weights is not None:
        wanted = model.state_dict().keys()
        model.load_state_dict({name: weights[name] for name in wanted})
    return ViT(model)
