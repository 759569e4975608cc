"""Small timm models in float64 with every parameter random, so that an ignored one would show; plugs for them."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import timm
import torch
from timm.layers import Attention
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor, nn

from rwf.seeds import generator
from rwf.vit.forward import ViT
from rwf.vit.sockets import LowRank, Plug, Prefix

SMALL: dict[str, Any] = {"embed_dim": 48, "num_heads": 3, "depth": 3, "num_classes": 0}

KINDS: dict[str, dict[str, Any]] = {
    "vit_base_patch16_224": {},
    "deit_small_patch16_224": {},
    "deit3_small_patch16_224": {},  # LayerScale, positions not on the class token
    "vit_small_patch14_dinov2": {},
    "vit_small_patch14_reg4_dinov2": {},  # registers
    "vit_giant_patch14_dinov2": {},  # packed gated MLP
    "vit_base_patch16_clip_224": {},  # norm_pre, no bias in the patch embedding
    "vit_base_patch16_clip_quickgelu_224": {},
    "vit_base_patch16_siglip_224": {},  # attention pool
    "vit_base_patch16_siglip_gap_224": {},  # mean, norm before
    "vit_medium_patch16_gap_256": {},  # mean, fc_norm
    "vit_intern300m_patch14_448": {},  # accepts other picture sizes
    "beit3_base_patch16_224": {},  # norms inside attention and MLP
    "aimv2_large_patch14_224": {},  # RMS norm, gated MLP in two layers, no biases
    "vit_base_patch16_224 with q/k norm": {"qk_norm": True, "init_values": 0.1},
    "vit_base_patch16_224 without qkv bias": {"qkv_bias": False},
    "vit_base_patch16_224 with registers": {"reg_tokens": 3, "global_pool": "avg", "pool_include_prefix": True},
    "vit_base_patch16_224 with max pool": {"global_pool": "max"},
    "vit_base_patch16_224 with avgmax pool": {"global_pool": "avgmax"},
    "vit_base_patch16_224 with prr pool": {"global_pool": "prr"},
    "vit_base_patch16_224 without class token": {"class_token": False, "global_pool": "map"},
    "vit_base_patch16_224 with gates": {"gated": True},
}


def timm_model(kind: str = "vit_base_patch16_224", **options: Any) -> Any:
    """A model of that kind: three narrow blocks, pictures of 4 x 4 patches, evaluation mode."""
    options = {**SMALL, **KINDS.get(kind, {}), **options}
    gated = options.pop("gated", False)
    patch = 14 if "patch14" in kind else 16
    with torch.random.fork_rng(devices=[]):
        model = timm.create_model(kind.partition(" ")[0], **{"img_size": 4 * patch, **options})
    assert type(model) is VisionTransformer
    if gated:  # heads whose width is not width / heads, gates, and all norms: no name of timm has them together
        for block in model.blocks:
            block.attn = Attention(
                model.embed_dim,
                num_heads=5,
                attn_head_dim=8,
                qkv_bias=True,
                gated=True,
                qk_norm=True,
                scale_norm=True,
                norm_layer=nn.LayerNorm,
            )
    return randomised(model.double().eval())


def randomised(model: nn.Module, seed: int = 0) -> Any:
    """Every parameter drawn anew, as large as keeps the activations near one."""
    with torch.no_grad():
        for i, (name, p) in enumerate(model.named_parameters()):
            weight = p.ndim > 1 and p.shape[0] > 1
            drawn = torch.randn(p.shape, generator=generator(seed, "test model", i), dtype=p.dtype)
            scale = p[0].numel() ** -0.5 if weight else 0.3
            p.copy_(drawn * scale + (1.0 if "norm" in name and name.endswith("weight") else 0.0))
    return model


def pictures(n: int, size: int, seed: int = 0) -> Tensor:
    return torch.randn(n, 3, size, size, generator=generator(seed, "test pictures"), dtype=torch.float64)


def noise(*shape: int, seed: int = 0, scale: float = 1.0) -> Tensor:
    return scale * torch.randn(*shape, generator=generator(seed, "test noise"), dtype=torch.float64)


def native(model: Any, x: Tensor) -> Tensor:
    """timm's own features."""
    out: Tensor = model.forward_head(model.forward_features(x), pre_logits=True)
    return out


BATCH, LENGTH, MORE, WIDTH = 2, 17, 4, 48
ROWS = [None, slice(0, 1), slice(1, 17)]
BLOCKS = [
    "vit_base_patch16_224",
    "vit_base_patch16_224 with q/k norm",
    "vit_base_patch16_224 without qkv bias",
    "vit_base_patch16_224 with gates",
    "beit3_base_patch16_224",
    "vit_giant_patch14_dinov2",
    "aimv2_large_patch14_224",
]


class Given(Plug):
    """Fills every socket with what it was given, in one block."""

    def __init__(
        self,
        *,
        tokens: Tensor | None = None,
        prefix: Prefix | None = None,
        delta: Mapping[str, LowRank] | None = None,
        bypass: nn.Module | None = None,
        block: int = 1,
    ) -> None:
        self._tokens, self._prefix, self._delta, self._bypass, self.block = tokens, prefix, delta or {}, bypass, block
        self.tapped: dict[tuple[int, str], Tensor] = {}

    def tokens(self, block: int, z: Tensor) -> Tensor | None:
        return self._tokens if block == self.block else None

    def prefix(self, block: int, z: Tensor) -> Prefix | None:
        return self._prefix if block == self.block else None

    def delta(self, block: int) -> Mapping[str, LowRank]:
        return self._delta if block == self.block else {}

    def bypass(self, block: int, h: Tensor) -> Tensor | None:
        return self._bypass(h) if self._bypass is not None and block == self.block else None

    def tap(self, block: int, name: str, x: Tensor) -> None:
        self.tapped[block, name] = x


def timm_block(vit: ViT) -> Any:
    return copy.deepcopy(vit.timm.blocks[1])


def cut(z: Tensor, rows: slice | None) -> Tensor:
    return z if rows is None else z[:, rows]


def assert_same(out: Tensor, expected: Tensor, *leaves: Tensor) -> None:
    """Equal outputs, and equal gradients of a random weighting of them."""
    torch.testing.assert_close(out, expected, rtol=1e-12, atol=1e-12)
    weight = noise(*out.shape, seed=9)
    for ours, wanted in zip(
        *(torch.autograd.grad((o * weight).sum(), leaves, retain_graph=True) for o in (out, expected)), strict=True
    ):
        assert wanted.abs().max() > 1e-6
        torch.testing.assert_close(ours, wanted, rtol=1e-11, atol=1e-11)


def stream(seed: int = 0) -> Tensor:
    return noise(BATCH, LENGTH, WIDTH, seed=seed).requires_grad_()
