"""ER-ACE written out: whole updates, and who may push whom."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from rwf.errors import UserError
from rwf.methods.er_ace import ERACE
from rwf.parts.losses import asymmetric_cross_entropy
from rwf.run.build import make_method
from tests.methods.test_er import PLAIN, Twin, handed_out, masked, small, stream

OPTIONS = {name: value for name, value in PLAIN.items() if name != "mask"}


def test_an_update_is_cross_entropy_among_the_batchs_own_classes_and_replay_among_all_met() -> None:
    learner = small(ERACE(**OPTIONS, memory_size=12, replay=6))
    twin, replays = Twin(learner), handed_out(learner.memory)
    for step, (_, batch) in enumerate(stream()):
        y = learner.rows(batch.labels).tolist()
        twin.meet()
        notes = learner.learn(batch)
        loss = masked(twin.logits(batch.view()), y, {*y})
        if step:
            again = learner.rows(replays[-1].labels).tolist()
            loss = loss + masked(twin.logits(replays[-1].view()), again, range(len(learner.classes)))
        twin.move(twin.gradients(loss))
        twin.same()
        assert notes["loss"] == pytest.approx(loss.item(), abs=1e-12)


def test_new_pictures_leave_old_rows_alone_and_replayed_ones_push_new_rows() -> None:
    """Rows of the head, by the gradient of each term; classes not met compete in neither."""
    learner = small(ERACE(**OPTIONS, memory_size=12, replay=6))
    assert learner.classifier is not None
    learner.classifier.grow(6)  # more rows than classes met
    learner.adopt()
    (_, first), (_, _), (_, second) = list(stream())[:3]
    learner.learn(first)
    rows = learner.rows(second.labels)
    replayed = learner.memory.draw(6, 1)
    again = learner.rows(replayed.labels)
    logits, scores = learner.logits_of(second, rows, replayed)
    weight = learner.classifier.weight
    both = learner.loss(second, rows)
    alone = asymmetric_cross_entropy(logits, rows, scores[:0], again[:0], len(learner.classes))
    (gradient,) = torch.autograd.grad(alone, weight)
    assert gradient.any(1).tolist() == [False, False, True, True, False, False]
    (gradient,) = torch.autograd.grad(both, weight)
    assert gradient.any(1).tolist() == [True, True, True, True, False, False]
    assert len(learner.classes) == 4


def test_needs() -> None:
    assert ERACE().needs == {"memory"}
    assert ERACE(reset_optimizer="all").needs == {"memory", "boundaries"}


@pytest.mark.parametrize("option", ["mask", "window"])
def test_its_masks_are_no_options(option: str) -> None:
    with pytest.raises(UserError, match=f"no option '{option}'"):
        make_method("er_ace", {option: "seen"})


@pytest.mark.parametrize(
    ("options", "sentence"), [({"memory_size": 0}, "memory of 0 pictures"), ({"replay": 0}, "replay is 0")]
)
def test_impossible_settings_are_one_sentence(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        small(ERACE(**options))
