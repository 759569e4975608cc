"""CODA-Prompt: the official components of three tasks through the method's boundaries, and two tasks written out."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from rwf.data.batch import Boundary
from rwf.errors import UserError
from rwf.parts.told import Told
from rwf.run.build import make_method
from rwf.run.step import tell
from rwf.vit.forward import ViT
from tests.golden import close, golden
from tests.methods.by_hand import ByHand, among, block_by_hand, bound, embedded, needs, pictures, refuses
from tests.pictures import tiny_vit

SMALL: dict[str, Any] = {"blocks": 2, "pool": 4, "length": 4}
TWO = Told(task_count=2)
LETTERS = {"prompts": "p", "keys": "k", "attention": "a"}


def fill(learner: Any, a: dict[str, Any], source: str) -> None:
    for name, letter in LETTERS.items():
        learner.prompts.get_parameter(name).data = torch.stack([a[f"{source}e_{letter}_{i}"] for i in range(5)])


def recorded(monkeypatch: pytest.MonkeyPatch, a: dict[str, Any]) -> None:
    """The draws of the official run instead of ours."""
    draws = [a[f"draws_e_{letter}_{i}"] for letter in LETTERS.values() for i in range(5)]

    def replayed(*shape: int, generator: Any) -> Tensor:
        assert draws[0].shape == shape
        return draws.pop(0)

    monkeypatch.setattr("rwf.vit.components.torch.randn", replayed)


@pytest.mark.parametrize("task", [1, 2])
def test_golden_boundaries_of_three_tasks(task: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A boundary makes of the trained components what the official code makes of them, and they answer alike."""
    a, o = golden(f"coda_task{task}_mu0.0")
    vit = tiny_vit(depth=5, width=o["d"])
    told = Told(task_count=o["n_tasks"])
    learner = bound("coda_prompt", vit, pictures(1), told=told, pool=o["pool"], length=o["length"])
    for begun in range(task):
        tell(learner, Boundary(begun, []))
    fill(learner, a, "before_reinit.")
    with monkeypatch.context() as patch:
        recorded(patch, a)
        tell(learner, Boundary(task, []))
    for name, letter in LETTERS.items():
        for i in range(5):
            close(learner.prompts.get_parameter(name).data[i], a[f"param.e_{letter}_{i}"], 1e-9)
    plug = learner.prompts.plug(a["query"])
    for i in (0, 3):
        close(plug.prefix(i, a["query"]).keys, a[f"eval_K_l{i}"], 1e-9)
        close(plug.prefix(i, a["query"]).values, a[f"eval_V_l{i}"], 1e-9)
    for again in range(task + 1):  # the same boundary, or one that has been: nothing begins
        tell(learner, Boundary(again, []))
    close(learner.prompts.keys.data[0], a["param.e_k_0"], 1e-9)


def literal_loss(vit: ViT, x: Tensor, old: dict[str, Tensor], new: dict[str, Tensor], head: Any, penalty: float) -> Any:
    """Features' scores with sums of components as prefixes, and how far the components are from orthonormal."""
    query = vit.timm.norm(vit.timm.blocks(embedded(vit, x)))[:, 0]
    every = {name: torch.cat([old[name], new[name]], dim=1) for name in LETTERS}
    z, term = embedded(vit, x), torch.zeros(()).double()
    for i, block in enumerate(vit.timm.blocks):
        prefix: dict[str, Any] = {}
        if i < SMALL["blocks"]:
            keys, attention, prompts = (every[name][i] for name in ("keys", "attention", "prompts"))
            weights = functional.cosine_similarity(query[:, None] * attention[None], keys[None], dim=2)  # B p
            both = (weights[:, :, None, None] * prompts[None]).sum(1)  # B length d
            half = SMALL["length"] // 2
            prefix = {"keys": both[:, :half], "values": both[:, half:]}
            for matrix in (keys, attention, prompts.flatten(1)):
                term = term + (matrix @ matrix.T - torch.eye(len(matrix)).double()).square().mean()
        z = block_by_hand(block, z, **prefix)
    return head(vit.timm.norm(z)[:, 0]), penalty * term


