"""The price list: what a step computes, counted on the meta device, and the counter against a hand-counted block."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import timm
import torch
from torch import Tensor, nn

from rwf.vit.flops import count, frozen_forward_flops, on_meta
from rwf.vit.forward import ViT
from rwf.vit.sockets import LowRank, Plug, Prefix
from tests.vit.models import timm_model

B, L, D, DEPTH, M, CLASSES = 64, 197, 768, 12, 30, 100


@pytest.fixture(scope="module")
def vit() -> ViT:
    with torch.device("meta"):
        return ViT(timm.create_model("vit_base_patch16_224"), attention="explicit")


@pytest.fixture(scope="module")
def unit(vit: ViT) -> int:
    return frozen_forward_flops(vit, B)


def block_flops(rows: int, prefix: int = 0) -> int:
    """A multiplication and an addition for every product of a block, by hand, where ``rows`` attend."""
    queries_and_projection = 2 * rows * D * D
    keys_and_values = 2 * (L + prefix) * D * D
    attention = 2 * rows * (L + prefix) * D
    mlp = 2 * rows * D * 4 * D
    return 2 * B * (queries_and_projection + keys_and_values + attention + mlp)


EMBEDDING = 2 * B * (L - 1) * (3 * 16 * 16) * D


def test_a_block_counted_by_hand(vit: ViT) -> None:
    z = torch.empty(B, L, D, device="meta")
    assert count(lambda: vit.block(0, z)) == block_flops(L)
    assert count(lambda: vit.block(0, z, rows=slice(0, 1))) == block_flops(1)
    made = _Static(torch.empty(B, M, D, device="meta"))
    assert count(lambda: vit.block(0, z, made)) == block_flops(L, M)
    assert count(lambda: vit.block(0, z, made, rows=slice(0, 1))) == block_flops(1, M)


def test_a_forward_counted_by_hand(vit: ViT) -> None:
    assert frozen_forward_flops(vit, B) == EMBEDDING + DEPTH * block_flops(L)
    assert frozen_forward_flops(vit, B, all_rows=False) == EMBEDDING + (DEPTH - 1) * block_flops(L) + block_flops(1)


def test_a_prefix_that_is_the_same_for_all_pictures_is_made_once(vit: ViT) -> None:
    z = torch.empty(B, L, D, device="meta")
    shared, own = (_Static(torch.empty(n, M, D, device="meta")) for n in (1, B))
    one, many = count(lambda: vit.block(0, z, shared)), count(lambda: vit.block(0, z, own))
    assert many - one == 2 * 2 * M * D * D * (B - 1)


class _Static(Plug):
    def __init__(self, tokens: Tensor) -> None:
        self._tokens = tokens

    def prefix(self, block: int, z: Tensor) -> Prefix:
        return Prefix(tokens=self._tokens)


class _Routing(nn.Module, Plug):
    """The routed prompts of the first three blocks, in the form that computes little; W_K, W_V frozen or none."""

    def __init__(self, dense: bool) -> None:
        super().__init__()
        self.queries = nn.ParameterList(nn.Parameter(torch.empty(M, D, device="meta")) for _ in range(3))
        self.w_q = nn.ParameterList(nn.Parameter(torch.empty(D, D, device="meta")) for _ in range(3))
        self.w_kv = torch.empty(D, D, device="meta") if dense else None

    def prefix(self, block: int, z: Tensor) -> Prefix | None:
        if block >= 3:
            return None
        q = self.queries[block] @ self.w_q[block]
        left = q if self.w_kv is None else q @ self.w_kv.T
        p = (left @ z.transpose(1, 2)).softmax(dim=-1) @ z
        return Prefix(tokens=p if self.w_kv is None else p @ self.w_kv)


class _LoRA(nn.Module, Plug):
    def __init__(self, rank: int) -> None:
        super().__init__()
        self.down = nn.Parameter(torch.empty(DEPTH, 2, rank, D, device="meta"))
        self.up = nn.Parameter(torch.empty(DEPTH, 2, D, rank, device="meta"))

    def delta(self, block: int) -> dict[str, LowRank]:
        return {name: LowRank(self.down[block, i], self.up[block, i]) for i, name in enumerate("qv")}


class _Adapters(nn.Module, Plug):
    def __init__(self, bottleneck: int = 64) -> None:
        super().__init__()
        self.down = nn.ParameterList(nn.Parameter(torch.empty(bottleneck, D, device="meta")) for _ in range(DEPTH))
        self.up = nn.ParameterList(nn.Parameter(torch.empty(D, bottleneck, device="meta")) for _ in range(DEPTH))

    def bypass(self, block: int, h: Tensor) -> Tensor:
        return (h @ self.down[block].T).relu() @ self.up[block].T


def step(vit: ViT, plug: Plug | None) -> int:
    """A training step: forward, a linear head on 100 classes, backward."""
    head = nn.Linear(D, CLASSES, device="meta")

    def run() -> None:
        features = vit.features(torch.empty(B, 3, 224, 224, device="meta"), plug)
        head(features).square().mean().backward()

    return count(run)


FIGURES: dict[str, tuple[Callable[[], Plug | None], float]] = {
    "linear probe": (lambda: None, 0.931),
    "routed prompts, dense keys": (lambda: _Routing(dense=True), 1.898),
    "routed prompts, no key matrix": (lambda: _Routing(dense=False), 1.892),
    "LoRA on q and v, rank 4": (lambda: _LoRA(4), 1.876),
    "LoRA on q and v, rank 16": (lambda: _LoRA(16), 1.890),
    "adapters of 64": (_Adapters, 1.842),
}


@pytest.mark.parametrize("name", FIGURES)
def test_a_training_step_in_units_of_a_frozen_forward(name: str, vit: ViT, unit: int) -> None:
    make, expected = FIGURES[name]
    assert step(vit, make()) / unit == pytest.approx(expected, abs=0.0006)


@torch.no_grad()
@pytest.mark.parametrize(("dense", "expected"), [(True, 0.943), (False, 0.940)])
def test_a_prediction_in_units_of_a_frozen_forward(dense: bool, expected: float, vit: ViT, unit: int) -> None:
    plug, pictures = _Routing(dense), torch.empty(B, 3, 224, 224, device="meta")
    assert count(lambda: vit.features(pictures, plug)) / unit == pytest.approx(expected, abs=0.0006)


def test_the_plain_forward_is_timms_with_either_attention(vit: ViT, unit: int) -> None:
    twin = on_meta(vit)
    for twin.attention in ("explicit", "sdpa"):
        assert count(lambda: twin.encode(torch.empty(B, 3, 224, 224, device="meta"), read=slice(None))) == unit


def test_a_twin_on_meta_has_the_shapes_and_switches_but_no_numbers() -> None:
    vit = ViT(timm_model())
    vit.timm.norm.requires_grad_(True)
    twin = on_meta(vit)
    assert [(n, p.shape, p.requires_grad) for n, p in twin.named_parameters()] == [
        (n, p.shape, p.requires_grad) for n, p in vit.named_parameters()
    ]
    assert {p.device.type for p in twin.parameters()} == {"meta"}
    assert {p.device.type for p in vit.parameters()} == {"cpu"}
    assert (vit.attention, twin.attention) == ("auto", "explicit")


def test_full_fine_tuning_in_units_of_a_frozen_forward(vit: ViT, unit: int) -> None:
    assert step(on_meta(vit).requires_grad_(True), None) / unit == pytest.approx(2.786, abs=0.0006)
