"""LODE against the official run and written out: the stream's loss in two parts, told or by a window."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from rwf.data.batch import Boundary
from rwf.errors import UserError
from rwf.methods.der_pp import DERpp
from rwf.methods.lode import LODE
from tests.golden import golden
from tests.methods.test_der_pp import goes_as_recorded
from tests.methods.test_er import (
    PLAIN,
    PUBLISHED,
    Twin,
    handed_out,
    head_of,
    masked,
    needs_of_paper,
    same_bits,
    small,
    stream,
    tell,
    weights_of,
)


def test_golden_run() -> None:
    """The first draw feeds the cross-entropy and the second the distance; classes to come count as new."""
    _, o = golden("lode_run")
    weights = {"alpha": o["alpha"], "beta": o["beta"], "inter": o["rho"], "intra": o["C"]}
    settings = {"lr": o["lr"], "memory_size": o["buffer"], "replay": o["minibatch"]}
    goes_as_recorded("lode_run", LODE(**PUBLISHED, **settings, **weights), 4)


def two_parts(logits: Tensor, y: list[int], old: list[int], new: list[int]) -> tuple[Tensor, Tensor]:
    """Mean "new or old" as a softmax over the two sums of exponentials, mean "which of the new"."""
    sums = torch.stack([logits[:, old].logsumexp(1), logits[:, new].logsumexp(1)], dim=1)
    return -sums.log_softmax(1)[:, 1].mean(), masked(logits, y, new)


@pytest.mark.parametrize("mask", ["seen", "none"])
@pytest.mark.parametrize("old_classes", ["told", "window"])
def test_an_update_is_the_decoupled_loss_and_the_replay_terms(old_classes: Any, mask: Any) -> None:
    """Labels of the batch are new, also when their class came with an earlier task."""
    weights: dict[str, Any] = {"alpha": 0.7, "beta": 0.4, "inter": 0.3, "intra": 0.9}
    options = PLAIN | weights | {"mask": mask, "window": 7, "memory_size": 12, "replay": 6}
    learner = small(LODE(**options, old_classes=old_classes))
    twin, replays, shown, split = Twin(learner), handed_out(learner.memory), list[int](), 0
    stored: dict[int, Tensor] = {}
    task_of: dict[int, int] = {}
    for step, (task, batch) in enumerate(stream()):
        if old_classes == "told" and step % 2 == 0:
            tell(learner, task)
        y = learner.rows(batch.labels).tolist()
        twin.meet()
        for row in y:
            task_of.setdefault(row, task)
        shown = (shown + y)[-7:]
        width = 6 if mask == "none" else len(task_of)
        replays.clear()
        notes = learner.learn(batch)
        logits = twin.logits(batch.view())
        if old_classes == "told":
            old = [row for row, first in task_of.items() if first < task and row not in y]
            tasks: float = task
        else:
            old = [row for row in task_of if row not in shown and row not in y]
            tasks = max(1.0, len(old) / (len(task_of) - len(old)))
        if old:
            split += 1
            inter, intra = two_parts(logits, y, old, [row for row in range(width) if row not in old])
            loss = 0.3 / tasks * inter + 0.9 * intra
        else:
            loss = masked(logits, y, range(width))
        if step:
            first_draw, second_draw = replays
            scores = twin.logits(second_draw.view())
            rest = [(s[: len(stored[i])] - stored[i]) ** 2 for s, i in zip(scores, second_draw.ids, strict=True)]
            loss = loss + 0.7 * torch.cat(rest).mean()
            loss = loss + 0.4 * masked(twin.logits(first_draw.view()), learner.rows(first_draw.labels), range(width))
        stored |= dict(zip(batch.ids, logits.detach(), strict=True))
        twin.move(twin.gradients(loss))
        twin.same()
        assert notes["loss"] == pytest.approx(loss.item(), abs=1e-12)
    assert split == (4 if old_classes == "told" else 3)


def run(learner: DERpp, labels: Any) -> dict[str, Tensor]:
    for step, (task, batch) in enumerate(stream(labels)):
        if step % 2 == 0 and "boundaries" in learner.needs:
            tell(learner, task)
        learner.learn(batch)
    return weights_of(learner)


def test_with_tasks_of_equal_size_a_window_says_what_boundaries_say() -> None:
    """Each batch has all of its task's classes, so the last pictures do as well."""
    labels = [[2 * task, 2 * task + 1] * 2 for task in (0, 0, 1, 1, 2, 2)]
    told = run(small(LODE(**PLAIN, replay=4)), labels)
    assert same_bits(told, run(small(LODE(**PLAIN, replay=4, old_classes="window", window=4)), labels))
    assert not same_bits(told, run(small(LODE(**PLAIN, replay=4, old_classes="window", window=12)), labels))


def test_as_long_as_nothing_is_old_it_is_der_pp_with_the_draws_exchanged() -> None:
    labels = [[0, 1, 1, 0]] * 4
    ours = run(small(LODE(**PLAIN, replay=3, shared_draw=True, old_classes="window")), labels)
    assert same_bits(ours, run(small(DERpp(**PLAIN, replay=3, shared_draw=True)), labels))


def test_old_are_the_classes_of_tasks_before_whatever_the_order_of_their_coming() -> None:
    """A task comes again and brings a class that it had not."""
    learner = small(LODE(**PLAIN))
    for task, label in ((0, 0), (1, 1), (0, 2), (1, 3)):
        learner.on_boundary(Boundary(task, []))
        learner.rows([label])
    assert learner.old_rows(torch.tensor([3]), 4).tolist() == [True, False, True, False]
    learner.on_boundary(Boundary(0, []))
    assert not learner.old_rows(torch.tensor([0]), 4).any()


def test_the_more_tasks_there_were_the_less_old_classes_are_pushed() -> None:
    """The gradient of the old rows falls as one over the number of tasks before."""
    learner = small(LODE(**PLAIN))
    for label in range(6):
        learner.rows([label])
    learner.tasks.of = [0, 0, 0, 0, 9, 9]
    features, rows, pushed = torch.randn(5, 16, dtype=torch.float64), torch.tensor([4, 5, 4, 4, 5]), []
    for task in (1, 2, 4):
        learner.tasks.now = task
        loss = learner.stream_loss(learner.classify_features(features), rows)
        (gradient,) = torch.autograd.grad(loss, head_of(learner).weight)
        pushed.append(gradient[:4] * task)
    torch.testing.assert_close(pushed[0], pushed[1])
    torch.testing.assert_close(pushed[0], pushed[2])
    assert pushed[0].any()


@pytest.mark.parametrize(
    ("options", "needs"),
    [
        ({}, {"memory", "boundaries"}),
        ({"old_classes": "window"}, {"memory"}),
        ({"mask": "none"}, {"memory", "boundaries", "class_count"}),
        ({"mask": "none", "old_classes": "window"}, {"memory", "class_count"}),
    ],
)
def test_needs(options: dict[str, Any], needs: set[str]) -> None:
    assert LODE(**options).needs == needs


def test_needs_of_the_papers_row() -> None:
    assert needs_of_paper("lode") == {"memory", "boundaries", "class_count"}


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"memory_size": 0}, "memory of 0 pictures"),
        ({"replay": 0}, "replay is 0"),
        ({"alpha": -0.1}, "alpha is -0.1"),
        ({"inter": -0.1}, "inter is -0.1"),
        ({"intra": float("nan")}, "intra is nan"),
        ({"mask": "batch"}, "mask is 'batch'"),
        ({"old_classes": "windows"}, "old_classes is 'windows'"),
    ],
)
def test_impossible_settings_are_one_sentence(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        small(LODE(**options))
