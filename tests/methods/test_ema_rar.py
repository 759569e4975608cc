"""EMA(RAR) written out: several steps on each batch, each with new views and a new draw; the average counts them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from rwf.errors import UserError
from rwf.methods.ema_rar import EMARAR, RAR
from rwf.parts.gradient import GradientLearner
from tests.methods.test_er import PLAIN, Twin, handed_out, masked, needs_of_paper, same_bits, small, stream, weights_of


@pytest.mark.parametrize("mask", ["seen", "window"])
@pytest.mark.parametrize("repeats", [1, 3])
def test_an_update_is_several_steps_on_one_mean_over_stream_and_replay(repeats: int, mask: Any) -> None:
    learner = small(EMARAR(**PLAIN | {"mask": mask}, window=7, memory_size=12, replay=6, repeats=repeats))
    twin, replays, shown = Twin(learner), handed_out(learner.memory), list[int]()
    for step, (_, batch) in enumerate(stream()):
        y = learner.rows(batch.labels).tolist()
        twin.meet()
        shown = (shown + y)[-7:]  # a batch is one batch of the stream, however often it is repeated
        replays.clear()
        notes = learner.learn(batch)
        assert len(replays) == repeats
        values = []
        for repeat, replay in enumerate(replays):
            x, rows = batch.view(repeat), list(y)
            assert len(replay) == min(6, 5 * step)
            if step:
                x = torch.cat([x, replay.view()])
                rows += learner.rows(replay.labels).tolist()
            allowed = {*range(len(learner.classes))} if mask == "seen" else {*shown, *rows}
            loss = masked(twin.logits(x), rows, allowed)
            values.append(loss.item())
            twin.move(twin.gradients(loss))
        twin.same()
        assert notes["loss"] == pytest.approx(values[0], abs=1e-12)
    assert learner.gradient_steps == 6 * repeats


def test_no_view_is_shown_twice_and_each_step_draws_anew() -> None:
    learner = small(EMARAR(**PLAIN, memory_size=12, replay=4, repeats=3))
    replays = handed_out(learner.memory)
    for _, batch in stream():
        learner.learn(batch)
        assert not {i for replay in replays[-3:] for i in replay.ids} & set(batch.ids)
    shown = [key for replay in replays for key in zip(replay.ids, replay.visits, strict=True)]
    assert len(set(shown)) == len(shown) == learner.replays == 5 * 3 * 4
    assert min(visit for _, visit in shown) == 3, "the stream showed the first three"
    for first, second, third in zip(replays[3::3], replays[4::3], replays[5::3], strict=True):
        assert len({tuple(first.ids), tuple(second.ids), tuple(third.ids)}) == 3


def run(learner: GradientLearner, *, asked: bool = False) -> dict[str, Tensor]:
    for _, batch in stream():
        learner.learn(batch)
        if asked:
            learner.predict(batch)
    return weights_of(learner)


def test_training_does_not_notice_the_average() -> None:
    options = PLAIN | {"memory_size": 12, "replay": 4}
    averaged, plain = small(EMARAR(**options)), small(RAR(**options))
    assert same_bits(run(averaged, asked=True), run(plain))
    _, probe = next(stream(start=900))
    assert not torch.equal(averaged.predict(probe), plain.predict(probe))


def test_the_average_counts_steps_and_its_warmup_batches() -> None:
    """Two batches of three steps: iterations 0 to 6 at 0.9, then 0.99. Written out from the weights after each step."""
    learner = small(EMARAR(**PLAIN, memory_size=12, replay=4, repeats=3, average_warmup=2))
    average = {n: w for n, w in weights_of(learner).items() if n.startswith("vit.")}
    after: list[dict[str, Tensor]] = []
    step_of = learner.adam.step

    def step(clip: float = 0.0) -> None:
        step_of(clip)
        after.append(weights_of(learner))

    learner.adam.step = step  # type: ignore[method-assign]
    for _, batch in stream():
        learner.learn(batch)
    assert len(after) == 18
    for i, weights in enumerate(after):
        rate = 0.9 if i <= 6 else 0.99
        average = {name: rate * old + (1 - rate) * weights[name] for name, old in average.items()}
    for name, value in average.items():
        torch.testing.assert_close(learner.average.weights[name], value, rtol=0, atol=1e-13, msg=name)


def test_what_it_said_while_learning_is_of_the_first_view_before_the_first_step() -> None:
    learner = small(RAR(**PLAIN, memory_size=12, replay=4))
    for _, batch in stream():
        learner.rows(batch.labels)
        before = learner.scores(batch.view())
        learner.learn(batch)
        assert learner.answered is not None
        torch.testing.assert_close(learner.answered, before, rtol=0, atol=1e-12)


def test_needs() -> None:
    assert EMARAR().needs == RAR().needs == {"memory"}
    assert EMARAR(mask="task").needs == {"memory", "boundaries", "task_classes"}
    assert needs_of_paper("ema_rar") == {"memory", "class_count"}
    assert not EMARAR.answers_while_learning


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"memory_size": 0}, "memory of 0 pictures"),
        ({"replay": 0}, "replay is 0"),
        ({"repeats": 0}, "repeats is 0"),
        ({"average_start": 1.0}, "rate of a weight average is 1.0"),
        ({"average_warmup": -1}, "average_warmup is -1"),
    ],
)
def test_impossible_settings_are_one_sentence(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        small(EMARAR(**options))
