"""EMA(DER++): DER++ learns bit for bit as without the average, which follows the official schedule and answers."""

from __future__ import annotations

import copy
from typing import Any, cast

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from rwf.data.batch import Batch
from rwf.errors import UserError
from rwf.methods.der_pp import DERpp
from rwf.methods.ema_der_pp import EMADERpp
from rwf.parts.told import Told
from rwf.vit.forward import ViT
from tests.golden import golden
from tests.methods.test_er import (
    PLAIN,
    PUBLISHED,
    Given,
    begin_with,
    head_of,
    needs_of_paper,
    same_bits,
    small,
    stream,
    weights_of,
)


class Follower(EMADERpp):
    """A loss whose gradient leads from each recorded weight to the next, at a rate of 1."""

    path: list[Tensor]

    def loss(self, batch: Batch, rows: Tensor) -> Tensor:
        self.answered = torch.zeros(len(batch), 3)
        start, end = self.path[self.step_count : self.step_count + 2]
        return (head_of(self).weight * (start - end)).sum()


def test_golden_average() -> None:
    """The recorded weights go through our update; the average after each step is the official one."""
    a, o = golden("ema_run")
    schedule = {"average_start": o["start"], "average_end": o["end"]}
    learner = Follower(
        **PUBLISHED, **schedule, lr=1.0, average_warmup=int(o["num_warmup_iterations"]), memory_size=1, head_bias=False
    )
    learner.path = [a["w_init"], *a["weights"]]
    learner.bind(cast(ViT, Given(4)), viewer=stream_batch().viewer, told=Told(class_count=3))
    begin_with(learner, a["w_init"])
    learner.average.weights.clear()  # the head has just been given its weights
    learner.average.begin(learner.trained())
    for i in range(len(a["weights"])):
        assert learner.average.rate == pytest.approx(float(a["momentum"][i]), rel=1e-12)
        learner.learn(stream_batch())
        torch.testing.assert_close(head_of(learner).weight.data, a["weights"][i], rtol=0, atol=1e-14)
        torch.testing.assert_close(learner.average.weights["classifier.weight"], a["ema"][i], rtol=1e-12, atol=1e-13)


def stream_batch() -> Batch:
    return next(stream())[1]


def test_training_does_not_notice_the_average() -> None:
    """All weights after every batch, with questions asked in between, against DER++ with the same options."""
    averaged = small(EMADERpp(**PLAIN, memory_size=12, replay=6))
    plain = small(DERpp(**PLAIN, memory_size=12, replay=6, alpha=0.1, shared_draw=True))
    probe = next(stream(start=900))[1]
    for _, batch in stream():
        assert averaged.learn(batch) == plain.learn(batch)
        averaged.predict(probe)
        assert same_bits(weights_of(averaged), weights_of(plain))
    assert not torch.equal(averaged.predict(probe), plain.predict(probe))


@pytest.mark.parametrize("warmup", [0, 2, 79])
def test_an_average_over_all_steps_answers(warmup: int) -> None:
    """Written out: 0.9 up to and including iteration ``warmup``, then 0.99; new rows begin as they are."""
    learner = small(EMADERpp(**PLAIN, memory_size=12, replay=6, average_warmup=warmup))
    average = {n: w for n, w in weights_of(learner).items() if n.startswith("vit.")}
    for step, (_, batch) in enumerate(stream()):
        learner.rows(batch.labels)
        for name, weight in weights_of(learner).items():
            old = average.get(name, weight[:0])
            average[name] = torch.cat([old, weight[len(old) :]]) if len(weight) > len(old) else old
        learner.learn(batch)
        rate = 0.9 if step <= warmup else 0.99
        average = {name: rate * average[name] + (1 - rate) * weight for name, weight in weights_of(learner).items()}
        vit = copy.deepcopy(learner.vit)
        vit.load_state_dict({n.removeprefix("vit."): w for n, w in average.items() if n.startswith("vit.")})
        with torch.no_grad():
            features = vit.features(batch.view(kind="test"))
        wanted = functional.linear(features, average["classifier.weight"], average["classifier.bias"])
        torch.testing.assert_close(learner.predict(batch), wanted, rtol=0, atol=1e-11)


def test_a_row_that_begins_with_its_first_features_begins_there_in_the_average_too() -> None:
    """The random direction that stood there before leaves no trace."""
    learner = small(EMADERpp(**PLAIN | {"head": "cosine", "mask": "none"}, memory_size=12, replay=6))
    head = head_of(learner)
    for _, batch in stream():
        rows = learner.rows(batch.labels)
        fresh = ~head.begun
        features = functional.normalize(learner.features(batch.view()).detach())
        learner.learn(batch)
        for row in rows.unique().tolist():
            if fresh[row]:
                start = functional.normalize(features[rows == row].mean(0), dim=0)
                wanted = 0.9 * start + 0.1 * head.weight.data[row]
                torch.testing.assert_close(learner.average.weights["classifier.weight"][row], wanted)
    assert bool(head.begun.all())


def test_needs() -> None:
    assert EMADERpp().needs == {"memory"}
    assert EMADERpp(mask="none").needs == {"memory", "class_count"}
    assert needs_of_paper("ema_der_pp") == {"memory", "class_count"}
    assert not EMADERpp.answers_while_learning, "what is known before a step is not the average's answer"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"memory_size": 0}, "memory of 0 pictures"),
        ({"replay": 0}, "replay is 0"),
        ({"beta": -0.1}, "beta is -0.1"),
        ({"average_start": 1.0}, "rate of a weight average is 1.0"),
        ({"average_end": -0.1}, "rate of a weight average is -0.1"),
        ({"average_warmup": -1}, "average_warmup is -1"),
    ],
)
def test_impossible_settings_are_one_sentence(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        small(EMADERpp(**options))
