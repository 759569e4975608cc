"""MIR's choice and A-GEM's projection as the official codes make them, without a copied module."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from rwf.parts.optim import NamedOptimizer
from rwf.parts.retrieval import adam_step, call_with, highest, interference, project_gradients, sgd_step
from tests.golden import golden
from tests.pictures import linear


def test_golden_mir() -> None:
    a, options = golden("mir_select")
    net = linear(a["weight"], a["bias"])
    functional.cross_entropy(net(a["x"]), a["y"]).backward()
    torch.testing.assert_close(net.weight.grad, a["grad_weight"], rtol=1e-9, atol=1e-14)
    virtual = sgd_step(dict(net.named_parameters()), options["virtual_lr"])
    torch.testing.assert_close(virtual["weight"], a["virtual_weight"], rtol=1e-9, atol=1e-14)
    torch.testing.assert_close(virtual["bias"], a["virtual_bias"], rtol=1e-9, atol=1e-14)
    x, y = a["buffer_x"][a["candidates"]], a["buffer_y"][a["candidates"]]
    scores = interference(net, net.forward, virtual, x, y, chunk=4)
    torch.testing.assert_close(scores, a["scores"], rtol=1e-9, atol=1e-13)
    chosen = highest(scores, options["M"])
    assert chosen == a["selected_positions"].tolist()
    assert torch.equal(x[chosen], a["selected_x"])
    assert torch.equal(net.weight.data, a["weight"]), "scoring changed the module"


def test_golden_agem() -> None:
    a, options = golden("agem_run")
    net = linear(a["w0_weight"], a["w0_bias"])
    parameters = list(net.parameters())
    optimizer = torch.optim.SGD(parameters, lr=options["lr"])
    projected = 0
    for step, (x, y) in enumerate(zip(a["X"], a["Y"], strict=True)):
        net.zero_grad()
        functional.cross_entropy(net(x), y).backward()
        if step >= 4:  # the official gate: from the second task on
            slots = a["mem_indices"][step - 4]
            memory = functional.cross_entropy(net(a["buffer_x"][step - 1][slots]), a["buffer_y"][step - 1][slots])
            projected += project_gradients(parameters, torch.autograd.grad(memory, parameters))
        torch.testing.assert_close(net.weight.grad, a["applied_grad_weight"][step], rtol=1e-9, atol=1e-14)
        torch.testing.assert_close(net.bias.grad, a["applied_grad_bias"][step], rtol=1e-9, atol=1e-14)
        optimizer.step()
        torch.testing.assert_close(net.weight.data, a["weights"][step], rtol=1e-9, atol=1e-14)
    assert 0 < projected < 8, "both cases are in the record"


def test_projection_removes_exactly_the_conflict() -> None:
    g = [nn.Parameter(torch.zeros(3, 2).double()), nn.Parameter(torch.zeros(4).double())]
    draws = [torch.randn_like(p, generator=torch.Generator().manual_seed(1)) for p in g]
    reference = [-d + 0.3 * torch.ones_like(d) for d in draws]
    for p, d in zip(g, draws, strict=True):
        p.grad = d.clone()
    assert project_gradients(g, reference)
    along = sum(float((p.grad * r).sum()) for p, r in zip(g, reference, strict=True) if p.grad is not None)
    assert abs(along) < 1e-12
    assert not project_gradients(g, [d * 2 for d in draws])
    assert not project_gradients(g, [torch.zeros_like(d) for d in draws])
    assert not project_gradients([nn.Parameter(torch.ones(2))], [torch.ones(2)]), "no gradient, nothing to project"


class Net(nn.Module):
    """Named parameters in two places and a function that is not forward."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(5, 4, dtype=torch.float64)
        self.second = nn.Linear(4, 3, dtype=torch.float64)

    def answer(self, x: Tensor) -> Tensor:
        return self.second(self.first(x).tanh())


def test_call_with_is_a_copied_module() -> None:
    torch.manual_seed(0)
    net, x = Net(), torch.randn(6, 5, dtype=torch.float64)
    weights = {"second.weight": torch.randn(3, 4).double(), "first.bias": torch.randn(4).double()}
    copied = copy.deepcopy(net)
    for name, value in weights.items():
        copied.get_parameter(name).data.copy_(value)
    assert torch.equal(call_with(net, weights, net.answer, x), copied.answer(x))
    assert not torch.equal(net.answer(x), copied.answer(x))


@pytest.mark.parametrize("steps", [0, 3])
def test_adam_look_ahead_is_adams_step_without_momentum(steps: int) -> None:
    torch.manual_seed(1)
    net, x, y = Net(), torch.randn(6, 5, dtype=torch.float64), torch.arange(6) % 3
    parameters = dict(net.named_parameters())
    adam = NamedOptimizer("adam")
    adam.adopt(parameters, {name: 1e-2 if name.startswith("second") else 1e-3 for name in parameters})
    for _ in range(steps):
        functional.cross_entropy(net.answer(x), y).backward()
        adam.step()
    functional.cross_entropy(net.answer(x), y).backward()
    before = {name: p.detach().clone() for name, p in parameters.items()}
    grads = {name: p.grad.clone() for name, p in parameters.items() if p.grad is not None}
    ahead = adam_step(adam)
    assert all(torch.equal(before[name], p) for name, p in parameters.items()), "looking ahead changed the weights"
    adam.step()
    assert adam.torch is not None
    for name, p in parameters.items():
        state = adam.torch.state[p]
        mean = state["exp_avg"] / (1 - 0.9 ** (steps + 1))
        moved = before[name] - p.detach()  # what Adam did, with its momentum; ours has the gradient in its place
        ours = before[name] - ahead[name]
        torch.testing.assert_close(ours * mean, moved * grads[name], rtol=1e-7, atol=1e-15)


def test_interference_finds_what_the_step_hurts() -> None:
    """Pictures of the class that the stream batch pushes down score above those of the class it is about."""
    net = linear(torch.eye(3, dtype=torch.float64), torch.zeros(3, dtype=torch.float64))
    functional.cross_entropy(net(torch.eye(3)[[0, 0]].double()), torch.tensor([0, 0])).backward()
    virtual = sgd_step(dict(net.named_parameters()), 1.0)
    x, y = torch.eye(3).double()[[0, 1, 2]], torch.tensor([0, 1, 2])
    scores = interference(net, net.forward, virtual, x, y)
    assert highest(scores, 2) == [1, 2]
    assert scores[0] < 0 < scores[1]
