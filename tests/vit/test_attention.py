"""Extra keys and values against timm's own attention over a longer sequence, outputs and gradients."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor

from rwf.vit.forward import ViT
from rwf.vit.sockets import Prefix
from tests.vit.models import (
    BATCH,
    BLOCKS,
    LENGTH,
    MORE,
    ROWS,
    WIDTH,
    Given,
    assert_same,
    cut,
    noise,
    stream,
    timm_block,
    timm_model,
)


@pytest.fixture(params=BLOCKS, scope="module")
def vit(request: pytest.FixtureRequest) -> ViT:
    return ViT(timm_model(request.param))


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("pictures_with_their_own", [1, BATCH])
def test_a_prefix_of_tokens_is_a_longer_sequence_cut_back(vit: ViT, pictures_with_their_own: int, rows: slice) -> None:
    z, tokens = stream(), noise(pictures_with_their_own, MORE, WIDTH, seed=1).requires_grad_()
    longer = torch.cat([z, tokens.expand(BATCH, -1, -1)], dim=1)
    expected = cut(timm_block(vit)(longer)[:, :LENGTH], rows)
    assert_same(vit.block(1, z, Given(prefix=Prefix(tokens=tokens)), rows), expected, z, tokens)


@pytest.mark.parametrize("attention", ["sdpa", "explicit"])
def test_a_prefix_in_both_forms_of_attention(vit: ViT, attention: Any) -> None:
    vit = copy.deepcopy(vit)
    vit.attention = attention
    z, tokens = stream(), noise(BATCH, MORE, WIDTH, seed=1).requires_grad_()
    expected = timm_block(vit)(torch.cat([z, tokens], dim=1))[:, :LENGTH]
    assert_same(vit.block(1, z, Given(prefix=Prefix(tokens=tokens))), expected, z, tokens)


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("pictures_with_their_own", [1, BATCH])
def test_given_keys_and_values_by_hand(vit: ViT, pictures_with_their_own: int, rows: slice) -> None:
    block = timm_block(vit)
    attn, heads = block.attn, block.attn.num_heads
    z = stream()
    keys, values = (noise(pictures_with_their_own, MORE, attn.attn_dim, seed=seed).requires_grad_() for seed in (1, 2))

    def split(t: Tensor) -> Tensor:  # B n a -> B H n c
        return t.reshape(t.shape[0], t.shape[1], heads, -1).permute(0, 2, 1, 3)

    x = block.norm1(z)
    q, k, v = map(split, attn.qkv(x).split(attn.attn_dim, dim=-1))
    q, k = attn.q_norm(q), attn.k_norm(k)  # the given keys pass no norm
    k = torch.cat([k, split(keys.expand(BATCH, -1, -1))], dim=2)
    v = torch.cat([v, split(values.expand(BATCH, -1, -1))], dim=2)
    weights = torch.einsum("bhlc,bhnc->bhln", q, k).mul(attn.head_dim**-0.5).exp()
    y = torch.einsum("bhln,bhnc->blhc", weights / weights.sum(-1, keepdim=True), v).reshape(BATCH, LENGTH, -1)
    y = attn.norm(y) * (1 if attn.gate is None else torch.sigmoid(attn.gate(x)))
    h = z + block.ls1(attn.proj(y))
    expected = cut(h + block.ls2(block.mlp(block.norm2(h))), rows)
    plug = Given(prefix=Prefix(keys=keys, values=values))
    assert_same(vit.block(1, z, plug, rows), expected, z, keys, values)


def test_a_prefix_needs_tokens_or_keys_and_values() -> None:
    vit = ViT(timm_model())
    for prefix in (Prefix(), Prefix(keys=noise(1, MORE, WIDTH))):
        with pytest.raises(ValueError, match="tokens, or keys and values"):
            vit.block(1, stream(), Given(prefix=prefix))


def test_a_prefix_never_passes_the_mlp() -> None:
    vit, plug = ViT(timm_model()), Given(prefix=Prefix(tokens=noise(1, MORE, WIDTH)))
    assert vit.block(1, stream(), plug).shape == (BATCH, LENGTH, WIDTH)
    assert plug.tapped[1, "mlp"].shape == plug.tapped[1, "attn"].shape == (BATCH, LENGTH, WIDTH)
