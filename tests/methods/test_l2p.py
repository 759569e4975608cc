"""L2P: the official choices and prompts through the method, and whole updates written out with timm's blocks."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from rwf.data.batch import Boundary
from rwf.run.build import make_method
from rwf.run.step import tell
from rwf.vit.forward import ViT
from rwf.vit.sockets import Plug
from tests.golden import close, golden
from tests.methods.by_hand import ByHand, Pictures, among, bound, embedded, needs, pictures, refuses
from tests.pictures import tiny_vit

SMALL: dict[str, Any] = {"pool": 5, "length": 2, "top_k": 3}
LABELS = [list("abcabc"), list("deedde")]


class NoNetwork(nn.Module):
    """In the ViT's place: its input is the query, its feature the mean of the prompts that joined."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = self.feature_width = width
        self.timm = SimpleNamespace(has_class_token=True, pos_embed=None)
        self.nothing = nn.Parameter(torch.zeros(1), requires_grad=False)

    def features(self, x: Tensor, plug: Plug | None = None, read: Any = "native") -> Tensor:
        if plug is None:
            assert read == "cls"
            return x
        tokens = plug.tokens(0, x[:, None])
        assert tokens is not None
        return tokens[:, read].mean(1)


@pytest.mark.parametrize("name", ["persample", "batchwise"])
def test_golden_loss_and_gradient_of_the_keys(name: str) -> None:
    a, o = golden(f"l2p_prompt_{name}")
    viewer = Pictures(a["query"] - 0.1)  # so that the first train views are the queries
    learner = bound(
        "l2p",
        NoNetwork(o["d"]),
        viewer,
        pool=o["pool"],
        length=o["length"],
        top_k=o["top_k"],
        batchwise=o["batchwise_prompt"],
        head="linear",
        pull=0.1,
    )
    learner.prompts.prompts.data, learner.prompts.keys.weight.data = a["pool"], a["keys"]
    batch = viewer.batch(range(o["B"]), [str(i % 2) for i in range(o["B"])])
    rows = learner.rows(batch.labels)
    prompts = a["prompted_embedding"][:, : o["top_k"] * o["length"]]
    logits = learner.classify_features(prompts.mean(1))
    loss = learner.backward(batch, rows)
    close(loss, (functional.cross_entropy(logits, rows) - 0.1 * a["reduce_sim"]).detach(), 1e-10)
    close(learner.prompts.keys.weight.grad, -0.1 * a["grad_keys"], 1e-10)


def literal_choice(vit: ViT, keys: Tensor, x: Tensor, top_k: int, batchwise: bool) -> tuple[list[list[int]], Tensor]:
    """Indices of each picture's prompts, and all cosines."""
    query = vit.timm.norm(vit.timm.blocks(embedded(vit, x)))[:, 0]
    cosines = functional.cosine_similarity(query[:, None], keys[None], dim=2)
    own = [sorted(range(len(keys)), key=lambda j: -row[j])[:top_k] for row in cosines.tolist()]
    if not batchwise:
        return own, cosines
    times = Counter(j for row in own for j in row)
    return [sorted(range(len(keys)), key=lambda j: (-times[j], j))[:top_k]] * len(x), cosines


def literal_features(vit: ViT, prompts: Tensor, x: Tensor, ids: list[list[int]], read: str = "prompts") -> Tensor:
    """[class token, prompts at its position, patches] before block 0; what is read after the last norm."""
    z = embedded(vit, x)
    chosen = torch.stack([torch.cat([prompts[j] for j in row]) for row in ids]) + vit.timm.pos_embed[0, 0]
    z = vit.timm.norm(vit.timm.blocks(torch.cat([z[:, :1], chosen, z[:, 1:]], dim=1)))
    return z[:, 1 : 1 + chosen.shape[1]].mean(1) if read == "prompts" else z[:, 0]


