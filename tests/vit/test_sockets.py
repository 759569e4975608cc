"""Each socket against timm's own modules doing the same the long way, outputs and gradients."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call

from rwf.errors import UserError
from rwf.vit.forward import ViT
from rwf.vit.sockets import LowRank, Plug, Prefix
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
    native,
    noise,
    pictures,
    stream,
    timm_block,
    timm_model,
)


@pytest.fixture(params=BLOCKS, scope="module")
def vit(request: pytest.FixtureRequest) -> ViT:
    return ViT(timm_model(request.param))


def low_rank(layer: nn.Linear, parts: int, seed: int, rank: int = 3) -> LowRank:
    down = noise(rank, layer.in_features, seed=seed, scale=0.2).requires_grad_()
    up = noise(layer.out_features // parts, rank, seed=seed + 1, scale=0.2).requires_grad_()
    return LowRank(down, up, 0.7)


def deltas(block: Any, names: tuple[str, ...]) -> dict[str, LowRank]:
    layers = dict.fromkeys("qkv", (block.attn.qkv, 3)) | {"proj": (block.attn.proj, 1)}
    layers |= {name: (getattr(block.mlp, name), 1) for name in ("fc1", "fc2") if hasattr(block.mlp, name)}
    return {name: low_rank(*layers[name], seed=10 * i + 20) for i, name in enumerate(names) if name in layers}


def merged(block: Any, delta: Mapping[str, LowRank], z: Tensor) -> Tensor:
    """timm's block with the additions in its weights."""
    weights = {name: p.detach() for name, p in block.named_parameters()}

    def product(name: str, like: Tensor) -> Tensor:
        return torch.zeros_like(like) if name not in delta else 0.7 * delta[name].up @ delta[name].down

    third = weights["attn.qkv.weight"].chunk(3)[0]
    added = {"attn.qkv.weight": torch.cat([product(name, third) for name in "qkv"])}
    for name, key in (("proj", "attn.proj.weight"), ("fc1", "mlp.fc1.weight"), ("fc2", "mlp.fc2.weight")):
        if name in delta:
            added[key] = product(name, weights[key])
    out: Tensor = functional_call(block, weights | {key: weights[key] + value for key, value in added.items()}, (z,))
    return out


@pytest.mark.parametrize("names", ["q", "k", "v", "proj", "fc1", "fc2", "q k v proj fc1 fc2"])
def test_low_rank_additions_are_merged_weights(vit: ViT, names: str) -> None:
    block, z = timm_block(vit), stream()
    delta = deltas(block, tuple(names.split()))
    if not delta:
        return  # fc1 of an MLP that has none: below
    leaves = [t for term in delta.values() for t in (term.down, term.up)]
    expected = merged(block, delta, z)
    assert (expected - block(z)).abs().amax(dim=-1).min() > 1e-3
    for rows in ROWS:
        assert_same(vit.block(1, z, Given(delta=delta), rows), cut(expected, rows), z, *leaves)


def test_additions_to_keys_and_values_apply_to_prefix_tokens_too(vit: ViT) -> None:
    block, z, tokens = timm_block(vit), stream(), noise(BATCH, MORE, WIDTH, seed=1).requires_grad_()
    delta = deltas(block, ("q", "k", "v", "fc2"))
    leaves = [t for term in delta.values() for t in (term.down, term.up)]
    expected = merged(block, delta, torch.cat([z, tokens], dim=1))[:, :LENGTH]
    plug = Given(delta=delta, prefix=Prefix(tokens=tokens))
    assert_same(vit.block(1, z, plug), expected, z, tokens, *leaves)


def test_an_mlp_without_fc1_says_so() -> None:
    vit = ViT(timm_model("aimv2_large_patch14_224"))
    with pytest.raises(UserError, match="no fc1"):
        vit.block(1, stream(), Given(delta={"fc1": LowRank(noise(3, WIDTH), noise(128, 3))}))


def test_an_unknown_layer_is_refused() -> None:
    with pytest.raises(ValueError, match="got qkv"):
        ViT(timm_model()).block(1, stream(), Given(delta={"qkv": LowRank(noise(3, WIDTH), noise(144, 3))}))


# bypass


@pytest.mark.parametrize("rows", ROWS)
def test_a_bypass_is_parallel_to_the_mlp(vit: ViT, rows: slice) -> None:
    block, z = timm_block(vit), stream()
    down, up = nn.Linear(WIDTH, 5, dtype=torch.float64), nn.Linear(5, WIDTH, dtype=torch.float64)
    adapter = nn.Sequential(down, nn.Tanh(), up)
    h = z + block.ls1(block.attn(block.norm1(z)))
    expected = cut(h + block.ls2(block.mlp(block.norm2(h))) + up(torch.tanh(down(h))), rows)
    assert_same(vit.block(1, z, Given(bypass=adapter), rows), expected, z, *adapter.parameters())


# tokens


@pytest.mark.parametrize("pictures_with_their_own", [1, BATCH])
@pytest.mark.parametrize("kind", ["vit_base_patch16_224", "vit_medium_patch16_gap_256", "vit_base_patch16_siglip_224"])
def test_tokens_join_at_the_end_and_stay(kind: str, pictures_with_their_own: int) -> None:
    model = timm_model(kind)
    vit = ViT(copy.deepcopy(model))
    x = pictures(BATCH, vit.image_size)
    tokens = noise(pictures_with_their_own, MORE, WIDTH, seed=1).requires_grad_()
    z = model.blocks[0](model.norm_pre(model._pos_embed(model.patch_embed(x))))
    z = torch.cat([z, tokens.expand(BATCH, -1, -1)], dim=1)
    z = model.norm(model.blocks[2](model.blocks[1](z)))
    plug = Given(tokens=tokens)
    assert_same(vit.encode(x, plug, slice(None)), z, tokens)
    assert_same(vit.features(x, plug, slice(-MORE, None)), model.fc_norm(z[:, -MORE:].mean(1)), tokens)
    # the head reads what it reads without them
    native_ = model.forward_head(z[:, :-MORE], pre_logits=True)
    assert_same(vit.features(x, plug), native_, tokens)
    patches = slice(vit.prefix_tokens, vit.prefix_tokens + vit.patches)
    assert_same(vit.features(x, plug, "mean"), model.fc_norm(z[:, patches].mean(1)), tokens)


