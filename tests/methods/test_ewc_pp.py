"""EWC++ against the official run and written out: Fisher, reference, penalty, and what becomes of short tasks."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from rwf.data.batch import Boundary
from rwf.errors import UserError
from rwf.methods.ewc_pp import EWCpp
from rwf.methods.finetune import Finetune
from rwf.parts.gradient import GradientLearner
from tests.golden import close, golden
from tests.methods.test_er import (
    LABELS,
    PLAIN,
    PUBLISHED,
    Twin,
    follows,
    head_of,
    masked,
    needs_of_paper,
    same_bits,
    small,
    stand_in,
    stream,
    tell,
    weights_of,
)


def test_golden_run_of_the_published_counter_and_fisher() -> None:
    a, o = golden("ewcpp_run_fua4")
    settings = {"strength": o["lambda_"], "fisher_weight": o["alpha"], "fisher_every": o["fisher_update_after"]}
    learner, batches, order = stand_in(a, EWCpp(**PUBLISHED, **settings, lr=o["lr"], official=True))
    near = 1e-9
    learner.on_boundary(Boundary(0, []))
    for step, batch in enumerate(batches):
        notes = learner.learn(batch)
        assert notes["loss"] == pytest.approx(float(a["loss"][step]), rel=near)
        follows(learner, a, step, order, near)
        for name in ("weight", "bias"):
            close(learner.fisher.squares[f"classifier.{name}"], a[f"tmp_fisher_{name}"][step][order], near)
        if step % 7 == 6:
            learner.on_boundary(Boundary(step // 7 + 1, []))  # the task has ended
            for name in ("weight", "bias"):
                importance = a[f"normalized_fisher_{name}"][step // 7][order]
                close(learner.fisher.importance[f"classifier.{name}"], importance, near)
                close(learner.fisher.reference[f"classifier.{name}"], a[f"ref_{name}"][step // 7][order], near)


def wide(small_one: Tensor | None, large: Tensor) -> Tensor:
    """A tensor with as many rows as another one has; zeros for what it lacks."""
    if small_one is None:
        return torch.zeros_like(large)
    return functional.pad(small_one, [0, 0] * (large.dim() - 1) + [0, len(large) - len(small_one)])


def test_an_update_pulls_towards_the_weights_of_the_last_task() -> None:
    """Ours: the Fisher is of the cross-entropy alone, and its steps are counted through the whole stream."""
    every, alpha, strength = 3, 0.7, 40.0
    learner = small(EWCpp(**PLAIN, strength=strength, fisher_weight=alpha, fisher_every=every))
    twin, penalties = Twin(learner), list[float]()
    squares: dict[str, Tensor] = {}
    fisher: dict[str, Tensor] = {}
    importance: dict[str, Tensor] = {}
    reference: dict[str, Tensor] = {}
    for step, (task, batch) in enumerate(stream((*LABELS, (4, 5, 0, 5, 1), (2, 2, 0, 1, 5)))):
        if step % 2 == 0:
            if step:  # a task has ended
                now = {name: wide(fisher.get(name), w) for name, w in twin.weights.items()}
                everything = torch.cat([f.flatten() for f in now.values()])
                low, high = everything.min(), everything.max()
                importance = {name: (f - low) / (high - low + 1e-32) for name, f in now.items()}
                reference = {name: w.detach().clone() for name, w in twin.weights.items()}
            learner.on_boundary(Boundary(task, []))
        y = learner.rows(batch.labels).tolist()
        twin.meet()
        notes = learner.learn(batch)
        entropy = masked(twin.logits(batch.view()), y, range(len(learner.classes)))
        pull = torch.zeros(())
        for name, w in twin.weights.items():
            if name in reference:
                pull = pull + (wide(importance[name], w) * (w - wide(reference[name], w)) ** 2).sum()
        penalties.append(pull.item())
        gradients = twin.gradients(entropy)
        for name, gradient in gradients.items():
            squares[name] = wide(squares.get(name), gradient) + gradient**2
        if (step + 1) % every == 0:
            fisher = {n: (1 - alpha) * wide(fisher.get(n), s) + alpha * s / every for n, s in squares.items()}
            squares = {}
        pulls = twin.gradients(strength * pull) if reference else {}
        twin.move({name: g + pulls.get(name, 0.0) for name, g in gradients.items()})
        twin.same()
        assert notes["loss"] == pytest.approx(entropy.item() + strength * penalties[-1], abs=1e-12)
    assert penalties[:5] == [0.0] * 5, "no Fisher before step 3, and so no importance before the third task"
    assert min(penalties[5], penalties[7]) > 0


def run(learner: GradientLearner) -> dict[str, Tensor]:
    for step, (task, batch) in enumerate(stream()):
        if step % 2 == 0 and "boundaries" in learner.needs:
            tell(learner, task)
        learner.learn(batch)
    return weights_of(learner)


def test_the_published_counter_makes_it_fine_tuning_where_tasks_are_short() -> None:
    tuned = run(small(Finetune(**PLAIN)))
    assert same_bits(run(small(EWCpp(**PLAIN, fisher_every=3, official=True))), tuned)
    assert not same_bits(run(small(EWCpp(**PLAIN, fisher_every=3))), tuned)
    assert same_bits(run(small(EWCpp(**PLAIN, fisher_every=3, strength=0.0))), tuned)


def test_consolidating_by_steps_is_consolidating_at_boundaries_that_nobody_tells() -> None:
    told, alone = small(EWCpp(**PLAIN, fisher_every=2)), small(EWCpp(**PLAIN, fisher_every=2, consolidate_every=2))
    assert "boundaries" not in alone.needs
    assert same_bits(run(told), run(alone))
    assert set(told.fisher.reference) == set(alone.fisher.reference)
    assert not same_bits(run(small(EWCpp(**PLAIN, fisher_every=2, consolidate_every=3))), weights_of(told))


def test_the_row_of_a_new_class_is_not_pulled_back_to_where_it_stood_before_it_began() -> None:
    """A head with all rows from the start, which begin as the first features of their label."""
    options = PLAIN | {"head": "cosine", "mask": "none", "head_start": "imprint"}
    learner = small(EWCpp(**options, fisher_every=1))
    head = head_of(learner)
    for step, (task, batch) in enumerate(stream()):
        if step % 2 == 0:
            tell(learner, task)
        before = head.weight.detach().clone()
        rows = learner.rows(batch.labels)
        begun = head.begun.clone()
        features = functional.normalize(learner.features(batch.view()).detach())
        learner.learn(batch)
        for row in rows.unique().tolist():
            if step >= 2 and not begun[row]:
                start = functional.normalize(features[rows == row].mean(0), dim=0)
                torch.testing.assert_close(learner.fisher.reference["classifier.weight"][row], start)
                assert not torch.allclose(before[row], start)
                assert not learner.fisher.importance["classifier.weight"][row].any()
        assert bool(head.begun[rows].all())


@pytest.mark.parametrize(
    ("options", "needs"),
    [
        ({}, {"boundaries"}),
        ({"official": True}, {"boundaries"}),
        ({"consolidate_every": 5}, set()),
        ({"consolidate_every": 5, "reset_optimizer": "all"}, {"boundaries"}),
        ({"mask": "none"}, {"boundaries", "class_count"}),
    ],
)
def test_needs(options: dict[str, Any], needs: set[str]) -> None:
    assert EWCpp(**options).needs == needs


def test_the_papers_row_is_the_published_code() -> None:
    assert needs_of_paper("ewc_pp") == {"boundaries", "class_count"}
    assert EWCpp.paper_options["official"]
    assert not EWCpp().official


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"strength": -1.0}, "strength is -1.0"),
        ({"strength": float("nan")}, "strength is nan"),
        ({"fisher_every": 0}, "every 0 steps"),
        ({"fisher_weight": 0.0}, "weight of a Fisher update is 0.0"),
        ({"fisher_weight": 1.5}, "weight of a Fisher update is 1.5"),
        ({"consolidate_every": -1}, "consolidate_every is -1"),
    ],
)
def test_impossible_settings_are_one_sentence(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        small(EWCpp(**options))