@pytest.mark.parametrize("penalty", [0.0, 0.1])
def test_two_tasks_are_the_published_updates(penalty: float) -> None:
    """Cross-entropy among the task's classes, earlier components fixed, the penalty over all components so far."""
    vit, viewer = tiny_vit(), pictures(24)
    options = SMALL | {"penalty": penalty, "mask": "task", "head": "linear", "clip": 0.0}
    learner = bound("coda_prompt", vit, viewer, told=TWO, reset_optimizer="all", lr=0.02, head_lr=0.01, **options)
    learner.rows(list("abcde"))
    hand = ByHand(learner, lr=0.02, head_lr=0.01)
    before: dict[str, Tensor] = {}
    for task, allowed in enumerate([[0, 1, 2], [3, 4]]):
        tell(learner, Boundary(task, ["abc", "de"][task]))
        hand.take(learner)  # the new components' values are the golden tests' business
        for step in range(2):
            ids = range(12 * task + 6 * step, 12 * task + 6 * step + 6)
            batch = viewer.batch(ids, [list("abcabc"), list("deedde")][task])
            old = {name: hand[f"prompts.{name}"].detach()[:, : 2 * task] for name in LETTERS}
            new = {name: hand[f"prompts.{name}"][:, 2 * task : 2 * task + 2] for name in LETTERS}
            logits, term = literal_loss(vit, batch.view(), old, new, hand.head, penalty)
            loss = among(logits, learner.rows(batch.labels).tolist(), allowed) + term
            notes = learner.learn(batch)
            assert notes["loss"] == pytest.approx(float(loss.detach()), rel=1e-12)
            torch.testing.assert_close(learner.answered, logits.detach(), rtol=1e-11, atol=1e-11)
            hand.step(loss)
            hand.agrees_with(learner)
        if not before:
            before = {name: learner.prompts.get_parameter(name).detach()[:, :2].clone() for name in LETTERS}
    for name in LETTERS:
        kept = learner.prompts.get_parameter(name).detach()[:, :2]
        assert torch.equal(kept, before[name]), "a new optimiser has no momentum that moves earlier components"


def test_without_the_reset_momentum_moves_earlier_components() -> None:
    viewer = pictures(8)
    learner = bound("coda_prompt", tiny_vit(), viewer, told=TWO, reset_optimizer="none", **SMALL)
    learner.learn(viewer.batch(range(4), list("abab")))
    before = learner.prompts.keys.detach()[:, :2].clone()
    tell(learner, Boundary(1, []))
    learner.learn(viewer.batch(range(4, 8), list("cdcd")))
    assert not torch.equal(learner.prompts.keys.detach()[:, :2], before)


def test_it_answers_with_all_components_so_far_and_none_of_later_tasks() -> None:
    vit, viewer = tiny_vit(), pictures(6)
    learner = bound("coda_prompt", vit, viewer, told=Told(task_count=4), head="linear", **SMALL)
    tell(learner, Boundary(1, []))
    learner.learn(viewer.batch(range(4), list("abab")))
    weights = {name: p.detach() for name, p in learner.trained().items()}
    first = {name: weights[f"prompts.{name}"][:, :1] for name in LETTERS}
    second = {name: weights[f"prompts.{name}"][:, 1:2] for name in LETTERS}

    def head(features: Tensor) -> Tensor:
        return features @ weights["classifier.weight"].T + weights["classifier.bias"]

    expected, _ = literal_loss(vit, viewer.x, first, second, head, 0.0)
    found = learner.predict(viewer.batch(range(6), [""] * 6))
    torch.testing.assert_close(found, expected, rtol=1e-11, atol=1e-11)


def test_it_needs_boundaries_and_how_many_tasks_there_are() -> None:
    assert needs("coda_prompt") == {"boundaries", "task_count"}
    assert needs("coda_prompt", reset_optimizer="none") == {"boundaries", "task_count"}
    assert needs("coda_prompt", mask="task") == {"boundaries", "task_count", "task_classes"}
    assert needs("coda_prompt", mask="none") == {"boundaries", "task_count", "class_count"}


def test_the_row_of_the_paper_and_the_defaults() -> None:
    method: Any = make_method("coda_prompt", {})
    paper = method.paper_options
    assert (paper["mask"], paper["lr"], paper["clip"], paper["reset_optimizer"]) == ("task", 1e-3, 0.0, "all")
    assert (method.penalty, method.length) == (0.0, 8)
    wide = bound("coda_prompt", tiny_vit(depth=6, width=128), pictures(1), told=Told(task_count=10))
    assert wide.prompts.prompts.shape == (5, 100, 8, 128)
    assert wide.prompts.share == 10
    narrow = bound("coda_prompt", tiny_vit(depth=3), pictures(1), told=Told(task_count=3))
    assert narrow.prompts.prompts.shape == (3, 16, 8, 16)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"pool": 1}, "a pool of 1 components has none for each of 2 tasks"),
        ({"pool": 17}, "17 components cannot be orthogonal in 16 dimensions"),
        ({"length": 3}, "3 is odd"),
        ({"blocks": 5}, "blocks 0 to 3"),
        ({"blocks": 0}, "asked for none"),
        ({"penalty": -1.0}, "penalty is -1.0"),
    ],
)
def test_impossible_settings_are_one_sentence(options: dict[str, Any], sentence: str) -> None:
    refuses("coda_prompt", sentence, told=TWO, **options)


def test_more_tasks_than_were_told_are_one_sentence() -> None:
    learner = bound("coda_prompt", tiny_vit(), pictures(1), told=TWO, **SMALL)
    with pytest.raises(UserError, match="shared out among 2 tasks, task 3 is one more"):
        tell(learner, Boundary(2, []))
