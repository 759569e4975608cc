"""DER++ against the official run and written out: what is stored, and the two terms that hold on to it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from rwf.data.batch import Boundary
from rwf.errors import UserError
from rwf.methods.der_pp import DERpp
from rwf.methods.er import ER
from tests.golden import golden
from tests.methods.test_er import (
    PLAIN,
    PUBLISHED,
    Slots,
    Twin,
    follows,
    handed_out,
    masked,
    needs_of_paper,
    same_bits,
    small,
    stand_in,
    stream,
    weights_of,
)
from tests.parts.test_memory import contents


def goes_as_recorded(name: str, method: DERpp, batches_a_task: int) -> None:
    """All weights, losses, stored scores and draws of an official run. Its buffer is in float32: so the tolerance."""
    a, o = golden(name)
    learner, batches, order = stand_in(a, method)
    first, second = a["draws"][:, 0].tolist(), a["draws"][:, 1].tolist()
    places = a["reservoir_draws"].tolist()
    learner.memory = slots = Slots(o["buffer"], learner.viewer, places, draw=first, second_draw=second)
    for step, batch in enumerate(batches):
        if step % batches_a_task == 0:
            learner.on_boundary(Boundary(step // batches_a_task, []))
        notes = learner.learn(batch)
        assert notes["loss"] == pytest.approx(float(a["loss"][step]), rel=1e-5)
        follows(learner, a, step, order, 1e-5)
        kept = torch.stack([item.extras["logits"] for item in slots.items])
        torch.testing.assert_close(kept.float(), a["buffer_logits"][step][: len(kept), order], rtol=1e-5, atol=1e-6)
        assert torch.equal(a["Y"].flatten()[contents(slots)], a["buffer_labels"][step][: len(kept)])
    assert slots.ranges == a["reservoir_ranges"].tolist()


def test_golden_run() -> None:
    _, o = golden("derpp_run")
    settings = {"lr": o["lr"], "memory_size": o["buffer"], "replay": o["minibatch"]}
    goes_as_recorded("derpp_run", DERpp(**PUBLISHED, **settings, alpha=o["alpha"], beta=o["beta"]), 5)


@pytest.mark.parametrize("shared", [False, True])
def test_an_update_is_three_terms_on_the_stream_and_two_draws(shared: bool) -> None:
    """With a head that grows: what was stored for few classes says nothing about later ones."""
    learner = small(DERpp(**PLAIN, alpha=0.7, beta=0.4, memory_size=12, replay=6, shared_draw=shared))
    twin, replays, stored = Twin(learner), handed_out(learner.memory), dict[int, Tensor]()
    lengths = set[int]()
    for step, (_, batch) in enumerate(stream()):
        y = learner.rows(batch.labels).tolist()
        twin.meet()
        met = range(len(learner.classes))
        replays.clear()
        notes = learner.learn(batch)
        logits = twin.logits(batch.view())
        loss = masked(logits, y, met)
        assert len(replays) == (1 if shared else 2)
        if step:
            first, last = replays[0], replays[-1]
            assert shared or list(first.ids) != list(last.ids), "two draws"
            distances = []
            for scores, i in zip(twin.logits(first.view()), first.ids, strict=True):
                lengths.add(len(stored[i]))
                distances += list((scores[: len(stored[i])] - stored[i]) ** 2)
            loss = loss + 0.7 * torch.stack(distances).mean()
            loss = loss + 0.4 * masked(twin.logits(last.view()), learner.rows(last.labels), met)
        stored |= dict(zip(batch.ids, logits.detach(), strict=True))  # before the step, of the view that was learned
        twin.move(twin.gradients(loss))
        twin.same()
        assert notes["loss"] == pytest.approx(loss.item(), abs=1e-12)
    assert lengths >= {2, 4}
    for item in learner.memory.items:
        torch.testing.assert_close(item.extras["logits"], stored[item.id], rtol=0, atol=1e-10)


def test_with_all_classes_from_the_start_the_distance_is_a_mean_over_all_of_them() -> None:
    learner = small(DERpp(**PLAIN | {"mask": "none"}, alpha=1.0, beta=0.0, memory_size=12, replay=6))
    for _, batch in stream():
        learner.learn(batch)
    replay = learner.memory.draw(6, 99)
    scores = learner.logits(replay.view())
    wanted = torch.nn.functional.mse_loss(scores, torch.stack(list(replay.extras["logits"])))
    torch.testing.assert_close(torch.as_tensor(learner.replay_loss([replay], [scores])), wanted)


def test_without_the_distance_and_with_one_draw_it_is_er() -> None:
    ends = []
    for method in (
        DERpp(**PLAIN, alpha=0.0, beta=1.0, shared_draw=True, memory_size=12, replay=6),
        ER(**PLAIN, memory_size=12, replay=6),
    ):
        learner = small(method)
        for _, batch in stream():
            learner.learn(batch)
        ends.append(weights_of(learner))
    assert same_bits(*ends)


def test_a_second_draw_shows_a_picture_in_another_view() -> None:
    learner = small(DERpp(**PLAIN, memory_size=6, replay=6))
    replays = handed_out(learner.memory)
    for _, batch in stream():
        learner.learn(batch)
    shown = [key for replay in replays for key in zip(replay.ids, replay.visits, strict=True)]
    assert len(set(shown)) == len(shown) == 2 * (5 + 4 * 6)


def test_needs() -> None:
    assert DERpp().needs == {"memory"}
    assert DERpp(shared_draw=True).needs == {"memory"}
    assert needs_of_paper("der_pp") == {"memory", "class_count"}


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"memory_size": 0}, "memory of 0 pictures"),
        ({"replay": 0}, "replay is 0"),
        ({"alpha": -0.1}, "alpha is -0.1"),
        ({"beta": -1.0}, "beta is -1.0"),
        ({"alpha": float("inf")}, "alpha is inf"),
    ],
)
def test_impossible_settings_are_one_sentence(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        small(DERpp(**options))
