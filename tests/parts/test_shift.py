"""Online-LoRA's parts: the official decisions on given losses, and official runs of a small LoRA-ViT step by step."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional

from rwf.data.batch import Batch
from rwf.errors import UserError
from rwf.parts.shift import HardBuffer, PlateauDetector, RunningImportance, pseudo_label_squares
from rwf.vit.lora import LoRA
from tests.golden import below, close, golden
from tests.pictures import batch_of, picture, tiny_vit, viewer


@pytest.mark.parametrize("name", ["decay_jump_decay", "early", "noisy_plateaus"])
def test_golden_detector(name: str) -> None:
    a, o = golden(f"onlinelora_detector_{name}_m6.0_v0.1")
    detector = PlateauDetector(
        mean_threshold=o["mean_threshold"], variance_threshold=o["variance_threshold"], window=o["loss_window_length"]
    )
    fired = []
    for step, loss in enumerate(a["loss"].tolist()):
        assert detector.new_peak == bool(a["peak_flag_before_step"][step])
        if detector.push(loss):
            fired.append(step)
        assert detector.mean == pytest.approx(float(a["window_mean"][step]), rel=1e-12)
        assert detector.variance == pytest.approx(float(a["window_var"][step]), rel=1e-12, abs=1e-15)
    assert fired == a["update_steps"].tolist()


@given(st.lists(st.floats(0, 10), max_size=40), st.integers(0, 40))
def test_a_break_does_not_change_decisions(losses: list[float], cut: int) -> None:
    def fresh() -> PlateauDetector:
        return PlateauDetector(mean_threshold=4.0, variance_threshold=3.0)

    whole, broken = fresh(), fresh()
    for step, loss in enumerate(losses):
        if step == cut:
            tensors, extra = broken.state()
            broken = fresh()
            broken.restore(tensors, json.loads(json.dumps(extra)))
        assert whole.push(loss) == broken.push(loss)


def test_one_firing_for_each_rise() -> None:
    detector = PlateauDetector(mean_threshold=3.0, variance_threshold=0.1)
    losses = [9.0] * 5 + [1.0] * 9 + [8.0] * 2 + [1.0] * 9
    fired = [step for step, loss in enumerate(losses) if detector.push(loss)]
    assert len(fired) == 2
    assert fired[0] == 9, "the first step at which all of the window is low"


class Toy:
    """The official loop on our parts: ViT, LoRA stack, detector, hard buffer, importance."""

    def __init__(self, a: dict[str, Any], o: dict[str, Any]) -> None:
        self.a, self.o = a, o
        start = {k.replace("qkv.qkv", "qkv"): v for k, v in below("init.lora_vit.", a).items()}
        self.vit = tiny_vit(start, depth=2)
        self.lora = LoRA(width=16, depth=2, rank=o["rank"]).double()
        self.head = nn.Linear(16, o["classes"]).double()
        self.head.load_state_dict(below("head.", start))
        self.pairs = [(i, t) for i in range(2) for t in ("q", "v")]
        with torch.no_grad():
            for i, t in self.pairs:
                for kind, letter in (("down", "a"), ("up", "b")):
                    values = start[f"blocks.{i}.attn.qkv.linear_new_{letter}_{t}.weight"]
                    self.lora.get_parameter(f"{kind}_{t}")[i].copy_(values)
                    assert not start[f"blocks.{i}.attn.qkv.linear_{letter}_{t}.weight"].any()
        self.detector = PlateauDetector(
            mean_threshold=o["mean_threshold"], variance_threshold=o["var_threshold"], window=o["window"]
        )
        self.hard = HardBuffer(o["hard_buffer_size"], whole_batches=True, viewer=self.view)
        self.importance = RunningImportance(official=True)
        self.adam = torch.optim.Adam([*self.lora.parameters(), *self.head.parameters()], lr=o["lr"])

    def view(self, images: Sequence[Tensor], ids: Sequence[int], visits: Sequence[int], kind: str) -> Tensor:
        return torch.stack([self.a["X"].flatten(0, 1)[i] for i in ids])

    def logits(self, batch: Batch) -> Tensor:
        out: Tensor = self.head(self.vit.features(batch.view(), plug=self.lora))
        return out

    def step(self, i: int) -> None:
        a, o, size = self.a, self.o, self.o["B"]
        assert self.detector.new_peak == bool(a["peak_flag"][i])
        assert self.importance.consolidations == int(a["updates_before_step"][i])
        ids = list(range(i * size, (i + 1) * size))
        batch = Batch([picture(j) for j in ids], a["Y"][i].tolist(), ids, self.view)
        kept = [item.id // size for item in self.hard.items][::size]
        assert kept == [j for j in a["hard_ids"][i].tolist() if j >= 0]
        replay = self.hard.replay()
        losses = functional.cross_entropy(self.logits(batch), a["Y"][i], reduction="none")
        kept_losses = losses.new_zeros(0)
        if len(replay):
            labels = torch.tensor(replay.labels)
            kept_losses = functional.cross_entropy(self.logits(replay), labels, reduction="none")
        plain = losses.mean() + kept_losses.sum() / size
        torch.testing.assert_close(losses.mean().detach(), a["current_ce"][i], rtol=1e-9, atol=1e-12)
        by_entry = kept_losses.detach().reshape(-1, size).mean(1)
        torch.testing.assert_close(by_entry, a["hard_ce"][i][: len(by_entry)], rtol=1e-9, atol=1e-12)
        torch.testing.assert_close(plain.detach(), a["window_value"][i], rtol=1e-9, atol=1e-12)
        penalty = self.importance.penalty(self.lora.pairs())
        torch.testing.assert_close(penalty.detach(), a["reg_value"][i], rtol=1e-6, atol=1e-15)
        total = plain + o["MAS_weight"] / 2 * penalty
        torch.testing.assert_close(total.detach(), a["total_loss"][i], rtol=1e-9, atol=1e-12)
        self.adam.zero_grad()
        total.backward()
        self.compare_gradients(i)
        self.adam.step()
        if self.detector.push(float(plain.detach())):
            self.consolidate(replay.select(range(size)) if len(replay) else None)
        assert self.detector.mean == pytest.approx(float(a["window_mean"][i]), rel=1e-9)
        assert self.detector.variance == pytest.approx(float(a["window_var"][i]), rel=1e-8, abs=1e-11)
        self.hard.refresh(batch, losses, kept_losses)

    def compare_gradients(self, i: int) -> None:
        theirs = below(f"grad{i}.lora_vit.", self.a)
        for name, value in theirs.items():
            if name.startswith("head."):
                ours = self.head.get_parameter(name.removeprefix("head.")).grad
            else:
                block, _, rest = name.removeprefix("blocks.").partition(".")
                _, letter, target = rest.removeprefix("attn.qkv.linear_").removesuffix(".weight").split("_")
                grad = self.lora.get_parameter(f"{'down' if letter == 'a' else 'up'}_{target}").grad
                ours = None if grad is None else grad[int(block)]
            torch.testing.assert_close(ours, value, rtol=1e-9, atol=1e-12)

    def consolidate(self, hardest: Batch | None) -> None:
        pairs = self.lora.pairs()
        squares = None
        if hardest is not None:  # the official iterators are used up after the first, the hardest, batch
            squares = pseudo_label_squares(self.logits(hardest), list(pairs.values()), official=True)
        self.importance.update(pairs, squares)
        n = self.importance.consolidations
        for p, (i, t) in enumerate(self.pairs):
            for kind, letter in (("down", "A"), ("up", "B")):
                theirs = self.a[f"omega{letter}_{n}_{p}"].double()
                ours = self.importance.importance[f"{kind}_{t}"][i]
                torch.testing.assert_close(ours, theirs.expand_as(ours), rtol=1e-6, atol=1e-15)
        if self.o["new_lora"]:
            self.lora.fold(official=True)


@pytest.mark.parametrize("name", ["official", "no_freeze"])
def test_golden_official_runs(name: str) -> None:
    a, o = golden(f"onlinelora_toy_run_{name}")
    toy = Toy(a, o)
    for i in range(o["steps"]):
        toy.step(i)
    assert toy.importance.consolidations == int(a["n_updates"])
    end = below("final.lora_vit.", a)
    near = 1e-6
    close(toy.head.weight.data, end["head.weight"], near)
    close(toy.head.bias.data, end["head.bias"], near)
    for i, t in toy.pairs:
        theirs = {k: end[f"blocks.{i}.attn.qkv.linear_{k}_{t}.weight"] for k in ("a", "b", "new_a", "new_b")}
        close(toy.lora.get_parameter(f"down_{t}").data[i], theirs["new_a"], near)
        close(toy.lora.get_parameter(f"up_{t}").data[i], theirs["new_b"], near)
        if o["new_lora"]:
            close(toy.lora.get_buffer(f"frozen_down_{t}")[i], theirs["a"], near)
            close(toy.lora.get_buffer(f"frozen_up_{t}")[i], theirs["b"], near)


def test_hard_buffer_keeps_the_hardest_pictures() -> None:
    buffer = HardBuffer(3, viewer=viewer)
    buffer.refresh(batch_of(range(4), "abcd"), torch.tensor([1.0, 4.0, 2.0, 3.0]), torch.zeros(0))
    assert [item.id for item in buffer.items] == [1, 3, 2]
    replay = buffer.replay()
    assert replay.visits == [1, 1, 1]
    buffer.refresh(batch_of([7], "e"), torch.tensor([2.5]), torch.tensor([0.1, 9.0, 2.6]))
    assert [item.id for item in buffer.items] == [3, 2, 7]
    assert buffer.replay().visits == [2, 2, 1]
    tensors, extra = buffer.state()
    other = HardBuffer(3, viewer=viewer)
    other.restore(tensors, json.loads(json.dumps(extra)))
    other.refresh(batch_of([8], "f"), torch.tensor([9.0]), torch.tensor([1.0, 2.0, 3.0]))
    assert [item.id for item in other.items] == [8, 7, 2]


def test_hard_buffer_of_whole_batches_and_a_short_last_one() -> None:
    buffer = HardBuffer(2, whole_batches=True, viewer=viewer)
    buffer.refresh(batch_of([0, 1], "aa"), torch.tensor([1.0, 3.0]), torch.zeros(0))
    buffer.refresh(batch_of([2], "b"), torch.tensor([2.5]), torch.tensor([1.0, 3.0]))
    assert [item.id for item in buffer.items] == [2, 0, 1]
    buffer.refresh(batch_of([3, 4], "cc"), torch.tensor([9.0, 1.0]), torch.tensor([4.0, 0.0, 1.0]))
    assert [item.id for item in buffer.items] == [3, 4, 2]
    assert buffer.lengths == [2, 1]


def test_hard_buffer_keeps_its_bounds() -> None:
    buffer = HardBuffer(3, viewer=viewer, max_bytes=2 * 19)
    buffer.refresh(batch_of(range(4), "abcd"), torch.tensor([1.0, 4.0, 2.0, 3.0]), torch.zeros(0))
    assert [item.id for item in buffer.items] == [1, 3]
    assert buffer.nbytes <= 38
    with pytest.raises(UserError, match="memory of 0"):
        HardBuffer(0, viewer=viewer)


def test_pseudo_label_squares_are_sums_over_pictures() -> None:
    torch.manual_seed(0)
    net, x = nn.Linear(3, 4).double(), torch.randn(5, 3).double()
    unused = nn.Parameter(torch.zeros(2))
    squares = pseudo_label_squares(net(x), [net.weight, unused, net.bias])
    weight, bias = torch.zeros(4, 3).double(), torch.zeros(4).double()
    for row in x:  # closed form: (softmax - onehot) times the input
        gap = net(row).softmax(0).detach()
        gap[net(row).argmax()] -= 1
        weight += torch.outer(gap, row) ** 2
        bias += gap**2
    torch.testing.assert_close(squares[0], weight)
    torch.testing.assert_close(squares[2], bias)
    assert not squares[1].any()


def test_importance_is_a_mean_over_consolidations() -> None:
    p = {"w": torch.tensor([1.0, 2.0])}
    for official, expected in ((False, [4.0, 2.0]), (True, [8 / 3, 4 / 3])):
        importance = RunningImportance(official=official)
        assert float(importance.penalty(p)) == 0
        importance.update(p, None)
        importance.update(p, [torch.tensor([2.0, 1.0])])
        importance.update(p, [torch.tensor([6.0, 3.0])])
        np.testing.assert_allclose(importance.importance["w"], expected, rtol=1e-6)
        assert float(importance.penalty(p)) == pytest.approx(expected[0] + 4 * expected[1])
        tensors, extra = importance.state()
        other = RunningImportance(official=official)
        other.restore(tensors, json.loads(json.dumps(extra)))
        for one in (importance, other):
            one.update(p, [torch.tensor([0.0, 0.0])])
        assert torch.equal(importance.importance["w"], other.importance["w"])


def test_impossible_window_is_one_sentence() -> None:
    with pytest.raises(UserError, match="window of 0"):
        PlateauDetector(mean_threshold=1, variance_threshold=1, window=0)
