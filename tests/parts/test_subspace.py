"""InfLoRA's designs and dual memory over whole official runs, by projectors; and what they promise in closed form."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from rwf.errors import UserError
from rwf.parts.subspace import DualMemory, InputMoments, energy_threshold, gram
from rwf.vit.flops import blank, count
from rwf.vit.lora import LoRA
from tests.golden import golden
from tests.pictures import tiny_vit


def moment(rows: int, width: int, seed: int) -> Tensor:
    """A covariance with singular values that fall off."""
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, width, dtype=torch.float64, generator=g) * 0.7 ** torch.arange(width)
    q, _ = torch.linalg.qr(torch.randn(width, width, dtype=torch.float64, generator=g))
    return (x @ q).T @ (x @ q) / rows


def rows_agree(ours: Tensor, theirs: Tensor, tolerance: float) -> None:
    """Equal up to the sign of each row."""
    signs = (ours * theirs).sum(1, keepdim=True).sign()
    torch.testing.assert_close(ours * signs, theirs, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", ["inflora_3tasks_098", "inflora_3tasks_switch"])
def test_golden_designs_and_memories(name: str) -> None:
    a, o = golden(name)
    memories = [DualMemory(o["d"]) for _ in range(o["layers"])]
    for t in range(o["tasks"]):
        threshold = energy_threshold(t, o["total_sessions"], o["lamb"], o["lame"])
        assert threshold == pytest.approx(float(a[f"t{t}_threshold"]), rel=1e-12)
        for i, memory in enumerate(memories):
            design = memory.design(a[f"t{t}_cov_design_{i}"], o["r"])
            for target in ("k", "v"):
                rows_agree(design, a[f"t{t}_A_{target}_{i}"], 1e-6)  # theirs went through float32 from task 1 on
            if t == 0:
                rows_agree(design, a[f"t{t}_A_k_{i}"], 1e-8)
            memory.update(a[f"t{t}_cov_after_{i}"], threshold)
            assert memory.basis.shape == a[f"t{t}_basis_{i}"].shape
            assert ("retain" if bool(memory.retains) else "remove") == a[f"t{t}_mode"][i]
            torch.testing.assert_close(memory.basis @ memory.basis.T, a[f"t{t}_projector_{i}"], rtol=1e-5, atol=1e-6)
            torch.testing.assert_close(memory.basis.T @ memory.basis, torch.eye(memory.basis.shape[1]).double())


@pytest.mark.parametrize("name", ["inflora_3tasks_098", "inflora_3tasks_switch"])
def test_golden_branches_add_up_in_the_toy_network(name: str) -> None:
    """The toy layers of the official run (attention without norm, residual) with our stack of LoRA pairs."""
    a, o = golden(name)
    d, heads, layers = o["d"], o["heads"], o["layers"]
    lora = LoRA(width=d, depth=layers, rank=o["r"], targets=("k", "v"), train_down=False).double()
    moments = InputMoments(d, layers)

    def layer(i: int, x: Tensor) -> Tensor:
        moments.tap(i, "attn", x)
        q, k, v = (x @ a[f"layer{i}.qkv.weight"].T + a[f"layer{i}.qkv.bias"]).chunk(3, -1)
        delta = lora.delta(i)
        q, k, v = (y.unflatten(-1, (heads, -1)).transpose(1, 2) for y in (q, k + delta["k"](x), v + delta["v"](x)))
        y = torch.nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        out: Tensor = x + y @ a[f"layer{i}.proj.weight"].T + a[f"layer{i}.proj.bias"]
        return out

    def network(x: Tensor) -> Tensor:
        for i in range(layers):
            x = layer(i, x)
        return x.mean(1)

    with torch.no_grad():
        for t in range(o["tasks"]):
            for i in range(layers):
                lora.set_down(i, a[f"t{t}_A_k_{i}"])
                for target in ("k", "v"):
                    lora.get_parameter(f"up_{target}")[i].copy_(a[f"t{t}_B_{target}_{i}"])
            moments.reset()
            torch.testing.assert_close(network(a[f"t{t}_X"][:2]), a[f"t{t}_net_out"], rtol=1e-9, atol=1e-10)
            moments.reset()
            for part in a[f"t{t}_X"].split(9):
                network(part)
            for i in range(layers):
                torch.testing.assert_close(moments.mean(i), a[f"t{t}_cov_after_{i}"], rtol=1e-9, atol=1e-10)
            lora.fold()


def literal_update(basis: Tensor, retains: bool, h: Tensor, threshold: float) -> int:
    """How many directions change hands, counted one by one over singular values."""
    projected = basis @ basis.T @ h
    singular = torch.linalg.svdvals(projected if retains else h - projected) ** 2
    total = float((torch.linalg.svdvals(h) ** 2).sum())
    n = 0
    if retains:
        free = float(singular.sum()) / total
        while n < basis.shape[1] and free >= 1 - threshold:
            free, n = free - float(singular[n]) / total, n + 1
    else:
        occupied = 1 - float(singular.sum()) / total
        while occupied < threshold:
            occupied, n = occupied + float(singular[n]) / total, n + 1
    return n


@pytest.mark.parametrize("seed", range(4))
def test_updates_move_as_many_directions_as_counted_one_by_one(seed: int) -> None:
    memory = DualMemory(12)
    memory.update(moment(40, 12, seed), 0.9)
    modes = []
    for t in range(1, 9):
        h, threshold = moment(40, 12, 10 * seed + t + 100), 0.9 + 0.011 * t
        retained, before = bool(memory.retains), memory.basis.shape[1]
        n = literal_update(memory.basis, retained, h, threshold)
        memory.update(h, threshold)
        after = memory.basis.shape[1]
        turned = bool(memory.retains) and not retained
        assert after == (before - n if retained else 12 - before - n if turned else before + n)
        torch.testing.assert_close(memory.basis.T @ memory.basis, torch.eye(after).double())
        modes.append(bool(memory.retains))
    assert modes[-1], "the run reaches the mode that stores what is free"


@pytest.mark.parametrize("seed", range(4))
def test_designs_do_not_reach_into_what_is_occupied(seed: int) -> None:
    memory = DualMemory(12)
    occupied = torch.zeros(12, 0, dtype=torch.float64)
    for t in range(6):
        design = memory.design(moment(40, 12, 10 * seed + t), 4)
        assert float((design @ occupied).abs().max() if occupied.numel() else 0) < 1e-8
        real = design[design.any(1)]
        torch.testing.assert_close(real @ real.T, torch.eye(len(real)).double() / 3)
        memory.update(moment(40, 12, 10 * seed + t), energy_threshold(t, 6, 0.9))
        if bool(memory.retains):
            full, _ = torch.linalg.qr(memory.basis, mode="complete")
            occupied = full[:, memory.basis.shape[1] :]
        else:
            occupied = memory.basis


def test_a_design_without_free_directions_is_zero() -> None:
    memory = DualMemory(6)
    memory.update(moment(30, 6, 0), 0.5)
    while memory.basis.shape[1] or not bool(memory.retains):
        memory.update(moment(30, 6, 1), 1.0)
    assert not memory.design(moment(30, 6, 2), 3).any()


def test_two_free_directions_give_two_rows() -> None:
    memory = DualMemory(4)
    memory.basis, memory.retains = torch.eye(4).double()[:, :2], torch.tensor(True)
    design = memory.design(torch.diag(torch.tensor([1.0, 4.0, 9.0, 16.0])).double(), 3)
    literal = torch.zeros(3, 4).double()
    literal[0, 1] = literal[1, 0] = 1 / math.sqrt(3)
    torch.testing.assert_close(design.abs(), literal)


def test_a_first_task_that_fills_more_than_half_stores_what_is_free() -> None:
    memory = DualMemory(6)
    h = torch.diag(torch.tensor([6.0, 5.0, 4.0, 3.0, 2.0, 1.0]).double())
    memory.update(h, 0.98)  # squares 36 25 16 9 4 1 of 91: 86/91 < 0.98, 90/91 is not
    assert bool(memory.retains)
    torch.testing.assert_close(memory.basis @ memory.basis.T, torch.diag(torch.tensor([0.0, 0, 0, 0, 1, 1]).double()))


@pytest.mark.parametrize("seed", range(4))
def test_rounding_is_not_a_direction(seed: int) -> None:
    """Inputs that span 2 directions occupy 2, even where more than all of their energy is asked for."""
    g = torch.Generator().manual_seed(seed)
    flat = [
        torch.randn(9, 2, dtype=torch.float64, generator=g) @ torch.randn(2, 12, dtype=torch.float64, generator=g)
        for _ in range(2)
    ]
    memory = DualMemory(12)
    for t, x in enumerate(flat):
        memory.update(x.T @ x, 1.0 + 1e-9)
        assert memory.basis.shape[1] == 2 * t + 2


def test_exactly_half_is_not_more_than_half() -> None:
    memory = DualMemory(4)
    memory.update(torch.diag(torch.tensor([2.0, 2.0, 1.0, 1.0]).double()), 0.85)
    assert memory.basis.shape[1] == 2
    assert not bool(memory.retains)


def test_a_free_direction_goes_when_what_is_left_is_just_enough() -> None:
    memory = DualMemory(2)
    memory.basis, memory.retains, memory.tasks = torch.eye(2).double()[:, :1], torch.tensor(True), torch.tensor(1)
    memory.update(torch.eye(2).double(), 0.5)  # free: 1/2 of the energy, and 1/2 may be left free
    assert memory.basis.shape[1] == 0


def test_moments_are_of_the_attention_inputs() -> None:
    vit, x = tiny_vit(depth=2), torch.randn(3, 3, 8, 8, dtype=torch.float64)
    moments = InputMoments(vit.width, vit.depth)
    for part in x.split(2):
        vit.features(part, plug=moments)
    seen: list[Any] = []
    for block in vit.timm.blocks:
        block.norm1.register_forward_hook(lambda _m, _i, out: seen.append(out))
    vit.timm.forward_features(x)
    for i, tokens in enumerate(seen):
        flat = tokens.flatten(0, 1)
        torch.testing.assert_close(moments.mean(i), flat.T @ flat / len(flat))


@pytest.mark.parametrize("width", [5, 192, 193, 400])
def test_mirror_images_are_computed_once(width: int) -> None:
    x = torch.randn(7, width, dtype=torch.float64)
    torch.testing.assert_close(gram(x), x.T @ x)


def test_what_mirror_images_spare() -> None:
    x = blank(64, 768)
    assert count(lambda: gram(x)) == pytest.approx(10 / 16 * 2 * 64 * 768**2)


def test_moments_do_not_lose_digits_under_autocast() -> None:
    x = torch.randn(2, 5, 16, generator=torch.Generator().manual_seed(0))
    exact, found = InputMoments(16, 1), InputMoments(16, 1)
    exact.tap(0, "attn", x)
    with torch.autocast("cpu", torch.bfloat16):
        found.tap(0, "attn", x)
    found.tap(0, "mlp", x)
    assert torch.equal(exact.sums, found.sums)


def test_impossible_rank_is_one_sentence() -> None:
    with pytest.raises(UserError, match="rank of 7 is above the width 6"):
        DualMemory(6).design(torch.eye(6), 7)