@pytest.mark.parametrize("batchwise", [False, True])
def test_two_tasks_are_the_published_updates(batchwise: bool) -> None:
    """Cross-entropy among the task's classes minus the pull, clipped, by Adam that is made anew for each task."""
    vit, viewer = tiny_vit(), pictures(24)
    options = SMALL | {"batchwise": batchwise, "mask": "task", "reset_optimizer": "all", "head": "linear", "pull": 0.1}
    learner = bound("l2p", vit, viewer, lr=0.03, head_lr=None, clip=0.1, **options)
    learner.rows(list("abcde"))
    hand = ByHand(learner, lr=0.03, clip=0.1)
    clipped = False
    for task, allowed in enumerate([[0, 1, 2], [3, 4]]):
        tell(learner, Boundary(task, ["abc", "de"][task]))
        hand.new_optimizer()
        for step in range(2):
            ids = range(12 * task + 6 * step, 12 * task + 6 * step + 6)
            batch = viewer.batch(ids, LABELS[task])
            x, rows = batch.view(), learner.rows(batch.labels).tolist()
            chosen, cosines = literal_choice(vit, hand["prompts.keys.weight"], x, SMALL["top_k"], batchwise)
            logits = hand.head(literal_features(vit, hand["prompts.prompts"], x, chosen))
            pull = torch.stack([cosines[b, row].sum() for b, row in enumerate(chosen)]).mean()
            loss = among(logits, rows, allowed) - 0.1 * pull
            notes = learner.learn(batch)
            assert notes["loss"] == pytest.approx(float(loss.detach()), rel=1e-12)
            torch.testing.assert_close(learner.answered, logits.detach(), rtol=1e-11, atol=1e-11)
            hand.step(loss)
            clipped |= hand.norm > 0.1
            hand.agrees_with(learner)
    assert clipped, "the bound says nothing"
    assert learner.needs == {"boundaries", "task_classes"}


@pytest.mark.parametrize("read", ["prompts", "picture"])
@pytest.mark.parametrize("batchwise", [False, True])
def test_a_test_picture_chooses_for_itself(batchwise: bool, read: str) -> None:
    """However it was trained: a choice by the majority of a batch would tell the task of the batch."""
    vit, viewer = tiny_vit(), pictures(8)
    learner = bound("l2p", vit, viewer, head="linear", batchwise=batchwise, read=read, **SMALL)
    learner.learn(viewer.batch(range(4), list("abab")))
    weights = {name: p.detach() for name, p in learner.trained().items()}
    x = viewer.x[4:]
    chosen, _ = literal_choice(vit, weights["prompts.keys.weight"], x, SMALL["top_k"], False)
    assert len({tuple(sorted(row)) for row in chosen}) > 1, "the case says nothing"
    features = literal_features(vit, weights["prompts.prompts"], x, chosen, read)
    expected = features @ weights["classifier.weight"].T + weights["classifier.bias"]
    found = learner.predict(viewer.batch(range(4, 8), [""] * 4))
    torch.testing.assert_close(found, expected, rtol=1e-11, atol=1e-11)
    assert learner.answers_while_learning is not batchwise, "what a batch's choice says is not what prediction says"


def test_the_frozen_query_has_no_graph_and_the_backbone_no_gradient() -> None:
    vit, viewer = tiny_vit(), pictures(4)
    learner = bound("l2p", vit, viewer, **SMALL)
    batch = viewer.batch(range(4), list("abab"))
    learner.backward(batch, learner.rows(batch.labels))
    assert all(p.grad is None for p in vit.parameters())
    assert learner.prompts.keys.weight.grad.any(), "the pull moves keys"
    assert learner.prompts.prompts.grad.any()


def test_it_needs_what_mask_and_reset_need_and_nothing_else() -> None:
    """The choice of prompts itself is free of tasks."""
    assert needs("l2p") == frozenset()
    assert needs("l2p", batchwise=True, mask="batch") == frozenset()
    assert needs("l2p", mask="task") == {"boundaries", "task_classes"}
    assert needs("l2p", mask="none") == {"class_count"}
    assert needs("l2p", reset_optimizer="all") == {"boundaries"}


def test_the_row_of_the_paper() -> None:
    paper = dict(make_method("l2p", {}).paper_options)
    assert paper["lr"] == 0.03 * 64 / 256
    assert (paper["mask"], paper["reset_optimizer"], paper["batchwise"]) == ("task", "all", True)
    default = make_method("l2p", {})
    assert (default.pool, default.length, default.top_k, default.pull) == (10, 5, 5, 0.1)  # type: ignore[attr-defined]
    assert default.clip == 1.0  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"pool": 3, "top_k": 4}, "4 prompts cannot be chosen out of a pool of 3"),
        ({"top_k": 0}, "0 prompts cannot be chosen"),
        ({"pool": 0}, "pool is 0"),
        ({"length": 0}, "length is 0"),
        ({"pull": float("nan")}, "pull is nan"),
        ({"pull": -0.1}, "pull is -0.1"),
    ],
)
def test_impossible_settings_are_one_sentence(options: dict[str, Any], sentence: str) -> None:
    refuses("l2p", sentence, **options)
