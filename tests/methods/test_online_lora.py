"""Online-LoRA: the official run of 40 steps through the method, and the right form with all its parts written out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from rwf.parts.told import Told
from rwf.run.build import make_method
from rwf.vit.forward import ViT
from tests.golden import below, close, golden
from tests.methods.by_hand import ByHand, Pictures, block_by_hand, bound, embedded, needs, noise, pictures, refuses
from tests.pictures import tiny_vit


class Still(Pictures):
    """All views are one, as in the official code, whose buffer holds what the network got."""

    def __call__(self, images: Sequence[Tensor], ids: Sequence[int], visits: Sequence[int], kind: str) -> Tensor:
        return self.x[list(ids)]


def test_golden_official_run() -> None:
    """Losses, decisions, what the buffer holds, and all weights at the end, after several folds."""
    a, o = golden("onlinelora_toy_run_official")
    start = {k.replace("qkv.qkv", "qkv"): v for k, v in below("init.lora_vit.", a).items()}
    size, near = o["B"], 1e-9
    viewer = Still(a["X"].flatten(0, 1))
    learner = bound(
        "online_lora",
        tiny_vit(start, depth=2),
        viewer,
        told=Told(class_count=o["classes"]),
        official=True,
        rank=o["rank"],
        strength=o["MAS_weight"],
        loss_window=o["window"],
        mean_threshold=o["mean_threshold"],
        variance_threshold=o["var_threshold"],
        hard_size=o["hard_buffer_size"],
        lr=o["lr"],
        head_lr=None,
        mask="none",
        head="linear",
        clip=0.0,
    )
    learner.rows(range(o["classes"]))
    learner.classifier.weight.data, learner.classifier.bias.data = start["head.weight"], start["head.bias"]
    pairs = [(i, t) for i in range(2) for t in ("q", "v")]
    for i, t in pairs:
        for kind, letter in (("down", "a"), ("up", "b")):
            values = start[f"blocks.{i}.attn.qkv.linear_new_{letter}_{t}.weight"]
            learner.lora.get_parameter(f"{kind}_{t}").data[i] = values
    for step in range(o["steps"]):
        kept = [item.id // size for item in learner.hard.items][::size]
        assert kept == [j for j in a["hard_ids"][step].tolist() if j >= 0]
        assert learner.importance.consolidations == int(a["updates_before_step"][step])
        notes = learner.learn(viewer.batch(range(step * size, (step + 1) * size), a["Y"][step].tolist()))
        assert notes["loss"] == pytest.approx(float(a["total_loss"][step]), rel=near)
        assert learner.detector.losses[-1] == pytest.approx(float(a["window_value"][step]), rel=near)
    assert notes["folds"] == int(a["n_updates"]) > 1
    end = below("final.lora_vit.", a)
    close(learner.classifier.weight.data, end["head.weight"], 1e-6)
    close(learner.classifier.bias.data, end["head.bias"], 1e-6)
    for i, t in pairs:
        theirs = {k: end[f"blocks.{i}.attn.qkv.linear_{k}_{t}.weight"] for k in ("a", "b", "new_a", "new_b")}
        close(learner.lora.get_parameter(f"down_{t}").data[i], theirs["new_a"], 1e-6)
        close(learner.lora.get_parameter(f"up_{t}").data[i], theirs["new_b"], 1e-6)
        close(learner.lora.get_buffer(f"frozen_down_{t}")[i], theirs["a"], 1e-6)
        close(learner.lora.get_buffer(f"frozen_up_{t}")[i], theirs["b"], 1e-6)


PAIRS = [f"lora.{kind}_{t}" for kind in ("down", "up") for t in ("q", "v")]


@dataclass
class Hard:
    id: int
    row: int
    visits: int = 1


class Literal:
    """The method on one ViT with lists, loops and torch's Adam."""

    def __init__(self, vit: ViT, viewer: Pictures, learner: Any, *, size: int, strength: float) -> None:
        self.vit, self.x, self.size, self.strength = vit, viewer.x, size, strength
        self.hand = ByHand(learner, lr=learner.lr, head_lr=learner.head_lr)
        self.frozen = {(i, t): torch.zeros(16, 16).double() for i in range(vit.depth) for t in "qv"}
        self.hard: list[Hard] = []
        self.importance = {name: torch.zeros_like(self.hand[name]) for name in PAIRS}
        self.window: list[float] = []
        self.consolidations, self.peak, self.last = 0, True, (0.0, 0.0)

    def logits(self, x: Tensor) -> Tensor:
        z = embedded(self.vit, x[None])
        for i, block in enumerate(self.vit.timm.blocks):
            products = {t: self.hand[f"lora.up_{t}"][i] @ self.hand[f"lora.down_{t}"][i] for t in "qv"}
            z = block_by_hand(block, z, added={t: self.frozen[i, t] + products[t] for t in "qv"})
        return self.hand.head(self.vit.timm.norm(z)[:, 0])

    def step(self, ids: Sequence[int], rows: Sequence[int], learner: Any, batch: Any) -> tuple[float, bool]:
        new = [(i, row, self.x[i] + 0.1) for i, row in zip(ids, rows, strict=True)]
        old = [(h.id, h.row, self.x[h.id] + 0.1 * (h.visits + 1)) for h in self.hard]
        for h in self.hard:
            h.visits += 1
        losses = [functional.cross_entropy(self.logits(x), torch.tensor([row])) for _, row, x in new + old]
        parts = [part for part in (losses[: len(new)], losses[len(new) :]) if part]
        plain = torch.stack([torch.stack(part).mean() for part in parts]).sum()
        penalty = sum(((self.importance[n] * self.hand[n] ** 2).sum() for n in PAIRS), torch.zeros(()).double())
        total = plain + self.strength / 2 * penalty
        self.hand.step(total)
        notes = learner.learn(batch)  # which has the new pair's random values, if one begins
        assert notes["loss"] == pytest.approx(float(total.detach()), rel=1e-11)
        fires = self.fires(float(plain.detach()))
        if fires:
            self.consolidate([x for _, _, x in old], learner)
        entries = [Hard(i, row) for i, row, _ in new] + self.hard
        best = np.argsort([-float(loss.detach()) for loss in losses], kind="stable")[: self.size]
        self.hard = [entries[j] for j in best]
        return float(penalty.detach()), fires

    def fires(self, value: float) -> bool:
        self.window = [*self.window, value][-5:]
        mean, variance = float(np.mean(self.window)), float(np.var(self.window))
        self.peak = self.peak or mean > self.last[0] + self.last[1] ** 0.5
        if not self.peak:
            return False
        self.peak, self.last = False, (mean, variance)
        return True

    def consolidate(self, hard: list[Tensor], learner: Any) -> None:
        if hard:
            self.consolidations += 1
            squares = {name: torch.zeros_like(self.hand[name]) for name in PAIRS}
            for x in hard:
                logits = self.logits(x)
                answer = functional.cross_entropy(logits, logits.detach().argmax(1))
                for name, grad in zip(PAIRS, torch.autograd.grad(answer, [self.hand[n] for n in PAIRS]), strict=True):
                    squares[name] += grad**2
            n = self.consolidations
            self.importance = {name: self.importance[name] * (1 - 1 / n) + squares[name] / n for name in PAIRS}
        for i, t in self.frozen:
            product = self.hand[f"lora.up_{t}"][i] @ self.hand[f"lora.down_{t}"][i]
            self.frozen[i, t] = self.frozen[i, t] + product.detach()
        for name in PAIRS:
            self.hand.optimizer.state.pop(self.hand[name])
            fresh = learner.lora.get_parameter(name.removeprefix("lora.")).detach()
            assert bool(fresh.any()) == ("down" in name), "a pair begins with up zero and down drawn"
            self.hand[name].data = fresh.clone()