def test_rows_count_joined_tokens() -> None:
    vit, z, tokens = ViT(timm_model()), stream(), noise(1, MORE, WIDTH, seed=1).requires_grad_()
    expected = timm_block(vit)(torch.cat([z, tokens.expand(BATCH, -1, -1)], dim=1))
    assert_same(vit.block(1, z, Given(tokens=tokens), slice(-MORE, None)), expected[:, -MORE:], z, tokens)


def test_a_prefix_is_made_from_the_joined_sequence() -> None:
    seen = []

    class Both(Given):
        def prefix(self, block: int, z: Tensor) -> Prefix | None:
            seen.append(z.shape[1])
            return None

    ViT(timm_model()).block(1, stream(), Both(tokens=noise(1, MORE, WIDTH)))
    assert seen == [LENGTH + MORE]


# tap, and all of them together


def test_a_tap_reads_what_the_layers_read_and_changes_nothing(vit: ViT) -> None:
    block, z, plug = timm_block(vit), stream(), Given()
    assert torch.equal(vit.block(1, z, plug), vit.block(1, z))
    torch.testing.assert_close(plug.tapped[1, "attn"], block.norm1(z))
    h = z + block.ls1(block.attn(block.norm1(z)))
    torch.testing.assert_close(plug.tapped[1, "mlp"], block.norm2(h), rtol=1e-12, atol=1e-12)


def test_empty_sockets_are_timms_block(vit: ViT) -> None:
    z = stream()
    assert_same(vit.block(1, z, Plug()), timm_block(vit)(z), z)


def test_a_plug_of_length_zero_is_a_plug() -> None:
    class Empty(nn.ModuleList, Given):
        def __init__(self) -> None:
            nn.ModuleList.__init__(self)
            Given.__init__(self, tokens=noise(1, MORE, WIDTH))

    assert ViT(timm_model()).block(1, stream(), Empty()).shape == (BATCH, LENGTH + MORE, WIDTH)


def test_all_sockets_at_once(vit: ViT) -> None:
    block, z = timm_block(vit), stream()
    joining, tokens = (noise(1, MORE, WIDTH, seed=seed).requires_grad_() for seed in (1, 2))
    adapter = nn.Linear(WIDTH, WIDTH, dtype=torch.float64)
    delta = deltas(block, ("q", "k", "v", "proj", "fc1", "fc2"))
    longer = torch.cat([z, joining.expand(BATCH, -1, -1)], dim=1)
    every = torch.cat([longer, tokens.expand(BATCH, -1, -1)], dim=1)
    no_mlp = copy.deepcopy(block)
    no_mlp.ls2 = nn.Identity()
    no_mlp.mlp = _Zero(no_mlp.mlp)  # what is left is h
    h = merged(no_mlp, {name: term for name, term in delta.items() if not name.startswith("fc")}, every)
    expected = (merged(block, delta, every) + adapter(h))[:, : LENGTH + MORE]
    plug = Given(tokens=joining, prefix=Prefix(tokens=tokens), delta=delta, bypass=adapter)
    assert_same(vit.block(1, z, plug), expected, z, joining, tokens, *adapter.parameters())


class _Zero(nn.Module):
    def __init__(self, mlp: nn.Module) -> None:
        super().__init__()
        for name, part in mlp.named_children():
            self.add_module(name, part)

    def forward(self, x: Tensor) -> Tensor:
        return torch.zeros_like(x)


def test_autocast_keeps_every_socket_within_its_precision() -> None:
    vit = ViT(timm_model().float())
    z = stream().detach().float()
    given = [noise(1, MORE, WIDTH, seed=seed).float() for seed in range(3)]
    delta = {name: LowRank(noise(3, WIDTH).float(), noise(WIDTH, 3).float(), 0.1) for name in "qkv"}
    for prefix in (Prefix(tokens=given[0]), Prefix(keys=given[1], values=given[2])):
        plug = Given(tokens=given[0], prefix=prefix, delta=delta, bypass=nn.Linear(WIDTH, WIDTH))
        exact = vit.block(1, z, plug)
        with torch.autocast("cpu", torch.bfloat16):
            rough = vit.block(1, z, plug)
        assert rough.dtype == torch.float32
        assert torch.nn.functional.cosine_similarity(rough, exact, dim=-1).min() > 0.999


def test_what_is_given_takes_the_type_of_the_network() -> None:
    vit = ViT(timm_model().to(torch.bfloat16))
    given = [noise(1, MORE, WIDTH, seed=seed).float() for seed in range(3)]
    plug = Given(tokens=given[0], prefix=Prefix(keys=given[1], values=given[2]))
    assert vit.block(1, stream().detach().bfloat16(), plug).dtype == torch.bfloat16


def test_native_features_are_timms_with_an_empty_plug() -> None:
    model = timm_model()
    vit = ViT(copy.deepcopy(model))
    x = pictures(2, vit.image_size)
    torch.testing.assert_close(vit.features(x, Plug()), native(model, x), rtol=1e-11, atol=1e-12)
