"""APER with adapters: official prototypes and scores through the method, and two tasks in both forms written out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from rwf.data.batch import Batch, Boundary
from rwf.errors import UserError
from rwf.parts.told import Told
from rwf.run.build import make_method
from rwf.run.step import tell
from rwf.vit.sockets import Plug
from tests.golden import golden
from tests.methods.by_hand import ByHand, Pictures, adapted, among, bound, needs, pictures, refuses
from tests.pictures import tiny_vit

SGD: dict[str, Any] = {"optimizer": "sgd", "weight_decay": 5e-4, "clip": 0.0}


class TwoBranches(nn.Module):
    """In the ViT's place: the official toy's frozen and adapted features."""

    def __init__(self, frozen: Tensor, own: Tensor) -> None:
        super().__init__()
        self.frozen, self.own = nn.Parameter(frozen, False), nn.Parameter(own, False)
        self.width = self.feature_width = frozen.shape[1]
        self.depth = 1

    def features(self, x: Tensor, plug: Plug | None = None) -> Tensor:
        return (x @ (self.frozen if plug is None else self.own)).tanh()


def looking(viewer: Pictures, tasks: list[tuple[range, str]], looks: list[int] | None = None) -> Told:
    """What the official form is told: the pictures of each task, in batches of 5."""

    def look(task: int) -> Iterator[Batch]:
        ids, labels = tasks[task]
        if looks is not None:
            looks.append(task)
        for start in range(0, len(ids), 5):
            yield viewer.batch(ids[start : start + 5], labels[start : start + 5])

    return Told(second_look=look)


@pytest.mark.parametrize("passes", ["strict", "official"])
def test_golden_prototypes_and_scores(passes: str) -> None:
    """strict: all pictures on the way, which are the same features here; official: one picture, then a second look."""
    a, o = golden("aper_prototype_logits")
    labels = "".join(str(y) for y in a["Y"].tolist())
    n = len(labels)
    viewer = Pictures(torch.cat([a["X"] - (0.1 if passes == "strict" else 0.0), a["X_test"]]))
    told = looking(viewer, [(range(n), labels)])
    learner = bound("aper_adapter", TwoBranches(a["W0"], a["W1"]), viewer, told=told, passes=passes)
    learner.rows([str(c) for c in range(o["classes"])])
    for start in range(0, n if passes == "strict" else 1, 7):
        learner.learn(viewer.batch(range(start, min(n, start + 7)), labels[start : start + 7]))
    learner.prepare()
    torch.testing.assert_close(learner.prototypes.means[:, 0], a["prototypes"], rtol=1e-10, atol=1e-13)
    tests = range(n, n + len(a["X_test"]))
    found = learner.predict(viewer.batch(tests, [""] * len(tests)))
    torch.testing.assert_close(found, a["logits"], rtol=1e-10, atol=1e-13)


TASKS = [(range(12), "abcabcabcabc"), (range(12, 20), "dedededd")]


@pytest.mark.parametrize("passes", ["strict", "official"])
def test_two_tasks_are_written_out(passes: str) -> None:
    """The first task trains adapters and a temporary cosine head by SGD; then nothing moves, means are taken."""
    vit, viewer, looks = tiny_vit(depth=2), pictures(24), []  # type: ignore[var-annotated]
    options = SGD | {"lr": 0.1, "head_lr": 0.05, "head_scale": 4.0, "head_start": "random", "bottleneck": 5}
    learner = bound("aper_adapter", vit, viewer, told=looking(viewer, TASKS, looks), passes=passes, **options)
    tell(learner, Boundary(0, "abc"))
    learner.rows("abc")
    learner.tasks.meet(3)
    hand = ByHand(learner, lr=0.1, head_lr=0.05, weight_decay=5e-4, sgd=True)
    sums: dict[str, list[Tensor]] = {label: [] for label in "abcde"}

    def joined(x: Tensor) -> Tensor:
        return torch.cat([vit.timm(x), adapted(vit, hand.leaves, x)], dim=1).detach()

    for start in range(0, 12, 4):
        batch = viewer.batch(range(start, start + 4), TASKS[0][1][start : start + 4])
        x = batch.view()
        if passes == "strict":
            for label, feature in zip(batch.labels, joined(x), strict=True):
                sums[str(label)].append(feature)
        own = functional.normalize(adapted(vit, hand.leaves, x))
        logits = 4.0 * own @ functional.normalize(hand["classifier.weight"]).T
        loss = among(logits, learner.rows(batch.labels).tolist(), [0, 1, 2])
        notes = learner.learn(batch)
        assert notes["loss"] == pytest.approx(float(loss.detach()), rel=1e-12)
        hand.step(loss)
        hand.agrees_with(learner)
    assert hand["adapters.down"].grad is not None
    assert hand["adapters.down"].grad.any(), "up has left zero"
    if passes == "official":
        for i, label in enumerate(TASKS[0][1]):
            sums[label].append(joined(viewer.x[[i]])[0])
    tell(learner, Boundary(1, "de"))
    for start in range(12, 20, 4):
        batch = viewer.batch(range(start, start + 4), TASKS[1][1][start - 12 : start - 8])
        assert learner.learn(batch) == {}
        x = batch.view() if passes == "strict" else batch.view(kind="test")
        for label, feature in zip(batch.labels, joined(x), strict=True):
            sums[str(label)].append(feature)
    learner.prepare()
    weights = {name: p for name, p in learner.trained().items() if name.startswith("adapters.")}
    for name, p in weights.items():
        torch.testing.assert_close(p, hand[name], rtol=1e-10, atol=1e-10)
    means = torch.stack([torch.stack(sums[label]).mean(0) for label in "abcde"])
    expected = functional.cosine_similarity(joined(viewer.x)[:, None], means[None], dim=2)
    found = learner.predict(viewer.batch(range(24), [""] * 24))
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)
    assert looks == ([0] if passes == "official" else []), "later tasks are seen once in either form"


def test_until_the_second_look_a_class_has_no_prototype_and_cannot_be_the_answer() -> None:
    viewer = pictures(20)
    learner = bound("aper_adapter", tiny_vit(depth=1), viewer, told=looking(viewer, TASKS), passes="official")
    learner.learn(viewer.batch(range(4), "abca"))
    learner.prepare()
    learner.learn(viewer.batch([4], "z"))
    scores = learner.predict(viewer.batch(range(3), "abc"))
    assert scores.shape == (3, 4)
    assert bool((scores[:, 3] < -1).all()), "below every cosine"
    assert bool((scores[:, :3].abs() <= 1 + 1e-12).all())


def test_what_is_said_while_learning_is_the_answer_of_the_time() -> None:
    viewer = pictures(20)
    for passes in ("strict", "official"):
        learner = bound("aper_adapter", tiny_vit(depth=1), viewer, told=looking(viewer, TASKS), passes=passes)
        learner.learn(viewer.batch(range(4), "abca"))
        batch = viewer.batch(range(4, 8), "bcab")
        before = learner.scores(batch.view())
        learner.learn(batch)
        assert learner.answers_while_learning is (passes == "strict")
        if passes == "strict":
            torch.testing.assert_close(learner.answered, before, rtol=1e-12, atol=1e-12)


def test_it_needs_the_end_of_the_first_task_and_no_classes() -> None:
    assert needs("aper_adapter") == {"boundaries"}
    assert needs("aper_adapter", passes="official") == {"boundaries", "second_look"}
    assert needs("aper_adapter", mask="task") == {"boundaries", "task_classes"}
    assert needs("aper_adapter", mask="none", passes="official") == {"boundaries", "second_look", "class_count"}


def test_the_row_of_the_paper_and_the_defaults() -> None:
    method: Any = make_method("aper_adapter", {})
    paper = method.paper_options
    assert (paper["passes"], paper["mask"], paper["optimizer"]) == ("official", "task", "sgd")
    assert (paper["weight_decay"], paper["clip"], paper["head_start"]) == (5e-4, 0.0, "random")
    assert (method.passes, method.adapter_scale, method.head) == ("strict", 0.1, "cosine")
    wide = bound("aper_adapter", tiny_vit(width=128, depth=1), pictures(1))
    assert wide.adapters.down.shape == (1, 64, 128)
    narrow = bound("aper_adapter", tiny_vit(depth=1), pictures(1))
    assert narrow.adapters.down.shape == (1, 16, 16)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"bottleneck": 17}, "adapter of 17 does not fit a width of 16"),
        ({"bottleneck": 0}, "adapter of 0"),
        ({"adapter_scale": float("inf")}, "adapter_scale is inf"),
    ],
)
def test_impossible_settings_are_one_sentence(options: dict[str, Any], sentence: str) -> None:
    refuses("aper_adapter", sentence, **options)


def test_a_stream_without_second_looks_refuses_the_official_form_in_one_sentence() -> None:
    learner = bound("aper_adapter", tiny_vit(depth=1), pictures(4), passes="official")
    learner.learn(learner.viewer.batch(range(4), "abab"))
    with pytest.raises(UserError, match="cannot be looked at a second time; use the method's strict form"):
        learner.prepare()