def test_the_right_form_is_written_out_over_several_folds() -> None:
    """The stream's mean and one cross-entropy for each hard picture, at new views; importance summed over pictures."""
    vit, viewer = tiny_vit(depth=2), pictures(28)
    learner = bound(
        "online_lora",
        vit,
        viewer,
        told=Told(class_count=6),
        rank=2,
        strength=50.0,
        mean_threshold=1e6,
        variance_threshold=1e6,
        hard_size=3,
        lr=0.02,
        head_lr=0.01,
        mask="none",
        head="linear",
        clip=0.0,
    )
    rows = learner.rows(range(5)).tolist()
    literal = Literal(vit, viewer, learner, size=3, strength=50.0)
    fired, penalties = [], []
    for step in range(7):
        ids = range(4 * step, 4 * step + 4)
        labels = [rows[(step + i) % 5] for i in range(4)]
        penalty, fires = literal.step(ids, labels, learner, viewer.batch(ids, labels))
        penalties.append(penalty)
        fired.append(fires)
        literal.hand.agrees_with(learner)
        for name in PAIRS:
            kept = learner.importance.importance.get(name.removeprefix("lora."))
            if kept is not None:
                torch.testing.assert_close(kept, literal.importance[name], rtol=1e-9, atol=1e-12)
        assert [item.id for item in learner.hard.items] == [h.id for h in literal.hard]
    assert fired[0], "a first loss below the threshold consolidates at once, with an empty buffer"
    assert literal.consolidations >= 2
    assert sum(fired) == literal.consolidations + 1 == learner.trained_before
    assert sum(p > 0 for p in penalties) >= 3


