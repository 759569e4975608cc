"""The door: which timm models are plain ViTs, judged by exact type, and a sentence for those that are not."""

from __future__ import annotations

from typing import Any

from timm.layers import Attention, GluMlp, HybridEmbed, Mlp, PatchEmbed, SwiGLU
from timm.models.vision_transformer import Block, VisionTransformer
from torch import nn

from rwf.errors import UserError

_MLP_LINEARS = {Mlp: ("fc1", "fc2"), GluMlp: ("fc1", "fc2"), SwiGLU: ("fc1_g", "fc1_x", "fc2")}
_POOLINGS = ("token", "avg", "avgmax", "max", "map", "prr")
_REASONS = {
    "VisionTransformerDistilled": "it has a distillation token and two heads",
    "ParallelScalingBlock": "attention and MLP of its blocks run in parallel",
    "DiffParallelScalingBlock": "attention and MLP of its blocks run in parallel",
    "ParallelThingsBlock": "each of its blocks has several attentions in parallel",
    "ResPostBlock": "its blocks normalise after attention and MLP instead of before",
    "DiffAttention": "its attention is the difference of two softmaxes",
    "Eva": "its attention rotates queries and keys by position, as EVA and DINOv3 do",
    "Beit": "its attention has a relative position bias",
    "VisionTransformerRelPos": "its attention has a relative position bias",
    "VisionTransformerSAM": "its attention has windows",
    "SwinTransformer": "its attention has windows and its stages have different widths",
    "SwinTransformerV2": "its attention has windows and its stages have different widths",
    "NaFlexVit": "it takes pictures of any shape as sequences of patches",
}


def check_plain(model: nn.Module) -> None:
    """Refuses what the block forward of this package would compute differently from the model itself.

    By exact type and not by ``isinstance``: a subclass may compute anything. What runs through timm's own modules
    (patch embedding, norms, pooling) needs no such care.
    """
    problem = _problem(model)
    if problem:
        raise UserError(
            f"this model ({type(model).__name__}) is not a plain ViT, {problem}: take a ViT, DeiT, DINOv2, CLIP or "
            "SigLIP tower of timm, e.g. vit_base_patch16_224.augreg_in21k."
        )


def _problem(model: Any) -> str:
    """What is not plain about a model, or nothing."""
    if type(model) is not VisionTransformer:
        return _REASONS.get(type(model).__name__, "and its type is none that is understood here")
    if _altered(model):
        return "its forward was replaced or hooked"
    if type(model.patch_embed) not in (PatchEmbed, HybridEmbed):
        return _strange(model.patch_embed)
    height, width = model.patch_embed.img_size
    if height != width:
        return f"its pictures are not square ({height} x {width})"
    if model.global_pool not in _POOLINGS:
        return f"its pooling {model.global_pool!r} does not give one vector a picture"
    if type(model.blocks) is not nn.Sequential or not len(model.blocks):
        return "its blocks are not a plain sequence"
    return next(filter(None, map(_block_problem, model.blocks)), "")


def _block_problem(block: Any) -> str:
    if type(block) is not Block:
        return _strange(block)
    for part, plain in ((block.attn, (Attention,)), (block.mlp, tuple(_MLP_LINEARS))):
        if type(part) not in plain:
            return _strange(part)
    if any(map(_altered, (block, block.attn, block.mlp))):
        return "the forward of a block was replaced or hooked"
    linears = [block.attn.qkv, block.attn.proj, *(getattr(block.mlp, name) for name in _MLP_LINEARS[type(block.mlp)])]
    if block.attn.gate is not None:
        linears.append(block.attn.gate)
    return next((_strange(layer) for layer in linears if type(layer) is not nn.Linear), "")


def _strange(module: nn.Module) -> str:
    name = type(module).__name__
    return _REASONS.get(name, f"its {name} is none that is understood here")


def _altered(module: nn.Module) -> bool:
    """Whether calling the module does something else than its class says."""
    return "forward" in vars(module) or bool(module._forward_hooks or module._forward_pre_hooks)
