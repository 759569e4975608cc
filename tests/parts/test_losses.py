"""The loss terms give the official values and gradients, and whole official runs step by step."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from rwf.parts.losses import (
    asymmetric_cross_entropy,
    decoupled_loss,
    decoupled_terms,
    logit_distance,
    proxy_contrast,
)
from rwf.parts.prototypes import cosine_logits
from tests.golden import golden
from tests.pictures import linear


def flags(rows: Tensor, width: int) -> Tensor:
    out = torch.zeros(width, dtype=torch.bool)
    out[rows] = True
    return out


def test_golden_lode_terms() -> None:
    a, options = golden("lode_terms")
    logits = a["logits"].requires_grad_()
    old, new = flags(a["old"], 6), flags(a["new"], 6)
    inter, intra = decoupled_terms(logits, a["labels"], old, new)
    torch.testing.assert_close(inter, a["inter"], rtol=1e-9, atol=1e-14)
    torch.testing.assert_close(intra, a["intra"], rtol=1e-9, atol=1e-14)
    torch.testing.assert_close(inter + intra, functional.cross_entropy(logits, a["labels"], reduction="none"))
    weights: dict[str, Any] = {"ratio": options["rho"], "task": options["task"], "intra_weight": options["C"]}
    loss = decoupled_loss(logits, a["labels"], old, new, **weights)
    torch.testing.assert_close(loss, a["loss"], rtol=1e-9, atol=1e-14)
    (grad,) = torch.autograd.grad(loss, logits)
    torch.testing.assert_close(grad, a["grad"], rtol=1e-9, atol=1e-14)


def test_golden_pcr() -> None:
    a, options = golden("pcr_loss_a")
    stream, memory, proxies = (a[n].requires_grad_() for n in ("feat_stream", "feat_mem", "W"))
    rows = torch.cat([a["y_mem"], a["y_mem"], a["y_stream"], a["y_stream"]])
    scale = 1 / options["temperature"]
    logits = cosine_logits(torch.cat([memory, stream]), proxies, scale, eps=options["eps"])
    loss = proxy_contrast(logits, rows)
    torch.testing.assert_close(loss, a["loss"], rtol=1e-9, atol=1e-13)
    grads = torch.autograd.grad(loss, [stream, memory, proxies])
    for grad, name in zip(grads, ("grad_feat_stream", "grad_feat_mem", "grad_W"), strict=True):
        torch.testing.assert_close(grad, a[name], rtol=1e-9, atol=1e-13)
    answers = cosine_logits(a["x"], proxies, scale, eps=options["eps"])
    torch.testing.assert_close(answers, a["logits_x"], rtol=1e-9, atol=1e-13)


def test_proxy_contrast_is_a_sum_over_pictures() -> None:
    """Written out: one term in the denominator for each picture of the batch, not for each class."""
    logits = torch.randn(5, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    rows = torch.tensor([2, 0, 2, 2, 0])
    literal = 0.0
    for i in range(5):
        literal -= float(logits[i, rows[i]] - torch.stack([logits[i, rows[j]] for j in range(5)]).exp().sum().log()) / 5
    torch.testing.assert_close(float(proxy_contrast(logits, rows)), literal)


def run(name: str) -> tuple[dict[str, Any], dict[str, Any], nn.Linear]:
    arrays, options = golden(name)
    net = linear(arrays["w0_weight"], arrays["w0_bias"])
    return arrays, options, net


def sgd(net: nn.Linear, loss: Tensor, lr: float) -> None:
    net.zero_grad()
    loss.backward()
    torch.optim.SGD(net.parameters(), lr=lr).step()


def replayed(a: dict[str, Any], step: int, which: int) -> tuple[Tensor, Tensor, Tensor]:
    """Pictures, labels and stored logits of one recorded draw."""
    slots = a["draws"][step, which]
    slots = slots[slots >= 0]
    return tuple(a[f"buffer_{n}"][step - 1][slots] for n in ("examples", "labels", "logits"))  # type: ignore[return-value]


def test_golden_er_run() -> None:
    a, options, net = run("er_run")
    for step, (x, y) in enumerate(zip(a["X"], a["Y"], strict=True)):
        loss = functional.cross_entropy(net(x), y)
        slots = a["mem_indices"][step]
        slots = slots[slots >= 0]
        if len(slots):
            loss = loss + functional.cross_entropy(net(a["buffer_x"][step - 1][slots]), a["buffer_y"][step - 1][slots])
        sgd(net, loss, options["lr"])
        torch.testing.assert_close(net.weight.grad, a["grad_weight"][step], rtol=1e-9, atol=1e-13)
        torch.testing.assert_close(net.weight.data, a["weights"][step], rtol=1e-9, atol=1e-13)
        torch.testing.assert_close(net.bias.data, a["biases"][step], rtol=1e-9, atol=1e-13)


def test_golden_derpp_run() -> None:
    a, options, net = run("derpp_run")
    for step, (x, y) in enumerate(zip(a["X"], a["Y"], strict=True)):
        loss = functional.cross_entropy(net(x), y)
        if step:
            (x1, _, z1), (x2, y2, _) = replayed(a, step, 0), replayed(a, step, 1)
            loss = loss + options["alpha"] * logit_distance(net(x1), z1, torch.ones_like(z1, dtype=torch.bool))
            loss = loss + options["beta"] * functional.cross_entropy(net(x2), y2)
        torch.testing.assert_close(loss.double(), a["loss"][step], rtol=1e-5, atol=1e-6)
        sgd(net, loss, options["lr"])
        torch.testing.assert_close(net.weight.data, a["weights"][step], rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(net.bias.data, a["biases"][step], rtol=1e-5, atol=1e-6)


def test_golden_lode_run() -> None:
    """The first draw feeds the cross-entropy here, the second the distance; new classes include those to come."""
    a, options, net = run("lode_run")
    classes = torch.arange(options["classes"])
    for step, (x, y) in enumerate(zip(a["X"], a["Y"], strict=True)):
        task = step // 4
        old = classes < task * options["classes_per_task"]
        logits = net(x)
        if task == 0:
            loss = functional.cross_entropy(logits, y)
        else:
            loss = decoupled_loss(logits, y, old, ~old, ratio=options["rho"], task=task, intra_weight=options["C"])
        if step:
            (x1, y1, _), (x2, _, z2) = replayed(a, step, 0), replayed(a, step, 1)
            loss = loss + options["beta"] * functional.cross_entropy(net(x1), y1)
            loss = loss + options["alpha"] * logit_distance(net(x2), z2, torch.ones_like(z2, dtype=torch.bool))
        torch.testing.assert_close(loss.double(), a["loss"][step], rtol=1e-5, atol=1e-6)
        sgd(net, loss, options["lr"])
        torch.testing.assert_close(net.weight.data, a["weights"][step], rtol=1e-5, atol=1e-6)


def test_logit_distance_leaves_out_what_was_not_stored() -> None:
    logits = torch.tensor([[1.0, 2.0, 50.0], [0.0, 1.0, 3.0]], requires_grad=True)
    stored = torch.tensor([[0.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    known = torch.tensor([[True, True, False], [True, True, True]])
    loss = logit_distance(logits, stored, known)
    assert float(loss.detach()) == (1 + 4 + 0 + 1 + 4) / 5
    (grad,) = torch.autograd.grad(loss, logits)
    assert float(grad[0, 2]) == 0
    full = torch.ones_like(known)
    torch.testing.assert_close(logit_distance(logits, stored, full), functional.mse_loss(logits, stored))
    assert float(logit_distance(logits[:0], stored[:0], full[:0]).detach()) == 0


def test_asymmetric_loss_lets_new_pictures_alone_with_their_classes() -> None:
    g = torch.Generator().manual_seed(2)
    logits, replayed_logits = (torch.randn(3, 6, dtype=torch.float64, generator=g).requires_grad_() for _ in range(2))
    rows, old = torch.tensor([3, 4, 3]), torch.tensor([0, 1, 3])
    loss = asymmetric_cross_entropy(logits, rows, replayed_logits, old, seen=5)
    literal = functional.cross_entropy(logits[:, [3, 4]], rows - 3) + functional.cross_entropy(
        replayed_logits[:, :5], old
    )
    torch.testing.assert_close(loss, literal)
    a, b = torch.autograd.grad(loss, [logits, replayed_logits])
    assert not a[:, [0, 1, 2, 5]].any()
    assert b[:, :5].all()
    assert not b[:, 5].any()
    empty = asymmetric_cross_entropy(logits, rows, replayed_logits[:0], old[:0], seen=5)
    torch.testing.assert_close(empty, functional.cross_entropy(logits[:, [3, 4]], rows - 3))