def eager(official: bool, viewer: Pictures, **options: Any) -> Any:
    """Folds at the first step."""
    settings: dict[str, Any] = {"rank": 2, "mean_threshold": 1e6, "variance_threshold": 1e6, "hard_size": 2}
    return bound("online_lora", tiny_vit(depth=2), viewer, official=official, lr=0.02, **settings | options)


def test_a_fold_does_not_change_the_function_and_the_next_pair_learns() -> None:
    viewer = pictures(8)
    learner = eager(False, viewer, clip=0.0)
    learner.learn(viewer.batch(range(4), "abab"))
    assert learner.trained_before == 1
    frozen = {name: b.clone() for name, b in learner.lora.named_buffers()}
    assert frozen["frozen_up_q"].any(), "the first step was taken before the fold"
    assert not [name for name in learner.adam.state()[0] if name.startswith("lora.")], "momentum went with the pair"
    assert [name for name in learner.adam.state()[0] if name.startswith("classifier.")]
    batch = viewer.batch(range(4, 8), "abab")
    learner.backward(batch, learner.rows(batch.labels))
    assert learner.lora.up_q.grad.any()


def test_the_published_form_leaves_a_pair_of_zeros_that_only_momentum_revives() -> None:
    viewer = pictures(8)
    learner = eager(True, viewer, clip=0.0)
    learner.learn(viewer.batch(range(4), "abab"))
    assert not any(p.any() for p in learner.lora.parameters())
    batch = viewer.batch(range(4, 8), "abab")
    learner.backward(batch, learner.rows(batch.labels))
    assert not any(p.grad.any() for p in learner.lora.parameters())
    learner.step()
    assert learner.lora.up_q.detach().any()


def test_entries_are_pictures_or_as_published_batches() -> None:
    for official, kept in ((False, 2), (True, 8)):
        viewer = pictures(12)
        learner = eager(official, viewer)
        for i in range(3):
            learner.learn(viewer.batch(range(4 * i, 4 * i + 4), "abab"))
        assert len(learner.hard.items) == kept
        assert learner.replays == (2 + 2 if not official else 4 + 8)


def test_it_needs_a_memory_and_no_boundary() -> None:
    assert needs("online_lora") == {"memory"}
    assert needs("online_lora", official=True) == {"memory"}
    assert needs("online_lora", mask="none") == {"memory", "class_count"}
    assert needs("online_lora", mask="task") == {"memory", "boundaries", "task_classes"}


def test_the_row_of_the_paper_and_the_defaults() -> None:
    method: Any = make_method("online_lora", {})
    paper = method.paper_options
    assert (paper["official"], paper["mask"], paper["lr"], paper["clip"]) == (True, "none", 2e-4, 0.0)
    assert (method.rank, method.strength, method.loss_window, method.hard_size) == (4, 2000.0, 5, 4)
    assert (method.mean_threshold, method.variance_threshold, method.official) == (6.0, 0.1, False)
    learner = bound("online_lora", tiny_vit(), Pictures(noise(1, 3, 8, 8)))
    assert set(learner.lora.pairs()) == {"up_q", "up_v", "down_q", "down_v"}


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"rank": 17}, "rank of 17 does not fit a width of 16"),
        ({"rank": 0}, "rank of 0"),
        ({"hard_size": 0}, "memory of 0"),
        ({"loss_window": 0}, "window of 0"),
        ({"strength": -1.0}, "strength is -1.0"),
        ({"strength": float("nan")}, "strength is nan"),
    ],
)
def test_impossible_settings_are_one_sentence(options: dict[str, Any], sentence: str) -> None:
    refuses("online_lora", sentence, **options)
