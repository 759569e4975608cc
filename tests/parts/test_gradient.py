"""The base of gradient methods: its step is the step written out, under every mask; moments are reset when asked."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from rwf.data.batch import Batch, Boundary
from rwf.parts.gradient import GradientLearner, is_head
from rwf.run.step import drive, tell
from tests.toys import toy


def gradient(learner) -> GradientLearner:
    assert isinstance(learner, GradientLearner)
    return learner


def first_items(stream, count):
    """Boundaries and batches up to the ``count``-th batch."""
    out = []
    for item in stream.items():
        out.append(item)
        if sum(isinstance(i, Batch) for i in out) == count:
            return out
    raise AssertionError("the stream is too short")


@pytest.mark.parametrize("mask", ["none", "seen", "task", "batch", "window"])
def test_a_step_is_adam_on_the_masked_cross_entropy(mask):
    learner, stream = toy(head_lr=1e-2, head="linear", mask=mask, window=20, clip=0.0)
    learner = gradient(learner)
    weight = torch.zeros(0, 0)
    first, second, step = [], [], 0
    shown: list[int] = []
    for item in first_items(stream, 3):
        if isinstance(item, Boundary):
            tell(learner, item)
            continue
        features = learner.vit.features(learner.cast(item.view()))
        rows = learner.rows(item.labels)
        shown = (shown + rows.tolist())[-20:]
        assert learner.classifier is not None
        if not len(weight):
            weight = learner.classifier.weight.detach().clone()
            bias = torch.zeros(len(weight), dtype=torch.float64)
            first, second = [torch.zeros_like(weight), bias * 0], [torch.zeros_like(weight), bias * 0]
        # every class of the task is in the first batch or was told, so the head does not grow after it
        assert len(weight) == learner.classifier.rows
        allowed = {
            "none": list(range(10)),
            "seen": list(range(len(learner.classes))),
            "task": list(range(5)),
            "batch": rows.unique().tolist(),
            "window": sorted(set(shown)),
        }[mask]
        w, b = weight.clone().requires_grad_(), bias.clone().requires_grad_()
        logits = features @ w.T + b
        keep = torch.full((len(w),), -torch.inf, dtype=torch.float64)
        keep[allowed] = 0.0
        loss = functional.cross_entropy(logits + keep, rows)
        grads = torch.autograd.grad(loss, [w, b])
        step += 1
        moved = []
        for i, (value, grad) in enumerate(zip((weight, bias), grads, strict=True)):
            first[i] = 0.9 * first[i] + 0.1 * grad
            second[i] = 0.999 * second[i] + 0.001 * grad**2
            hat1, hat2 = first[i] / (1 - 0.9**step), second[i] / (1 - 0.999**step)
            moved.append(value - 1e-2 * hat1 / (hat2.sqrt() + 1e-8))
        weight, bias = moved
        notes = learner.learn(item)
        assert notes["loss"] == pytest.approx(loss.item(), abs=1e-12)
        torch.testing.assert_close(learner.classifier.weight.data, weight, rtol=0, atol=1e-11)
        assert learner.classifier.bias is not None
        torch.testing.assert_close(learner.classifier.bias.data, bias, rtol=0, atol=1e-11)


def test_resetting_the_optimiser_at_a_task_forgets_its_moments():
    learner, stream = toy(mask="batch", reset_optimizer="all")
    learner = gradient(learner)
    assert learner.needs == {"boundaries"}
    for _ in drive(learner, stream, 0, end=10):
        pass
    assert learner.adam.state()[0]
    tell(learner, Boundary(1, ["x"]))
    assert not learner.adam.state()[0]


def test_the_head_may_keep_its_moments():
    learner, stream = toy("rwf", mask="batch", reset_optimizer="features")
    learner = gradient(learner)
    assert learner.needs == {"boundaries"}
    for _ in drive(learner, stream, 0, end=3):
        pass
    before = learner.adam.state()[0]
    assert any(not is_head(name) for name in before)
    tell(learner, Boundary(1, ["x"]))
    after = learner.adam.state()[0]
    assert after.keys() == {name for name in before if is_head(name)}
    assert all(torch.equal(before[name], after[name]) for name in after)


def test_the_head_has_a_rate_of_its_own():
    learner, stream = toy("rwf", lr=0.0, head_lr=1e-2)
    learner = gradient(learner)
    before = {n: p.detach().clone() for n, p in learner.trained().items()}
    for _ in drive(learner, stream, 0, end=2):
        pass
    after = learner.trained()
    assert all(torch.equal(before[n], after[n]) for n in before if n.startswith("plug."))
    assert learner.classifier is not None
    assert bool(learner.classifier.weight.detach().std() > 0)
    assert learner.rate_of("classifier.weight") == 1e-2
    assert learner.rate_of("plug.routers.0.queries") == 0.0


def test_clipping_bounds_the_joint_norm():
    learner, stream = toy(optimizer="sgd", head_lr=1.0, clip=1e-3, head="linear")
    learner = gradient(learner)
    batch = next(item for item in stream.items() if isinstance(item, Batch))
    learner.rows(batch.labels)
    before = [p.detach().clone() for p in learner.trained().values()]
    learner.learn(batch)
    moved = sum(float((a - b).detach().square().sum()) for a, b in zip(before, learner.trained().values(), strict=True))
    assert moved**0.5 == pytest.approx(1e-3, rel=1e-3)


def test_bf16_keeps_trained_numbers_and_moments_in_fp32():
    from rwf.run.check import Subject

    learner, stream = Subject("rwf").make(precision="bf16")
    for _ in drive(learner, stream, 0, end=2):
        pass
    assert {p.dtype for p in learner.trained().values()} == {torch.float32}
    assert {t.dtype for t in gradient(learner).adam.state()[0].values()} == {torch.float32}
