"""The running Fisher of EWC++: the official run, the repaired counter, growth, and a break."""

from __future__ import annotations

import json

import pytest
import torch
from torch import nn
from torch.nn import functional

from rwf.errors import UserError
from rwf.parts.fisher import RunningFisher
from tests.golden import close, golden
from tests.pictures import linear


def test_golden_ewcpp_with_the_official_counter() -> None:
    a, options = golden("ewcpp_run_fua4")
    net = linear(a["w0_weight"], a["w0_bias"])
    parameters = dict(net.named_parameters())
    optimizer = torch.optim.SGD(net.parameters(), lr=options["lr"])
    fisher = RunningFisher(alpha=options["alpha"], every=options["fisher_update_after"], official=True)
    near = 1e-9
    for step, (x, y) in enumerate(zip(a["X"], a["Y"], strict=True)):
        net.zero_grad()
        loss = functional.cross_entropy(net(x), y)
        loss.backward()
        total = loss.detach() + fisher.add_penalty(parameters, options["lambda_"])
        close(total, a["loss"][step], near)
        fisher.accumulate(parameters)
        for name in parameters:
            close(fisher.squares[name], a[f"tmp_fisher_{name}"][step], near)
            running = fisher.running.get(name, torch.zeros_like(parameters[name]))
            close(running, a[f"running_fisher_{name}"][step], near)
        optimizer.step()
        close(net.weight.data, a["weights"][step], near)
        close(net.bias.data, a["biases"][step], near)
        if (step + 1) % 7 == 0:
            fisher.consolidate(parameters)
            for name in parameters:
                task = step // 7
                close(fisher.importance[name], a[f"normalized_fisher_{name}"][task], near)
                close(fisher.reference[name], a[f"ref_{name}"][task], near)


def with_gradient(values: list[float]) -> dict[str, nn.Parameter]:
    p = nn.Parameter(torch.zeros(len(values), dtype=torch.float64))
    p.grad = torch.tensor(values, dtype=torch.float64)
    return {"w": p}


def test_tasks_shorter_than_the_interval_still_count() -> None:
    """Closed form over 3 tasks of 3 steps with an interval of 4; the official counter never gets there."""
    ours, official = RunningFisher(alpha=0.9, every=4), RunningFisher(alpha=0.9, every=5, official=True)
    gradients = [[float(i), 1.0] for i in range(1, 10)]
    for step, g in enumerate(gradients):
        for fisher in (ours, official):
            fisher.accumulate(with_gradient(g))
            if step % 3 == 2:
                fisher.consolidate(with_gradient(g))
    first, second = (sum(i * i for i in r) / 4 for r in (range(1, 5), range(5, 9)))
    expected = torch.tensor([0.1 * 0.9 * first + 0.9 * second, 0.1 * 0.9 + 0.9], dtype=torch.float64)
    torch.testing.assert_close(ours.running["w"], expected)
    assert ours.squares["w"].tolist() == [81.0, 1.0]
    assert not official.running["w"].any()
    assert not official.importance["w"].any()


def test_importance_is_from_zero_to_one_over_all_weights() -> None:
    fisher = RunningFisher(every=1)
    parameters = {
        "a": nn.Parameter(torch.zeros(2)),
        "b": nn.Parameter(torch.zeros(1, 2)),
        "none": nn.Parameter(torch.zeros(0, 3)),
    }
    for p, g in zip(
        parameters.values(), (torch.tensor([1.0, 2.0]), torch.tensor([[3.0, 2.0]]), torch.zeros(0, 3)), strict=True
    ):
        p.grad = g
    fisher.accumulate(parameters)
    fisher.consolidate(parameters)
    torch.testing.assert_close(fisher.importance["a"], torch.tensor([0.0, 3 / 8]))
    torch.testing.assert_close(fisher.importance["b"], torch.tensor([[1.0, 3 / 8]]))


def test_penalty_is_what_autograd_says() -> None:
    torch.manual_seed(0)
    fisher = RunningFisher()
    parameters = {"a": nn.Parameter(torch.randn(3, 2).double()), "b": nn.Parameter(torch.randn(4).double())}
    fisher.reference = {n: torch.randn_like(p) for n, p in parameters.items()}
    fisher.importance = {n: torch.rand_like(p) for n, p in parameters.items()}
    for p in parameters.values():
        p.grad = torch.ones_like(p)
    value = fisher.add_penalty(parameters, 3.0)
    literal = sum(3.0 * (fisher.importance[n] * (p - fisher.reference[n]) ** 2).sum() for n, p in parameters.items())
    assert isinstance(literal, torch.Tensor)
    torch.testing.assert_close(value, literal.detach())
    for p, grad in zip(parameters.values(), torch.autograd.grad(literal, list(parameters.values())), strict=True):
        torch.testing.assert_close(p.grad, 1 + grad)


def test_new_rows_of_a_head_are_free() -> None:
    fisher = RunningFisher(every=1)
    old = {"head": nn.Parameter(torch.ones(2, 3))}
    old["head"].grad = torch.full((2, 3), 2.0)
    fisher.accumulate(old)
    fisher.consolidate(old)
    fisher.importance["head"] += 1
    grown = {"head": nn.Parameter(torch.full((3, 3), 5.0))}
    grown["head"].grad = torch.zeros(3, 3)
    value = fisher.add_penalty(grown, 1.0)
    assert float(value) == 6 * 16
    assert grown["head"].grad[2].tolist() == [0, 0, 0]
    assert (grown["head"].grad[:2] == 8).all()
    fisher.accumulate(grown)
    assert fisher.running["head"].shape == (3, 3)


def test_a_break_changes_nothing() -> None:
    runs = []
    for cut in (None, 5):
        torch.manual_seed(0)
        fisher = RunningFisher(every=3)
        p = {"w.x": nn.Parameter(torch.randn(4))}
        for step in range(10):
            if step == cut:
                tensors, extra = fisher.state()
                fisher = RunningFisher(every=3)
                fisher.restore({k: v.clone() for k, v in tensors.items()}, json.loads(json.dumps(extra)))
            p["w.x"].grad = torch.randn(4)
            fisher.add_penalty(p, 0.1)
            fisher.accumulate(p)
            p["w.x"].data -= 0.1 * p["w.x"].grad
            if step == 3:
                fisher.consolidate(p)
        runs.append((p["w.x"].detach().clone(), fisher.running["w.x"]))
    assert all(torch.equal(a, b) for a, b in zip(*runs, strict=True))


def test_before_the_first_task_ended_there_is_no_penalty() -> None:
    parameters = with_gradient([1.0])
    assert float(RunningFisher().add_penalty(parameters, 100.0)) == 0
    assert parameters["w"].grad is not None
    assert parameters["w"].grad.tolist() == [1.0]


def test_impossible_settings_are_one_sentence() -> None:
    with pytest.raises(UserError, match="every 0 steps"):
        RunningFisher(every=0)
    with pytest.raises(UserError, match="weight of a Fisher update"):
        RunningFisher(alpha=0.0)
