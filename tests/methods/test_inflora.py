"""InfLoRA: official runs over 3 and 4 tasks through the method's boundaries, and the one-look form written out."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from rwf.data.batch import Batch, Boundary
from rwf.parts.told import Told
from rwf.run.build import make_method
from rwf.run.step import tell
from rwf.vit.forward import ViT
from rwf.vit.sockets import Plug
from tests.golden import golden
from tests.methods.by_hand import ByHand, Pictures, among, block_by_hand, bound, embedded, needs, pictures, refuses
from tests.pictures import tiny_vit


class ToyNetwork(nn.Module):
    """The network of the official runs in the ViT's place: attention without norm, residual, mean over tokens."""

    def __init__(self, a: dict[str, Any], o: dict[str, Any]) -> None:
        super().__init__()
        self.a, self.heads = a, o["heads"]
        self.width, self.feature_width, self.depth = o["d"], o["d"], o["layers"]
        self.nothing = nn.Parameter(torch.zeros(1), requires_grad=False)

    def features(self, x: Tensor, plug: Plug) -> Tensor:
        a = self.a
        for i in range(self.depth):
            plug.tap(i, "attn", x)
            q, k, v = (x @ a[f"layer{i}.qkv.weight"].T + a[f"layer{i}.qkv.bias"]).chunk(3, -1)
            delta = plug.delta(i)
            k, v = k + delta["k"](x), v + delta["v"](x)
            q, k, v = (y.unflatten(-1, (self.heads, -1)).transpose(1, 2) for y in (q, k, v))
            y = functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
            x = x + y @ a[f"layer{i}.proj.weight"].T + a[f"layer{i}.proj.bias"]
        return x.mean(1)


@pytest.mark.parametrize("name", ["inflora_3tasks_098", "inflora_3tasks_switch"])
def test_golden_runs_with_a_look_before_and_after_each_task(name: str) -> None:
    """Designs before, what is remembered after, and the function in between; B as prescribed there."""
    a, o = golden(name)
    tasks, per_task = o["tasks"], len(a["t0_X"])
    viewer = Pictures(torch.cat([a[f"t{t}_X"] for t in range(tasks)]) - 0.1)  # the train views are the inputs

    def look(task: int) -> Iterator[Batch]:
        if task < tasks:  # after the last task a boundary only ends it: there is nothing ahead
            for ids in torch.arange(task * per_task, (task + 1) * per_task).split(9):
                yield viewer.batch(ids.tolist(), [task] * len(ids))

    learner = bound(
        "inflora",
        ToyNetwork(a, o),
        viewer,
        told=Told(task_count=o["total_sessions"], second_look=look),
        rank=o["r"],
        energy=o["lamb"],
        last_energy=o["lame"],
        passes="official",
        lr=0.0,
        head_lr=0.0,
    )
    for t in range(tasks + 1):
        tell(learner, Boundary(t, [t]))
        if t:
            for i, memory in enumerate(learner.memories):
                assert memory.basis.shape == a[f"t{t - 1}_basis_{i}"].shape
                assert ("retain" if bool(memory.retains) else "remove") == a[f"t{t - 1}_mode"][i]
                projector = memory.basis @ memory.basis.T
                torch.testing.assert_close(projector, a[f"t{t - 1}_projector_{i}"], rtol=1e-5, atol=1e-6)
        if t == tasks:
            return
        for i in range(o["layers"]):
            for target in ("k", "v"):
                ours, theirs = learner.lora.get_buffer(f"down_{target}")[i], a[f"t{t}_A_{target}_{i}"]
                signs = (ours * theirs).sum(1).sign()
                torch.testing.assert_close(ours * signs[:, None], theirs, rtol=1e-6, atol=1e-6)
                learner.lora.get_parameter(f"up_{target}").data[i] = a[f"t{t}_B_{target}_{i}"] * signs
        learner.learn(viewer.batch(range(t * per_task, t * per_task + 2), [t, t]))  # at a rate of 0
        found = learner.features(a[f"t{t}_X"][:2]).detach()
        torch.testing.assert_close(found, a[f"t{t}_net_out"], rtol=1e-7, atol=1e-7)


RANK, ENERGY, LAST = 3, 0.6, 0.9
SMALL: dict[str, Any] = {"rank": RANK, "energy": ENERGY, "last_energy": LAST, "head": "linear", "clip": 0.0}
TWO = Told(task_count=2)


