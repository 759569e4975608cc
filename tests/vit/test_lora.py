"""LoRA pairs are what changed weights would be, and folding them away leaves the network as it is."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor

from rwf.errors import UserError
from rwf.vit.forward import ViT
from rwf.vit.lora import LoRA
from tests.pictures import tiny_vit

SLICES = {"q": slice(0, 16), "k": slice(16, 32), "v": slice(32, 48)}


def filled(lora: LoRA, seed: int = 0) -> LoRA:
    """The same with up-projections that are not zero."""
    g = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name in lora.targets:
            up = lora.get_parameter(f"up_{name}")
            up.copy_(torch.randn(up.shape, dtype=up.dtype, generator=g) * 0.1)
    return lora


def merged(vit: ViT, lora: LoRA) -> ViT:
    """The literal form: a copy of the ViT with the products added to its weights."""
    out = copy.deepcopy(vit)
    for i in lora.blocks:
        block = out.timm.blocks[i]
        layers = {"proj": block.attn.proj, "fc1": block.mlp.fc1, "fc2": block.mlp.fc2}
        for name, term in lora.delta(i).items():
            product = term.scale * term.up @ term.down
            weight = block.attn.qkv.weight[SLICES[name]] if name in SLICES else layers[name].weight
            weight.data += product.detach()
    return out


def pictures() -> Tensor:
    return torch.randn(3, 3, 8, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(5))


@pytest.mark.parametrize("targets", [("q", "v"), ("k", "v"), ("q", "k", "v", "proj", "fc1", "fc2")])
def test_features_are_those_of_changed_weights(targets: tuple[str, ...]) -> None:
    vit, x = tiny_vit(), pictures()
    lora = filled(LoRA(width=16, depth=4, rank=3, targets=targets, blocks=[0, 2], scale=0.7).double())
    with torch.no_grad():
        torch.testing.assert_close(vit.features(x, lora), merged(vit, lora).features(x), rtol=1e-12, atol=1e-12)
    assert not lora.delta(1)


def test_a_new_pair_adds_nothing_and_has_a_gradient() -> None:
    vit, x = tiny_vit(), pictures()
    lora = LoRA(width=16, depth=4).double()
    y = vit.features(x, lora)
    torch.testing.assert_close(y, vit.features(x), rtol=1e-13, atol=1e-13)
    y.square().sum().backward()
    assert lora.get_parameter("up_q").grad is not None
    assert all(
        bool(g.abs().sum(dim=(1, 2)).all()) for t in "qv" if (g := lora.get_parameter(f"up_{t}").grad) is not None
    )
    spread = lora.get_parameter("down_q").detach().std()
    assert float(spread) == pytest.approx((1 / 3 / 16) ** 0.5, rel=0.15), "kaiming with a = sqrt 5"


def test_counts_of_the_paper() -> None:
    with torch.device("meta"):
        online = LoRA(width=768, depth=12, rank=4)
        inflora = LoRA(width=768, depth=12, rank=10, targets=("k", "v"), train_down=False)
    assert sum(p.numel() for p in online.parameters()) == 147_456
    assert sum(p.numel() for p in inflora.parameters()) == 184_320


@pytest.mark.parametrize("folds", [1, 3, 12])
def test_folding_leaves_the_function_as_it_is(folds: int) -> None:
    """12 pairs of rank 4 are wider than 16: by then the sum is one full matrix."""
    vit, x = tiny_vit(depth=2), pictures()
    lora = LoRA(width=16, depth=2, rank=4, targets=("q", "v", "fc1", "fc2")).double()
    with torch.no_grad():
        for n in range(folds):
            before = vit.features(x, filled(lora, n))
            lora.fold()
            torch.testing.assert_close(vit.features(x, lora), before, rtol=1e-11, atol=1e-11)
    kept = lora.get_buffer("frozen_down_q")
    assert kept.shape[1] == min(4 * folds, 16)
    assert lora.get_buffer("frozen_up_fc1").shape[1:] == (64, min(4 * folds, 16))


def test_each_pair_starts_anew() -> None:
    a, b = LoRA(width=16, depth=1, seed=1), LoRA(width=16, depth=1, seed=1)
    first = a.get_parameter("down_q").detach().clone()
    assert torch.equal(first, b.get_parameter("down_q"))
    a.fold()
    assert not torch.equal(first, a.get_parameter("down_q"))
    assert not a.get_parameter("up_q").any()
    assert not torch.equal(first, LoRA(width=16, depth=1, seed=2).get_parameter("down_q"))


def test_official_fold_adds_cross_terms_and_leaves_zeros() -> None:
    lora = LoRA(width=16, depth=1, rank=2, targets=("q",)).double()
    pairs = []
    for n in range(2):
        with torch.no_grad():
            down = lora.get_parameter("down_q")
            down.copy_(torch.randn(down.shape, generator=torch.Generator().manual_seed(n)))
        filled(lora, n)
        pairs.append([lora.get_parameter(f"{kind}_q").detach()[0].clone() for kind in ("up", "down")])
        lora.fold(official=True)
    assert not any(p.any() for p in lora.parameters())
    (up1, down1), (up2, down2) = pairs
    kept = lora.get_buffer("frozen_up_q")[0] @ lora.get_buffer("frozen_down_q")[0]
    torch.testing.assert_close(kept, up1 @ down1 + up2 @ down2 + up1 @ down2 + up2 @ down1)


def test_designed_downs_are_not_trained() -> None:
    lora = LoRA(width=16, depth=2, rank=3, targets=("k", "v"), train_down=False)
    assert set(lora.pairs()) == {"up_k", "up_v"}
    matrix = torch.randn(3, 16)
    lora.set_down(1, matrix)
    assert torch.equal(lora.delta(1)["k"].down, matrix)
    assert torch.equal(lora.delta(1)["v"].down, matrix)
    assert not torch.equal(lora.delta(0)["k"].down, matrix)


def test_impossible_settings_are_one_sentence() -> None:
    with pytest.raises(UserError, match="rank of 17"):
        LoRA(width=16, depth=1, rank=17)
    with pytest.raises(UserError, match="targets"):
        LoRA(width=16, depth=1, targets=("q", "w"))
    with pytest.raises(UserError, match="blocks 0 to 1"):
        LoRA(width=16, depth=2, blocks=[2])
