"""VPT: updates written out as deep prompt tuning with timm's blocks; the rung of the ladder below RwF."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from rwf.run.build import make_method
from rwf.vit.forward import ViT
from rwf.vit.routing import STD
from tests.methods.by_hand import ByHand, among, bound, embedded, needs, pictures, refuses
from tests.pictures import tiny_vit


def literal_features(vit: ViT, x: Tensor, prompts: Tensor, first: int) -> Tensor:
    """In each prompted block the prompts join the sequence; behind it they are cut off."""
    z = embedded(vit, x)
    for i, block in enumerate(vit.timm.blocks):
        if first <= i < first + len(prompts):
            z = block(torch.cat([prompts[i - first].expand(len(x), -1, -1), z], dim=1))[:, prompts.shape[1] :]
        else:
            z = block(z)
    out: Tensor = vit.timm.norm(z)[:, 0]
    return out


@pytest.mark.parametrize(("placement", "first"), [("first", 0), ("last", 2)])
def test_updates_are_those_of_deep_prompt_tuning(placement: str, first: int) -> None:
    vit, viewer = tiny_vit(), pictures(12)
    options: dict[str, Any] = {"blocks": 2, "prompts": 3, "placement": placement, "head": "linear", "mask": "batch"}
    learner = bound("vpt", vit, viewer, lr=0.02, head_lr=0.01, clip=0.0, **options)
    learner.rows("abc")
    hand = ByHand(learner, lr=0.02, head_lr=0.01)
    assert set(hand.leaves) == {"plug.prompts", "classifier.weight", "classifier.bias"}
    for step, labels in enumerate(["abab", "bcbc", "caca"]):
        batch = viewer.batch(range(4 * step, 4 * step + 4), labels)
        rows = learner.rows(batch.labels).tolist()
        logits = hand.head(literal_features(vit, batch.view(), hand["plug.prompts"], first))
        loss = among(logits, rows, sorted(set(rows)))
        notes = learner.learn(batch)
        assert notes["loss"] == pytest.approx(float(loss.detach()), rel=1e-12)
        hand.step(loss)
        hand.agrees_with(learner)
    expected = hand.head(literal_features(vit, viewer.x, hand["plug.prompts"], first)).detach()
    found = learner.predict(viewer.batch(range(12), [""] * 12))
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)


def test_it_is_rwf_without_retrieval() -> None:
    """As many prompts in the same blocks with the same deviation at the start, under the same protocol."""
    vpt, rwf = (make_method(name, {}) for name in ("vpt", "rwf"))
    for name in ("blocks", "placement", "prompts", "lr", "head_lr", "mask", "window", "head", "clip", "optimizer"):
        assert getattr(vpt, name) == getattr(rwf, name), name
    assert vpt.paper_options == rwf.paper_options
    learner = bound("vpt", tiny_vit(width=64, depth=3), pictures(1))
    assert learner.plug.prompts.shape == (3, 30, 64)
    assert float(learner.plug.prompts.detach().std()) == pytest.approx(STD, rel=0.03)


def test_it_needs_what_the_mask_needs() -> None:
    assert needs("vpt") == frozenset()
    assert needs("vpt", mask="task") == {"boundaries", "task_classes"}
    assert needs("vpt", mask="none") == {"class_count"}


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"blocks": 5}, "blocks 0 to 3; prompts were asked for"),
        ({"blocks": 5, "placement": "last"}, "blocks 0 to 3; prompts were asked for"),
        ({"blocks": 0}, "asked for none"),
        ({"prompts": 0}, "prompts is 0"),
        ({"placement": "middle"}, "placement is 'middle'; choose first, last"),
    ],
)
def test_impossible_settings_are_one_sentence(options: dict[str, Any], sentence: str) -> None:
    refuses("vpt", sentence, **options)