class Literal:
    """A ViT whose weights of k and v change by frozen products and a running one; sums what enters its attention."""

    def __init__(self, vit: ViT) -> None:
        self.vit = vit
        self.frozen = {(i, t): torch.zeros(16, 16).double() for i in range(vit.depth) for t in "kv"}
        self.down: list[Tensor] = []
        self.sums = [torch.zeros(16, 16).double() for _ in range(vit.depth)]
        self.tokens = 0

    def features(self, x: Tensor, hand: ByHand | None) -> Tensor:
        z = embedded(self.vit, x)
        self.tokens += z.shape[0] * z.shape[1]
        for i, block in enumerate(self.vit.timm.blocks):
            tokens = block.norm1(z).detach().flatten(0, 1)
            self.sums[i] = self.sums[i] + tokens.T @ tokens
            added = {t: self.frozen[i, t] for t in "kv"}
            if hand is not None:
                added = {t: product + hand[f"lora.up_{t}"][i] @ self.down[i] for t, product in added.items()}
            z = block_by_hand(block, z, added=added)
        out: Tensor = self.vit.timm.norm(z)[:, 0]
        return out

    def designs(self, occupied: list[Tensor]) -> list[Tensor]:
        """The strongest directions of the inputs' free part, by singular value decomposition."""
        out = []
        for sums, projector in zip(self.sums, occupied, strict=True):
            h = sums / self.tokens
            left, _, _ = torch.linalg.svd(h - projector @ h)
            out.append(left[:, :RANK].T / math.sqrt(3))
        return out

    def takes_over(self, learner: Any, expected: list[Tensor]) -> None:
        """The designs, which agree up to the sign of each row; the learner's signs from now on."""
        self.down = []
        for i, rows in enumerate(expected):
            for t in "kv":
                ours = learner.lora.get_buffer(f"down_{t}")[i]
                signs = (ours * rows).sum(1, keepdim=True).sign()
                torch.testing.assert_close(ours * signs, rows, rtol=1e-7, atol=1e-8)
            self.down.append(ours.clone())

    def ends(self, hand: ByHand) -> list[Tensor]:
        """The first task is over: its branch is frozen. The projectors on what its inputs occupy."""
        for i, t in self.frozen:
            self.frozen[i, t] = self.frozen[i, t] + (hand[f"lora.up_{t}"][i] @ self.down[i]).detach()
        occupied = []
        for sums in self.sums:
            left, values, _ = torch.linalg.svd(sums / self.tokens)
            share = (values**2 / (values**2).sum()).cumsum(0)
            n = max(1, int((share < ENERGY).sum()))
            occupied.append(left[:, :n] @ left[:, :n].T)
        self.sums, self.tokens = [torch.zeros(16, 16).double() for _ in self.sums], 0
        return occupied


def test_two_tasks_with_one_look_are_written_out() -> None:
    """Head alone on the first 8 pictures, whose inputs design the branch; then head and B; inputs of all remembered."""
    vit, viewer = tiny_vit(depth=2), pictures(32)
    learner = bound(
        "inflora", vit, viewer, told=TWO, lr=0.01, head_lr=0.02, reset_optimizer="all", design_after=8, **SMALL
    )
    assert learner.needs == {"boundaries", "task_classes", "task_count"}
    literal, occupied = Literal(vit), [torch.zeros(16, 16).double()] * 2
    hand = ByHand(learner, lr=0.01, head_lr=0.02)
    for task, allowed in enumerate([[0, 1], [2, 3, 4]]):
        tell(learner, Boundary(task, ["ab", "cde"][task]))
        if task:
            occupied = literal.ends(hand)
            for projector, memory in zip(occupied, learner.memories, strict=True):
                ours = memory.basis @ memory.basis.T
                ours = torch.eye(16).double() - ours if bool(memory.retains) else ours
                torch.testing.assert_close(ours, projector, rtol=1e-8, atol=1e-9)
                assert 1 <= int(projector.trace().round()) < 16 - RANK, "the case says nothing"
        hand.take(learner)
        for step in range(4):
            start = 16 * task + 4 * step
            batch = viewer.batch(range(start, start + 4), ["abab", "cdec"][task])
            features = literal.features(batch.view(), hand if step >= 2 else None)
            loss = among(hand.head(features), learner.rows(batch.labels).tolist(), allowed)
            notes = learner.learn(batch)
            assert notes["loss"] == pytest.approx(float(loss.detach()), rel=1e-11)
            hand.step(loss)
            hand.agrees_with(learner)
            if step == 1:
                literal.takes_over(learner, literal.designs(occupied))
                for down, projector in zip(literal.down, occupied, strict=True):
                    assert float((down @ projector).abs().max()) < 1e-9, "no input of earlier tasks reaches the branch"
                assert not hand["lora.up_k"].any()
    assert hand["lora.up_k"].any()
    assert learner.trained_before == 1


