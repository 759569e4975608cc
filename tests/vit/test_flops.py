"""The counter: against products counted by hand, torch's own counter on a real step, and what a step really keeps."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import timm
import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from rwf.vit import flops
from rwf.vit.flops import DryRun, Saved, blank, count, frozen_forward_flops, without_numbers
from rwf.vit.forward import ViT
from rwf.vit.sockets import LowRank, Plug, Prefix
from tests.vit.models import timm_model

B, L, D, DEPTH, M, CLASSES = 64, 197, 768, 12, 30, 100


@pytest.fixture(scope="module")
def vit() -> ViT:
    with torch.device("meta"):
        return without_numbers(ViT(timm.create_model("vit_base_patch16_224")))


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
    z = blank(B, L, D)
    assert count(lambda: vit.block(0, z)) == block_flops(L)
    assert count(lambda: vit.block(0, z, rows=slice(0, 1))) == block_flops(1)
    made = _Static(blank(B, M, D))
    assert count(lambda: vit.block(0, z, made)) == block_flops(L, M)
    assert count(lambda: vit.block(0, z, made, rows=slice(0, 1))) == block_flops(1, M)


def test_a_forward_counted_by_hand(vit: ViT) -> None:
    assert frozen_forward_flops(vit, B) == EMBEDDING + DEPTH * block_flops(L)
    with torch.no_grad():
        features = count(lambda: vit.features(blank(B, 3, 224, 224)))
    assert features == EMBEDDING + (DEPTH - 1) * block_flops(L) + block_flops(1)


def test_a_prefix_that_is_the_same_for_all_pictures_is_made_once(vit: ViT) -> None:
    z = blank(B, L, D)
    shared, own = (_Static(blank(n, M, D)) for n in (1, B))
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
        self.queries = nn.ParameterList(nn.Parameter(blank(M, D)) for _ in range(3))
        self.w_q = nn.ParameterList(nn.Parameter(blank(D, D)) for _ in range(3))
        self.w_kv = blank(D, D) if dense else None

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
        self.down = nn.Parameter(blank(DEPTH, 2, rank, D))
        self.up = nn.Parameter(blank(DEPTH, 2, D, rank))

    def delta(self, block: int) -> dict[str, LowRank]:
        return {name: LowRank(self.down[block, i], self.up[block, i]) for i, name in enumerate("qv")}


class _Adapters(nn.Module, Plug):
    def __init__(self, bottleneck: int = 64) -> None:
        super().__init__()
        self.down = nn.ParameterList(nn.Parameter(blank(bottleneck, D)) for _ in range(DEPTH))
        self.up = nn.ParameterList(nn.Parameter(blank(D, bottleneck)) for _ in range(DEPTH))

    def bypass(self, block: int, h: Tensor) -> Tensor:
        return (h @ self.down[block].T).relu() @ self.up[block].T


def step(vit: ViT, plug: Plug | None) -> int:
    """A training step: forward, a linear head on 100 classes, backward."""
    head = nn.Linear(D, CLASSES)

    def run() -> None:
        features = vit.features(blank(B, 3, 224, 224), plug)
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
    plug, pictures = _Routing(dense), blank(B, 3, 224, 224)
    assert count(lambda: vit.features(pictures, plug)) / unit == pytest.approx(expected, abs=0.0006)


def test_full_fine_tuning_in_units_of_a_frozen_forward(vit: ViT, unit: int) -> None:
    assert step(without_numbers(vit).requires_grad_(True), None) / unit == pytest.approx(2.786, abs=0.0006)


@torch.no_grad()
def test_the_plain_forward_is_timms_with_either_attention(vit: ViT, unit: int) -> None:
    x, twin = blank(B, 3, 224, 224), without_numbers(vit)
    for twin.attention in ("explicit", "sdpa"):
        assert count(lambda: twin.encode(x, read=slice(None))) == unit
    assert count(lambda: twin.timm.forward_features(x)) == unit


# -- the counter -----------------------------------------------------------------------------------------------------


def test_a_layer_counted_by_hand() -> None:
    layer, x = nn.Linear(300, 200), torch.randn(7, 300)
    once = 2 * 7 * 300 * 200
    assert count(lambda: layer(x)) == once
    assert count(lambda: layer(x).sum().backward()) == 2 * once, "no gradient for the input"
    assert count(lambda: layer(x.requires_grad_()).sum().backward()) == 3 * once
    assert count(lambda: torch.zeros(5, 6).addmm_(torch.ones(5, 7), torch.ones(7, 6))) == 2 * 5 * 6 * 7, "in place"
    convolution = nn.Conv2d(3, 4, 2, stride=2)
    assert count(lambda: convolution(torch.ones(1, 3, 8, 8))) == 2 * 4 * 4 * (3 * 2 * 2) * 4


@pytest.mark.parametrize("large", [0, 500, flops.LARGE], ids=["nothing computed", "some", "most"])
def test_it_counts_what_torch_counts_in_a_real_step(large: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flops, "LARGE", large)
    vit = ViT(timm_model(), attention="explicit").requires_grad_(True).float()
    x, optimizer = torch.randn(3, 3, 64, 64), torch.optim.Adam(vit.parameters(), fused=True)

    def run() -> None:
        vit.features(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    with FlopCounterMode(display=False) as counter:
        run()
    assert count(run) == counter.get_total_flops() > 0


def test_nothing_large_is_computed_or_changed() -> None:
    weight = nn.Parameter(torch.ones(300, 300))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    with DryRun() as dry:
        huge = blank(10**7, 10**6) @ blank(10**6, 10**7)
        huge += 1.0
        (torch.ones(4, 300) @ weight).sum().backward()
        optimizer.step()
        huge[:, 3] = 2.0
    assert dry.flops == 2 * 10**20 + 2 * 2 * 4 * 300 * 300
    assert torch.equal(weight, torch.ones(300, 300))


def test_decisions_that_hang_on_small_numbers_are_taken_as_ever() -> None:
    """Which step is next, which rows are chosen, whether a loss is finite: methods decide by numbers."""
    with DryRun():
        rows = torch.tensor([3, 1, 3])
        assert rows.unique().tolist() == [1, 3]
        chosen = torch.arange(6.0).reshape(3, 2)[rows == 3]
        assert chosen.tolist() == [[0.0, 1.0], [4.0, 5.0]]
        assert blank(400, 400)[torch.arange(400) < 7].shape == (7, 400)
        assert float(blank(400, 400).mean()) == 0.0
        assert float((torch.ones(2, 3) @ torch.ones(3, 2)).sum()) == 0.0, "no product has numbers"


def test_a_module_without_numbers_has_the_shapes_and_switches() -> None:
    vit = ViT(timm_model())
    vit.timm.norm.requires_grad_(True)
    twin = without_numbers(vit)
    assert [(n, p.shape, p.requires_grad) for n, p in twin.named_parameters()] == [
        (n, p.shape, p.requires_grad) for n, p in vit.named_parameters()
    ]
    assert all(p.untyped_storage().nbytes() <= 8 for p in twin.parameters())
    assert all(p.untyped_storage().nbytes() > 8 for p in vit.parameters() if p.numel() > 1)
    assert (vit.attention, twin.attention) == ("auto", "explicit")


# -- what a step keeps -----------------------------------------------------------------------------------------------


def test_what_is_kept_for_a_backward_by_hand() -> None:
    frozen, x = nn.Linear(30, 40).requires_grad_(False), torch.randn(5, 30, requires_grad=True)
    saved = Saved(frozen.parameters())
    with saved:
        y = frozen(x)
        assert saved.bytes == 0, "the weights are known, the input of a frozen layer is not needed"
        z = nn.functional.gelu(y)
        assert saved.bytes == 5 * 40 * 4
        a, b = z.chunk(2, dim=1)
        loss = (a.sin() + b.sin()).sum()
        assert saved.bytes == 2 * 5 * 40 * 4, "two views keep one tensor"
        loss.backward()
        nn.functional.gelu(frozen(x)).sum().backward()
    assert saved.bytes == 2 * 5 * 40 * 4, "the most at once, not the sum of both"


def test_a_dry_run_keeps_what_a_real_step_keeps(monkeypatch: pytest.MonkeyPatch) -> None:
    vit = ViT(timm_model(), attention="explicit").float()
    x, plug = torch.randn(3, 3, 64, 64), _Static(nn.Parameter(torch.randn(1, 5, 48)))

    def kept() -> int:
        saved = Saved([*vit.parameters(), plug._tokens])
        with saved:
            vit.features(x, plug).square().mean().backward()
        return saved.bytes

    real = kept()
    monkeypatch.setattr(flops, "LARGE", 10)
    with DryRun():
        assert kept() == real > 10**5
