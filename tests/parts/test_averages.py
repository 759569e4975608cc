"""The average of the weights: the official schedule, growth, and a loan of the parameters that leaves no trace."""

from __future__ import annotations

import json

import pytest
import torch
from torch import nn

from rwf.errors import UserError
from rwf.parts.averages import WeightAverage
from tests.golden import golden


def test_golden_ema() -> None:
    a, options = golden("ema_run")
    warmup = int(options["num_warmup_iterations"])
    average = WeightAverage(warmup=warmup, start=options["start"], end=options["end"])
    average.begin({"w": a["w_init"], "bn": torch.stack([torch.zeros(3), torch.ones(3)]).double()})
    for i in range(len(a["weights"])):
        assert average.rate == pytest.approx(float(a["momentum"][i]), rel=1e-12)
        average.update({"w": a["weights"][i], "bn": a["bn_stats"][i]})
        torch.testing.assert_close(average.weights["w"], a["ema"][i], rtol=1e-12, atol=1e-15)
        torch.testing.assert_close(average.weights["bn"], a["ema_bn_stats"][i], rtol=1e-12, atol=1e-15)


def test_warmup_rate_holds_up_to_and_including_the_last_warmup_iteration() -> None:
    average, w = WeightAverage(warmup=2), {"w": torch.ones(1)}
    rates = []
    for _ in range(5):
        rates.append(average.rate)
        average.update(w)
    assert rates == [0.9, 0.9, 0.9, 0.99, 0.99]


def test_new_rows_start_as_they_are() -> None:
    average = WeightAverage(warmup=9, start=0.5)
    average.begin({"w": torch.zeros(1, 2)})
    average.update({"w": torch.ones(1, 2)})
    average.begin({"w": torch.tensor([[1.0, 1.0], [4.0, 4.0]])})
    average.update({"w": torch.tensor([[1.0, 1.0], [6.0, 6.0]])})
    assert average.weights["w"].tolist() == [[0.75, 0.75], [5.0, 5.0]]


def test_within_applied_the_average_answers_and_nothing_is_left_of_it() -> None:
    net = nn.Linear(3, 2)
    parameters = dict(net.named_parameters())
    average = WeightAverage(warmup=0)
    average.begin({name: torch.zeros_like(p) for name, p in parameters.items()})
    average.update(parameters)
    x, before = torch.randn(4, 3), {name: p.detach().clone() for name, p in parameters.items()}
    kept = {name: value.clone() for name, value in average.weights.items()}
    with average.applied(parameters):
        assert torch.equal(net(x), nn.functional.linear(x, kept["weight"], kept["bias"]))
    assert all(torch.equal(p, before[name]) for name, p in parameters.items())
    with pytest.raises(RuntimeError), average.applied(parameters):
        net(x[:, :2])
    assert all(torch.equal(p, before[name]) for name, p in parameters.items())
    assert all(torch.equal(value, kept[name]) for name, value in average.weights.items())


def test_a_break_changes_nothing() -> None:
    runs = []
    for cut in (None, 3):
        average = WeightAverage(warmup=2)
        average.begin({"a.b": torch.zeros(2)})
        for i in range(6):
            if i == cut:
                tensors, extra = average.state()
                average = WeightAverage(warmup=2)
                average.restore(tensors, json.loads(json.dumps(extra)))
            average.update({"a.b": torch.tensor([float(i), 1.0])})
        runs.append(average.weights["a.b"])
    assert torch.equal(*runs)


def test_impossible_rates_are_one_sentence() -> None:
    with pytest.raises(UserError, match=r"from 0 to below 1"):
        WeightAverage(warmup=3, start=1.0)
