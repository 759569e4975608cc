"""Finetune: the whole of timm's network and a head under plain Adam, over all classes, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.func import functional_call
from torch.nn import functional

from rwf.data.batch import Boundary
from rwf.parts.told import Told
from rwf.run.build import make_method
from rwf.run.step import tell
from tests.methods.by_hand import ByHand, bound, needs, pictures, refuses
from tests.pictures import tiny_vit

ROW: dict[str, Any] = {"mask": "none", "head": "linear", "head_lr": None, "clip": 0.0}
STREAM = ["abab", "baba", "cdcd", "dccd"]


@pytest.mark.parametrize("weight_decay", [0.0, 1e-4])
def test_the_row_of_the_paper_is_written_out(weight_decay: float) -> None:
    """Cross-entropy over all outputs, never-seen classes too; L2 decay is added to the gradient, as Adam has it."""
    viewer, network = pictures(16), tiny_vit(depth=2).timm
    learner = bound(
        "finetune", tiny_vit(depth=2), viewer, told=Told(class_count=6), lr=3e-3, weight_decay=weight_decay, **ROW
    )
    hand = ByHand(learner, lr=3e-3, weight_decay=weight_decay)
    start = {name: leaf.detach().clone() for name, leaf in hand.leaves.items()}
    for step, labels in enumerate(STREAM):
        batch = viewer.batch(range(4 * step, 4 * step + 4), labels)
        weights = {n.removeprefix("vit.timm."): leaf for n, leaf in hand.leaves.items() if n.startswith("vit.")}
        logits = hand.head(functional_call(network, weights, batch.view()))
        assert logits.shape == (4, 6)
        loss = functional.cross_entropy(logits, torch.tensor(["abcd".index(label) for label in labels]))
        tell(learner, Boundary(step // 2, [])) if step % 2 == 0 else None
        notes = learner.learn(batch)
        assert notes["loss"] == pytest.approx(float(loss.detach()), rel=1e-12)
        hand.step(loss)
        hand.agrees_with(learner)
    unmoved = [name for name, p in learner.trained().items() if torch.equal(p, start[name])]
    assert not unmoved


def test_every_weight_is_trained() -> None:
    learner = bound("finetune", tiny_vit(), pictures(1), told=Told(class_count=6), **ROW)
    network = sum(p.numel() for p in tiny_vit().timm.parameters())
    assert sum(p.numel() for p in learner.trained().values()) == network + 6 * 17
    assert all(p.requires_grad for p in learner.vit.parameters())


def test_the_head_has_a_rate_apart() -> None:
    viewer = pictures(4)
    learner = bound("finetune", tiny_vit(depth=1), viewer, lr=0.0, head_lr=0.1, head="linear", mask="batch")
    before = {name: p.detach().clone() for name, p in learner.vit.named_parameters()}
    learner.rows("ab")
    head = learner.classifier.weight.detach().clone()
    learner.learn(viewer.batch(range(4), "abab"))
    assert all(torch.equal(before[name], p) for name, p in learner.vit.named_parameters())
    assert not torch.equal(learner.classifier.weight.detach(), head)


def test_it_needs_what_its_mask_needs() -> None:
    assert needs("finetune") == frozenset()
    assert needs("finetune", mask="none") == {"class_count"}
    assert needs("finetune", mask="task") == {"boundaries", "task_classes"}


def test_the_row_of_the_paper() -> None:
    method: Any = make_method("finetune", {})
    paper = method.paper_options
    assert {name: paper[name] for name in ROW} == ROW
    assert (paper["lr"], paper["weight_decay"]) == (1e-4, 1e-4)
    assert (method.lr, method.optimizer) == (1e-4, "adam")


def test_impossible_rates_are_one_sentence() -> None:
    refuses("finetune", "lr is -0.0001", lr=-1e-4)
