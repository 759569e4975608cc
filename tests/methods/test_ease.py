"""EASE: official prototypes and scores over three tasks through the method, and three tasks in both forms by hand."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from rwf.data.batch import Boundary
from rwf.run.build import make_method
from rwf.run.step import tell
from rwf.vit.adapter import Adapters
from tests.golden import golden
from tests.methods.by_hand import ByHand, Pictures, adapted, among, bound, needs, pictures, refuses
from tests.methods.test_aper_adapter import SGD, looking
from tests.parts.test_prototypes import literal_completion
from tests.pictures import tiny_vit


class Spaces(nn.Module):
    """In the ViT's place: the official toy's feature space of each set of adapters."""

    def __init__(self, spaces: list[Tensor]) -> None:
        super().__init__()
        self.spaces = nn.ParameterList(nn.Parameter(w, False) for w in spaces)
        self.width = self.feature_width = spaces[0].shape[1]
        self.depth = 1

    def features(self, x: Tensor, plug: Any) -> Tensor:
        at = plug.kept_sets if isinstance(plug, Adapters) else plug.index
        return (x @ self.spaces[at]).tanh()


@pytest.mark.parametrize("passes", ["strict", "official"])
def test_golden_scores_over_three_tasks(passes: str) -> None:
    a, o = golden("ease_prototypes_3tasks")
    shift = 0.1 if passes == "strict" else 0.0
    viewer = Pictures(torch.cat([a[f"t{t}_X"] - shift for t in range(3)] + [a["X_test"]]))
    tasks, start = [], 0
    for t in range(3):
        ids = range(start, start := start + len(a[f"t{t}_X"]))
        tasks.append((ids, "".join(str(y) for y in a[f"t{t}_Y"].tolist())))
    told = looking(viewer, tasks)
    learner = bound("ease", Spaces([a[f"W{t}"] for t in range(3)]), viewer, told=told, passes=passes, alpha=o["alpha"])
    tests = viewer.batch(range(start, start + len(a["X_test"])), [""] * len(a["X_test"]))
    for t, (ids, labels) in enumerate(tasks):
        tell(learner, Boundary(t, sorted(set(labels))))
        for i in range(0, len(ids) if passes == "strict" else 1, 5):
            learner.learn(viewer.batch(ids[i : i + 5], labels[i : i + 5]))
        learner.prepare()
        torch.testing.assert_close(learner.predict(tests), a[f"t{t}_logits"], rtol=1e-9, atol=1e-12)


TASKS = [(range(8), "abababab"), (range(8, 16), "cdcdcdcd"), (range(16, 24), "efefefef")]


@pytest.mark.parametrize("passes", ["strict", "official"])
def test_three_tasks_are_written_out(passes: str) -> None:
    """Each task: new adapters and the task's rows of a cosine head by SGD; prototypes in all spaces so far."""
    vit, viewer, looks = tiny_vit(depth=2), pictures(30), []  # type: ignore[var-annotated]
    options = SGD | {"lr": 0.1, "head_lr": 0.05, "head_scale": 4.0, "head_start": "random", "bottleneck": 5}
    learner = bound(
        "ease",
        vit,
        viewer,
        told=looking(viewer, TASKS, looks),
        passes=passes,
        reset_optimizer="all",
        alpha=0.3,
        **options,
    )
    hand = ByHand(learner, lr=0.1, head_lr=0.05, weight_decay=5e-4, sgd=True)
    kept: list[dict[str, Tensor]] = []
    features_of: dict[str, list[Tensor]] = {}

    def joined(x: Tensor) -> Tensor:  # B T d
        return torch.stack([adapted(vit, weights, x).detach() for weights in [*kept, hand.leaves]], dim=1)

    for task, (ids, labels) in enumerate(TASKS):
        if task:
            kept.append({name: leaf.detach().clone() for name, leaf in hand.leaves.items()})
        tell(learner, Boundary(task, sorted(set(labels))))
        hand.take(learner)
        assert not hand["adapters.up"].any(), "a new set adds nothing yet"
        for start in range(0, 8, 4):
            batch = viewer.batch(ids[start : start + 4], labels[start : start + 4])
            x = batch.view()
            if passes == "strict":
                for label, feature in zip(batch.labels, joined(x), strict=True):
                    features_of.setdefault(str(label), []).append(feature)
            own = functional.normalize(adapted(vit, hand.leaves, x))
            logits = 4.0 * own @ functional.normalize(hand["classifier.weight"]).T
            loss = among(logits, learner.rows(batch.labels).tolist(), [2 * task, 2 * task + 1])
            learner.learn(batch)
            hand.step(loss)
            hand.agrees_with(learner)
        if passes == "official":
            for i, label in zip(ids, labels, strict=True):
                features_of.setdefault(label, []).append(joined(viewer.x[[i]])[0])
        learner.prepare()
        prototypes = torch.zeros(2 * task + 2, task + 1, 16).double()
        for row, label in enumerate("abcdef"[: 2 * task + 2]):
            mean = torch.stack(features_of[label]).mean(0)
            prototypes[row, : len(mean)] = mean  # in the spaces up to its own; later ones are completed
        own_space = [row // 2 for row in range(len(prototypes))]
        full = literal_completion(prototypes, own_space)
        cosines = functional.cosine_similarity(joined(viewer.x)[:, None], full[None], dim=3)  # B C T
        for row, space in enumerate(own_space):
            others = [t for t in range(task + 1) if t != space]
            score = cosines[:, row, space]
            if others:
                score = score + 0.3 * cosines[:, row, others].mean(1)
            found = learner.predict(viewer.batch(range(30), [""] * 30))[:, row]
            torch.testing.assert_close(found, score, rtol=1e-9, atol=1e-10)
    assert looks == ([0, 1, 2] if passes == "official" else [])
    assert learner.trained_before == 2


def test_sets_that_were_kept_never_move_again() -> None:
    viewer = pictures(24)
    learner = bound("ease", tiny_vit(depth=1), viewer, lr=0.1)
    tell(learner, Boundary(0, "ab"))
    learner.learn(viewer.batch(range(4), "abab"))
    trained = learner.adapters.up.detach().clone()
    tell(learner, Boundary(1, "cd"))
    for i in range(2, 4):
        learner.learn(viewer.batch(range(4 * i, 4 * i + 4), "cdcd"))
    assert torch.equal(learner.adapters.get_buffer("kept_up")[0], trained)
    assert not torch.equal(learner.adapters.up.detach(), trained)


def test_it_needs_boundaries_and_for_local_heads_the_task_s_classes() -> None:
    assert needs("ease") == {"boundaries", "task_classes"}
    assert needs("ease", passes="official") == {"boundaries", "task_classes", "second_look"}
    assert needs("ease", mask="batch") == {"boundaries"}
    assert needs("ease", mask="batch", reset_optimizer="none") == {"boundaries"}
    assert needs("ease", mask="none") == {"boundaries", "class_count"}


def test_the_row_of_the_paper_and_the_defaults() -> None:
    method: Any = make_method("ease", {})
    paper = method.paper_options
    assert (paper["passes"], paper["optimizer"], paper["weight_decay"]) == ("official", "sgd", 5e-4)
    assert paper["head_start"] == "random"
    assert (method.mask, method.alpha, method.passes, method.reset_optimizer) == ("task", 0.1, "strict", "features")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"bottleneck": 17}, "adapter of 17 does not fit a width of 16"),
        ({"alpha": -0.1}, "alpha is -0.1"),
        ({"alpha": float("inf")}, "alpha is inf"),
    ],
)
def test_impossible_settings_are_one_sentence(options: dict[str, Any], sentence: str) -> None:
    refuses("ease", sentence, **options)
