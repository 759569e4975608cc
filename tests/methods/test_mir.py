"""MIR against the official choice and written out: which pictures a step would hurt most, and the step with them."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any, cast

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from rwf.data.batch import Batch
from rwf.errors import UserError
from rwf.methods.er import ER
from rwf.methods.mir import MIR
from rwf.parts.head import Head
from rwf.parts.told import Told
from rwf.vit.forward import ViT
from tests.golden import close, golden
from tests.methods.test_er import (
    PLAIN,
    PUBLISHED,
    Given,
    Slots,
    begin_with,
    handed_out,
    head_of,
    needs_of_paper,
    same_bits,
    small,
    stream,
    weights_of,
)
from tests.pictures import batch_of


def test_golden_choice_and_the_step_that_follows() -> None:
    """One step of ours on the recorded memory and candidates: the same pictures, and both gradients summed."""
    a, o = golden("mir_select")
    table = torch.cat([a["buffer_x"], a["x"]])
    kept, lr = len(a["buffer_x"]), o["virtual_lr"]

    def pictures(ids: range, labels: Tensor) -> Batch:
        return replace(batch_of(ids, labels.tolist()), viewer=lambda images, ids, visits, kind: table[list(ids)])

    options = PUBLISHED | {"lr": lr, "memory_size": kept, "replay": o["M"], "candidates": o["subsample"]}
    learner = MIR(**options, look_ahead="plain")
    first = pictures(range(kept), a["buffer_y"])
    learner.bind(cast(ViT, Given(6)), viewer=first.viewer, told=Told(class_count=6))
    learner.rows(range(6))  # so that rows are the labels
    begin_with(learner, a["weight"], a["bias"])
    learner.memory = Slots(kept, first.viewer, [kept] * len(a["y"]), draw=[a["candidates"].tolist()])
    learner.memory.add(first)
    replays = handed_out(learner.memory)
    learner.learn(pictures(range(kept, len(table)), a["y"]))
    chosen = a["candidates"][a["selected_positions"]]
    assert list(replays[0].ids) == chosen.tolist()
    assert torch.equal(replays[0].view(), a["selected_x"])

    weight, bias = (a[name].clone().requires_grad_() for name in ("weight", "bias"))
    memory = functional.cross_entropy(functional.linear(a["selected_x"], weight, bias), a["selected_y"])
    gradients = torch.autograd.grad(memory, [weight, bias])
    head = head_of(learner)
    assert head.bias is not None
    for ours, start, stream_gradient, gradient in (
        (head.weight, a["weight"], a["grad_weight"], gradients[0]),
        (head.bias, a["bias"], a["grad_bias"], gradients[1]),
    ):
        close(ours.data, start - lr * (stream_gradient + gradient), 1e-9)


def losses(vit: ViT, head: Head, x: Tensor, rows: Tensor, allowed: Tensor) -> Tensor:
    """The cross-entropy of each picture among the allowed classes."""
    logits = head(vit.features(x))
    return logits[:, allowed].logsumexp(1) - logits.gather(1, rows[:, None]).squeeze(1)


def steps_ahead(learner: MIR, name: str, gradient: Tensor, factor: float) -> Tensor:
    """How far a weight moves in the step that is looked at."""
    rate = learner.rate_of(name)
    if learner.look_ahead == "plain":
        return rate * gradient
    gradient = gradient * factor
    if learner.optimizer == "sgd":
        return rate * gradient
    assert learner.adam.torch is not None
    kept = learner.adam.torch.state.get(learner.adam.parameters[name], {})
    steps = float(kept["step"]) + 1 if kept else 1.0
    squares = 0.999 * kept["exp_avg_sq"] + 0.001 * gradient**2 if kept else 0.001 * gradient**2
    return rate * gradient / ((squares / (1 - 0.999**steps)).sqrt() + 1e-8)


@pytest.mark.parametrize(
    "options",
    [
        {"look_ahead": "plain"},
        {"look_ahead": "plain", "mask": "batch"},
        {"look_ahead": "plain", "optimizer": "adam", "clip": 0.5},
        {"look_ahead": "optimizer", "clip": 0.5},
        {"look_ahead": "optimizer", "optimizer": "adam", "lr": 1e-3, "head_lr": 1e-2},
        {"look_ahead": "optimizer", "optimizer": "adam", "lr": 1e-3, "head_lr": 1e-2, "clip": 0.5},
    ],
)
def test_those_are_replayed_whose_loss_the_step_raises_most(options: dict[str, Any]) -> None:
    """By a copied network at the moved weights; the gradients of the step are those of both batches."""
    learner = small(MIR(**PLAIN | options, memory_size=14, replay=3, candidates=9))
    replays, stolen, step_of = handed_out(learner.memory), list[dict[str, Tensor]](), learner.adam.step

    def steal(clip: float = 0.0) -> None:
        stolen.append({n: p.grad.clone() for n, p in learner.adam.parameters.items() if p.grad is not None})
        step_of(clip)

    learner.adam.step = steal  # type: ignore[method-assign]
    for step, (_, batch) in enumerate(stream()):
        rows, met = learner.rows(batch.labels), torch.arange(len(learner.classes))
        vit, head = copy.deepcopy(learner.vit), copy.deepcopy(head_of(learner))
        weights = {f"vit.{n}": p for n, p in vit.named_parameters()}
        weights |= {f"classifier.{n}": p for n, p in head.named_parameters()}
        among = Tensor.unique if learner.mask == "batch" else lambda labels, met=met: met
        loss = losses(vit, head, batch.view(), rows, among(rows)).mean()
        gradients = dict(zip(weights, torch.autograd.grad(loss, list(weights.values())), strict=True))
        if step:
            slots = learner.memory.sample(9, step)
            candidates = learner.memory.look(slots)
            x, labels = candidates.view(), learner.rows(candidates.labels)
            norm = torch.cat([g.flatten() for g in gradients.values()]).norm()
            factor = min(1.0, learner.clip / (float(norm) + 1e-6)) if learner.clip else 1.0
            moved = {n: w - steps_ahead(learner, n, gradients[n], factor) for n, w in weights.items()}
            there, top = copy.deepcopy(vit), copy.deepcopy(head)
            there.load_state_dict(vit.state_dict() | {n[4:]: w for n, w in moved.items() if n.startswith("vit.")})
            top.load_state_dict(
                head.state_dict() | {n[11:]: w for n, w in moved.items() if n.startswith("classifier.")}
            )
            with torch.no_grad():
                scores = losses(there, top, x, labels, among(labels)) - losses(vit, head, x, labels, among(labels))
            chosen = scores.argsort(descending=True)[:3] if len(slots) > 3 else torch.arange(len(slots))
            memory = losses(vit, head, x[chosen], labels[chosen], among(labels[chosen])).mean()
            for name, g in zip(weights, torch.autograd.grad(memory, list(weights.values())), strict=True):
                gradients[name] = gradients[name] + g
            loss = loss + memory
        notes = learner.learn(batch)
        assert notes["loss"] == pytest.approx(loss.item(), abs=1e-11)
        assert stolen[-1].keys() == gradients.keys()
        for name, g in gradients.items():
            torch.testing.assert_close(stolen[-1][name], g, rtol=0, atol=1e-10, msg=name)
        if step:
            assert list(replays[-1].ids) == [candidates.ids[int(i)] for i in chosen]


@pytest.mark.parametrize("size", [3, 20])
def test_only_what_is_chosen_counts_as_replayed(size: int) -> None:
    learner = small(MIR(**PLAIN, memory_size=size, replay=2, candidates=10))
    for step, (_, batch) in enumerate(stream()):
        before = {item.id: item.visits for item in learner.memory.items}
        learner.learn(batch)
        used = sum(item.visits - before[item.id] for item in learner.memory.items if item.id in before)
        assert used <= 2
        assert learner.replays == 2 * step


def test_with_no_more_candidates_than_replays_it_is_er() -> None:
    """Then nothing is chosen; the same pictures in the same views, two forwards instead of one."""
    ends = []
    for learner in (
        small(MIR(**PLAIN, memory_size=4, replay=8, candidates=8)),
        small(ER(**PLAIN, memory_size=4, replay=8)),
    ):
        for _, batch in stream():
            learner.learn(batch)
        ends.append(weights_of(learner))
    assert ends[0].keys() == ends[1].keys()
    for name, weight in ends[0].items():
        torch.testing.assert_close(weight, ends[1][name], rtol=0, atol=1e-12)


def test_under_adam_the_two_looks_ahead_choose_differently() -> None:
    ends = []
    for look_ahead in ("optimizer", "plain"):
        options = PLAIN | {"optimizer": "adam", "lr": 1e-3, "head_lr": 1e-2, "look_ahead": look_ahead}
        learner = small(MIR(**options, memory_size=20, replay=2, candidates=20))
        for _, batch in stream():
            learner.learn(batch)
        ends.append(weights_of(learner))
    assert not same_bits(*ends)


def test_needs() -> None:
    assert MIR().needs == {"memory"}
    assert MIR(mask="none").needs == {"memory", "class_count"}
    assert needs_of_paper("mir") == {"memory", "class_count"}


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"memory_size": 0}, "memory of 0 pictures"),
        ({"replay": 0}, "replay is 0"),
        ({"replay": 64, "candidates": 63}, "candidates is 63 and replay 64"),
        ({"look_ahead": "momentum"}, "look_ahead is 'momentum'"),
    ],
)
def test_impossible_settings_are_one_sentence(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        small(MIR(**options))