def test_one_head_under_the_task_mask_is_a_head_a_task() -> None:
    """Published: a linear layer a task with an optimiser of its own, of which only the running one learns."""
    viewer = pictures(16)
    learner = bound("inflora", tiny_vit(depth=2), viewer, told=TWO, reset_optimizer="all", design_after=4, **SMALL)
    tell(learner, Boundary(0, "ab"))
    for i in range(2):
        learner.learn(viewer.batch(range(4 * i, 4 * i + 4), "abab"))
    before = learner.classifier.weight.detach().clone()
    tell(learner, Boundary(1, "cd"))
    for i in range(2, 4):
        learner.learn(viewer.batch(range(4 * i, 4 * i + 4), "cdcd"))
    assert torch.equal(learner.classifier.weight.detach()[:2], before)
    assert learner.predict(viewer.batch([0], [""])).shape == (1, 4), "all heads answer"


def test_a_task_of_fewer_pictures_trains_the_head_alone() -> None:
    vit, viewer = tiny_vit(depth=2), pictures(8)
    learner = bound("inflora", vit, viewer, told=TWO, design_after=5, **SMALL)
    tell(learner, Boundary(0, "ab"))
    before = learner.classifier.weight.detach().clone()
    learner.learn(viewer.batch(range(4), "abab"))
    tell(learner, Boundary(1, "cd"))
    with torch.no_grad():
        torch.testing.assert_close(learner.features(viewer.x), vit.features(viewer.x), rtol=1e-12, atol=1e-12)
    assert not torch.equal(learner.classifier.weight.detach()[:2], before)
    assert all(int(memory.tasks) == 1 for memory in learner.memories), "its inputs are remembered all the same"


def test_official_trains_the_branch_from_the_first_picture() -> None:
    """Its design is from a look ahead at the whole task; training taps nothing."""
    vit, viewer, looks = tiny_vit(depth=2), pictures(8), []

    def look(task: int) -> Iterator[Batch]:
        looks.append(task)
        yield viewer.batch(range(8), "abababab")

    told = Told(task_count=1, second_look=look)
    learner = bound(
        "inflora", vit, viewer, told=told, passes="official", reset_optimizer="all", lr=0.01, head_lr=0.01, **SMALL
    )
    literal = Literal(vit)
    literal.features(viewer.batch(range(8), "abababab").view(), None)
    tell(learner, Boundary(0, "ab"))
    literal.takes_over(learner, literal.designs([torch.zeros(16, 16).double()] * 2))
    hand = ByHand(learner, lr=0.01)
    seen = learner.moments.sums.clone()
    for i in range(2):
        batch = viewer.batch(range(4 * i, 4 * i + 4), "abab")
        hand.step(among(hand.head(literal.features(batch.view(), hand)), [0, 1, 0, 1], [0, 1]))
        learner.learn(batch)
        hand.agrees_with(learner)
    assert torch.equal(learner.moments.sums, seen)
    assert looks == [0]


def test_it_needs_a_second_look_only_in_the_official_form() -> None:
    strict = {"boundaries", "task_count", "task_classes"}
    assert needs("inflora") == strict
    assert needs("inflora", passes="official") == strict | {"second_look"}
    assert needs("inflora", mask="batch") == {"boundaries", "task_count"}
    assert needs("inflora", mask="batch", reset_optimizer="none") == {"boundaries", "task_count"}
    assert needs("inflora", mask="none") == {"boundaries", "task_count", "class_count"}


def test_the_row_of_the_paper_and_the_defaults() -> None:
    method: Any = make_method("inflora", {})
    paper = method.paper_options
    assert (paper["passes"], paper["mask"], paper["lr"], paper["clip"]) == ("official", "task", 5e-4, 0.0)
    assert (method.passes, method.mask, method.energy, method.last_energy) == ("strict", "task", 0.95, 1.0)
    learner = bound("inflora", tiny_vit(), pictures(1), told=TWO)
    assert set(learner.lora.pairs()) == {"up_k", "up_v"}
    assert 10 * 12 * 2 * 768 * method.rank == 1_474_560, "the paper's 1.70 %"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"rank": 17}, "rank of 17 does not fit a width of 16"),
        ({"rank": 0}, "rank of 0"),
        ({"energy": 0.0}, "energy is 0.0 to 1.0"),
        ({"energy": 0.9, "last_energy": 0.8}, "energy is 0.9 to 0.8"),
        ({"last_energy": 1.1}, "energy is 0.95 to 1.1"),
        ({"design_after": 0}, "design_after is 0"),
    ],
)
def test_impossible_settings_are_one_sentence(options: dict[str, Any], sentence: str) -> None:
    refuses("inflora", sentence, told=TWO, **options)
