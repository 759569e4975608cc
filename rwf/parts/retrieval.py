"""What to replay, and how replay bends a step: MIR's interference scores, A-GEM's projection."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.func import functional_call

from rwf.parts.masks import masked_cross_entropy
from rwf.parts.optim import NamedOptimizer


class _Call(nn.Module):
    """Makes any function of a module callable under replaced weights."""

    def __init__(self, module: nn.Module, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.module, self.function = module, function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


def call_with(
    module: nn.Module, weights: Mapping[str, Tensor], function: Callable[[Tensor], Tensor], x: Tensor
) -> Tensor:
    """``function(x)``, a function of this module, as it would be with these weights (by name) in their places."""
    return functional_call(_Call(module, function), {f"module.{name}": w for name, w in weights.items()}, (x,))


def clipping(parameters: Iterable[nn.Parameter], clip: float) -> float:
    """What a bound of the joint norm would multiply the gradients there are by; 0 is no bound."""
    gradients = [p.grad for p in parameters if p.grad is not None]
    return min(1.0, clip / (float(nn.utils.get_total_norm(gradients)) + 1e-6)) if clip else 1.0


@torch.no_grad()
def sgd_step(
    parameters: Mapping[str, nn.Parameter], lr: float | Mapping[str, float], clip: float = 0.0
) -> dict[str, Tensor]:
    """The weights after a plain step along the gradients there are, at one rate or one for each name."""
    rates = lr if isinstance(lr, Mapping) else dict.fromkeys(parameters, lr)
    factor = clipping(parameters.values(), clip)
    return {name: p - rates[name] * factor * p.grad for name, p in parameters.items() if p.grad is not None}


@torch.no_grad()
def adam_step(optimizer: NamedOptimizer, clip: float = 0.0) -> dict[str, Tensor]:
    """The weights after a step preconditioned as this Adam would (without its momentum); nothing is changed.

    At the rates at which ViTs are fine-tuned a plain step moves nothing, and differences of losses before and after
    it are rounding errors; this is the step that the stream batch is about to cause. Its gradient is clipped as
    those are whose squares Adam holds, or the two would not be of one size.
    """
    assert optimizer.torch is not None
    factor = clipping(optimizer.parameters.values(), clip)
    group = optimizer.torch.param_groups[0]
    out = {}
    for name, p in optimizer.parameters.items():
        if p.grad is None:
            continue
        kept = optimizer.torch.state.get(p, {})
        count = float(kept["step"]) + 1 if kept else 1.0
        squares = kept["exp_avg_sq"] if kept else torch.zeros_like(p)
        beta, gradient = group["betas"][1], p.grad * factor
        scale = squares.lerp(gradient.square(), 1 - beta).div_(1 - beta**count).sqrt_().add_(group["eps"])
        out[name] = p - optimizer.rates[name] * gradient / scale
    return out


@torch.no_grad()
def interference(
    module: nn.Module,
    function: Callable[[Tensor], Tensor],
    weights: Mapping[str, Tensor],
    x: Tensor,
    rows: Tensor,
    *,
    allowed: Tensor | None = None,
    chunk: int = 64,
) -> Tensor:
    """How much each picture's loss rises when these weights take their places, in full precision.  # B

    ``function`` gives the module's scores of network input. The module is not copied.
    """
    scores = []
    with torch.autocast(x.device.type, enabled=False):
        for part, labels in zip(x.split(chunk), rows.split(chunk), strict=True):
            before = masked_cross_entropy(function(part), labels, allowed, "none")
            after = masked_cross_entropy(call_with(module, weights, function, part), labels, allowed, "none")
            scores.append(after - before)
    return torch.cat(scores)


def highest(scores: Tensor, n: int) -> list[int]:
    """Positions of the n highest scores, highest first; of equal ones the earlier."""
    order: list[int] = scores.argsort(descending=True, stable=True)[:n].tolist()
    return order


@torch.no_grad()
def project_gradients(parameters: Sequence[nn.Parameter], reference: Sequence[Tensor | None]) -> bool:
    """A-GEM: takes out of ``.grad`` what would raise the reference loss to first order; True if there was anything."""
    pairs = [(p.grad, r) for p, r in zip(parameters, reference, strict=True) if p.grad is not None and r is not None]
    if not pairs:
        return False
    grads, others = [g for g, _ in pairs], [r for _, r in pairs]
    along = torch.stack([torch.dot(g.flatten(), r.flatten()) for g, r in pairs]).sum()
    length = torch.stack([torch.dot(r.flatten(), r.flatten()) for r in others]).sum()
    if not bool(along < 0):  # also where the reference gradient is zero
        return False
    torch._foreach_add_(grads, others, alpha=-float(along / length))
    return True
