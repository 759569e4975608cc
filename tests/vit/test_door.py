"""Plain ViTs pass; everything else gets a sentence that says what is not plain."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import timm
import torch
from timm.layers import Attention
from timm.models.vision_transformer import ParallelThingsBlock, VisionTransformer
from torch import nn

from rwf.errors import UserError
from rwf.vit.door import check_plain
from rwf.vit.forward import ViT
from tests.vit.models import SMALL, timm_model

PLAIN = [
    "vit_base_patch16_224",
    "deit_small_patch16_224",
    "deit3_base_patch16_224",
    "vit_small_patch14_dinov2",
    "vit_giant_patch14_reg4_dinov2",
    "vit_base_patch16_clip_224",
    "vit_so400m_patch14_siglip_gap_224",
    "vit_base_patch16_siglip_224",
    "vit_medium_patch16_gap_256",
    "vit_small_r26_s32_224",
    "beit3_base_patch16_224",
    "aimv2_large_patch14_224",
]
REFUSED = {
    "deit_tiny_distilled_patch16_224": "distillation token",
    "vit_base_patch16_xp_224": "in parallel",
    "vit_small_patch16_18x2_224": "several attentions in parallel",
    "vit_dpwee_patch16_reg1_gap_256": "in parallel",
    "vit_base_patch16_rpn_224": "after attention and MLP",
    "vit_dwee_patch16_reg1_gap_256": "difference of two softmaxes",
    "vit_relpos_base_patch16_224": "relative position bias",
    "beit_base_patch16_224": "relative position bias",
    "eva02_tiny_patch14_224": "rotates",
    "vit_small_patch16_dinov3": "rotates",
    "swin_tiny_patch4_window7_224": "windows",
    "swinv2_tiny_window8_256": "windows",
    "naflexvit_base_patch16_gap": "any shape",
    "resnet18": "ResNet",
    "convnext_atto": "ConvNeXt",
    "mixer_s32_224": "MlpMixer",
}


@pytest.mark.parametrize("name", PLAIN)
def test_a_plain_vit_passes(name: str) -> None:
    with torch.device("meta"):
        check_plain(timm.create_model(name, depth=2))


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_plain_is_refused_with_the_reason(name: str) -> None:
    with torch.device("meta"):
        model = timm.create_model(name)
    with pytest.raises(UserError, match=REFUSED[name]) as caught:
        check_plain(model)
    sentence = str(caught.value)
    assert "is not a plain ViT" in sentence
    assert sentence.endswith("vit_base_patch16_224.augreg_in21k.")
    assert "\n" not in sentence


class OtherLinear(nn.Linear):
    """As low-rank packages put one in the place of a layer."""


class OtherAttention(Attention):
    pass


class OtherViT(VisionTransformer):
    pass


def _linear(model: Any) -> None:
    model.blocks[1].attn.qkv = OtherLinear(48, 144)


def _fc(model: Any) -> None:
    model.blocks[2].mlp.fc2 = OtherLinear(192, 48)


def _attention(model: Any) -> None:
    model.blocks[1].attn = OtherAttention(48, 3)


def _mlp(model: Any) -> None:
    model.blocks[1].mlp = nn.Linear(48, 48)


def _one_strange_block(model: Any) -> None:
    model.blocks[2] = ParallelThingsBlock(48, 3)


def _patched(model: Any) -> None:
    model.blocks[0].attn.forward = lambda x, **_: x


def _hooked(model: Any) -> None:
    model.blocks[0].register_forward_hook(lambda *_: None)


def _hooked_before(model: Any) -> None:
    model.register_forward_pre_hook(lambda *_: None)


def _patch_embedding(model: Any) -> None:
    model.patch_embed = nn.Conv2d(3, 48, 16, 16)


def _no_pooling(model: Any) -> None:
    model.global_pool = ""


def _no_blocks(model: Any) -> None:
    model.blocks = nn.Sequential()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (_linear, "OtherLinear"),
        (_fc, "OtherLinear"),
        (_attention, "OtherAttention"),
        (_mlp, "its Linear is none"),
        (_one_strange_block, "several attentions"),
        (_patched, "forward of a block was replaced or hooked"),
        (_hooked, "forward of a block was replaced or hooked"),
        (_hooked_before, "its forward was replaced or hooked"),
        (_patch_embedding, "Conv2d"),
        (_no_pooling, "pooling"),
        (_no_blocks, "not a plain sequence"),
    ],
)
def test_a_changed_model_is_not_plain_any_more(change: Callable[[Any], None], reason: str) -> None:
    model = timm_model()
    check_plain(model)
    change(model)
    with pytest.raises(UserError, match=reason):
        ViT(model)


def test_a_subclass_and_pictures_that_are_not_square_are_refused() -> None:
    with pytest.raises(UserError, match="OtherViT"):
        check_plain(OtherViT(img_size=32, **SMALL))
    with pytest.raises(UserError, match="32 x 48"):
        check_plain(VisionTransformer(img_size=(32, 48), **SMALL))
