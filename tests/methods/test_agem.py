"""A-GEM against the official run and written out: the memory bends the gradient and is never a term of the loss."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from rwf.data.batch import Boundary
from rwf.errors import UserError
from rwf.methods.agem import AGEM
from rwf.methods.finetune import Finetune
from rwf.parts.gradient import GradientLearner
from tests.golden import golden
from tests.methods.test_er import (
    LABELS,
    PLAIN,
    PUBLISHED,
    Slots,
    Twin,
    follows,
    handed_out,
    masked,
    needs_of_paper,
    placed,
    same_bits,
    small,
    stand_in,
    stream,
    tell,
    weights_of,
)


def test_golden_run_with_the_official_gate() -> None:
    a, o = golden("agem_run")
    method = AGEM(**PUBLISHED, lr=o["lr"], memory_size=o["mem_size"], replay=o["eps_mem_batch"], wait=True)
    learner, batches, order = stand_in(a, method)
    draws = [[-1]] * 4 + a["mem_indices"].tolist()
    learner.memory = Slots(o["mem_size"], learner.viewer, placed(a, o["mem_size"]), draw=draws)
    for step, batch in enumerate(batches):
        if step % 4 == 0:
            learner.on_boundary(Boundary(step // 4, []))
        learner.learn(batch)
        follows(learner, a, step, order, 1e-9)
    assert learner.replays == 8 * o["eps_mem_batch"], "the memory was read before the second task"


def flat(gradients: dict[str, Tensor]) -> Tensor:
    return torch.cat([g.flatten() for g in gradients.values()])


def test_an_update_is_the_streams_gradient_without_what_would_raise_the_memorys_loss() -> None:
    learner = small(AGEM(**PLAIN | {"lr": 0.1}, memory_size=6, replay=4))
    twin, replays, bent = Twin(learner), handed_out(learner.memory), list[bool]()
    labels = ((0, 1, 1, 1, 1), (1, 1, 0, 1, 1), *LABELS[2:])  # the second batch wants what the first wanted
    for step, (_, batch) in enumerate(stream(labels)):
        y = learner.rows(batch.labels).tolist()
        twin.meet()
        notes = learner.learn(batch)
        met = range(len(learner.classes))
        loss = masked(twin.logits(batch.view()), y, met)
        gradients = twin.gradients(loss)
        assert len(replays) == step, "from the second batch on"
        if step:
            again = learner.rows(replays[-1].labels).tolist()
            reference = twin.gradients(masked(twin.logits(replays[-1].view()), again, met))
            along = flat(gradients) @ flat(reference)
            bent.append(bool(along < 0))
            if bent[-1]:
                share = along / flat(reference).square().sum()
                gradients = {name: g - share * reference[name] for name, g in gradients.items()}
                assert abs(flat(gradients) @ flat(reference)) < 1e-12
        twin.move(gradients)
        twin.same()
        assert notes["loss"] == pytest.approx(loss.item(), abs=1e-12)
    assert set(bent) == {True, False}, "both cases are here"


def run(learner: GradientLearner, batches: int = 6) -> dict[str, Tensor]:
    for step, (task, batch) in enumerate(stream()):
        if step == batches:
            break
        if step % 2 == 0:
            tell(learner, task)
        learner.learn(batch)
    return weights_of(learner)


def test_waiting_it_is_finetuning_as_long_as_the_first_task_runs() -> None:
    options = PLAIN | {"lr": 0.1}
    waits, at_once = small(AGEM(**options, wait=True)), small(AGEM(**options))
    assert same_bits(run(waits, 2), run(small(Finetune(**options)), 2))
    assert (waits.replays, len(waits.memory)) == (0, 10)
    run(at_once, 2)
    assert at_once.replays == 5
    waits = small(AGEM(**options, wait=True, replay=4))
    assert not same_bits(run(waits), run(small(Finetune(**options))))
    assert waits.replays == 4 * 4


def test_needs() -> None:
    assert AGEM().needs == {"memory"}
    assert AGEM(wait=True).needs == {"memory", "boundaries"}
    assert needs_of_paper("agem") == {"memory", "boundaries", "class_count"}


@pytest.mark.parametrize(
    ("options", "sentence"), [({"memory_size": 0}, "memory of 0 pictures"), ({"replay": 0}, "replay is 0")]
)
def test_impossible_settings_are_one_sentence(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        small(AGEM(**options))
