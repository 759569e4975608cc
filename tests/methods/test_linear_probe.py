"""Linear probe: its default (cosine head, imprinted rows, window mask) written out on timm's features; nothing else."""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest
import torch
from torch.nn import functional

from rwf.errors import UserError
from rwf.run.build import make_method
from tests.methods.by_hand import ByHand, among, bound, needs, noise, pictures, refuses
from tests.pictures import tiny_vit

STREAM = ["aabb", "bbcc", "ccdd", "ddad"]


def test_the_default_is_written_out() -> None:
    """Scaled cosines, a new label's row begins as the mean direction of its first features, a window of pictures."""
    vit, viewer = tiny_vit(), pictures(20)
    learner = bound("linear_probe", vit, viewer, window=6, head_lr=0.03, clip=0.5)
    weight = noise(4, 16, seed=9).requires_grad_()  # rows of labels not met yet hold anything
    adam = torch.optim.Adam([weight], lr=0.03)
    window: deque[int] = deque(maxlen=6)
    met: set[int] = set()
    clipped = []
    for step, labels in enumerate(STREAM):
        batch = viewer.batch(range(4 * step, 4 * step + 4), labels)
        rows = ["abcd".index(label) for label in labels]
        with torch.no_grad():
            directions = functional.normalize(vit.timm(batch.view()))
            for row in sorted(set(rows) - met):
                own = [direction for direction, r in zip(directions, rows, strict=True) if r == row]
                weight[row] = functional.normalize(torch.stack(own).mean(0), dim=0)
        met |= set(rows)
        window.extend(rows)
        logits = 8.0 * directions @ functional.normalize(weight).T
        loss = among(logits, rows, sorted(set(window)))
        adam.zero_grad()
        loss.backward()
        assert weight.grad is not None
        norm = float(weight.grad.norm())
        clipped.append(norm > 0.5)
        weight.grad.mul_(min(1.0, 0.5 / (norm + 1e-6)))
        adam.step()
        notes = learner.learn(batch)
        assert notes["loss"] == pytest.approx(float(loss.detach()), rel=1e-12)
        found = learner.classifier.weight.detach()
        torch.testing.assert_close(found, weight.detach()[: len(found)], rtol=1e-10, atol=1e-10)
    assert sorted(set(window)) != [0, 1, 2, 3], "the window has left something out"
    assert any(clipped)
    assert not all(clipped)
    expected = 8.0 * functional.normalize(vit.timm(viewer.x)) @ functional.normalize(weight.detach()).T
    found = learner.predict(viewer.batch(range(20), [""] * 20))
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)


def test_only_the_head_is_trained_and_the_rate_of_the_rest_is_no_rate() -> None:
    vit, viewer = tiny_vit(), pictures(8)
    before = {name: p.clone() for name, p in vit.named_parameters()}
    ends = []
    for lr in (0.0, 1.0):
        learner = bound("linear_probe", tiny_vit(), viewer, lr=lr, weight_decay=0.1)
        for start in (0, 4):
            learner.learn(viewer.batch(range(start, start + 4), "abab"))
        assert set(learner.trained()) == {"classifier.weight"}
        assert all(torch.equal(before[name], p) for name, p in learner.vit.named_parameters())
        ends.append(learner.classifier.weight.detach())
    assert torch.equal(*ends)


def test_without_a_rate_of_its_own_the_head_has_the_common_one() -> None:
    viewer = pictures(4)
    learner = bound("linear_probe", tiny_vit(), viewer, lr=0.07, head_lr=None, head="linear", mask="batch", clip=0.0)
    learner.rows("ab")
    hand = ByHand(learner, lr=0.07)
    batch = viewer.batch(range(4), "abab")
    hand.step(among(hand.head(learner.vit.timm(batch.view())), [0, 1, 0, 1], [0, 1]))
    learner.learn(batch)
    hand.agrees_with(learner)


def test_it_needs_what_its_mask_needs() -> None:
    for mask in ("window", "batch", "seen"):
        assert needs("linear_probe", mask=mask) == frozenset()
    assert needs("linear_probe") == frozenset()
    assert needs("linear_probe", mask="task") == {"boundaries", "task_classes"}
    assert needs("linear_probe", mask="none") == {"class_count"}
    assert needs("linear_probe", reset_optimizer="all") == {"boundaries"}


def test_the_default_is_the_one_that_docs_defaults_chose() -> None:
    method: Any = make_method("linear_probe", {})
    assert (method.head, method.head_scale, method.head_start) == ("cosine", 8.0, "imprint")
    assert (method.mask, method.window, method.head_lr) == ("window", 1024, 1.5e-3)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"window": 0}, "window is 0"),
        ({"head_lr": -1.0}, "head_lr is -1.0"),
        ({"lr": float("nan")}, "lr is nan"),
        ({"weight_decay": float("inf")}, "weight_decay is inf"),
        ({"mask": "none"}, "needs class_count, which is not known here"),
        ({"optimizer": "lion"}, "optimizer is 'lion'; choose adam, sgd"),
    ],
)
def test_impossible_settings_are_one_sentence(options: dict[str, Any], sentence: str) -> None:
    refuses("linear_probe", sentence, **options)


def test_a_rate_that_blows_up_is_one_sentence() -> None:
    viewer = pictures(8)
    learner = bound("linear_probe", tiny_vit(), viewer, head="linear", head_lr=1e308, clip=0.0, mask="batch")
    learner.learn(viewer.batch(range(4), "abab"))
    with pytest.raises(UserError, match="lower the learning rate"):
        learner.learn(viewer.batch(range(4, 8), "baab"))
