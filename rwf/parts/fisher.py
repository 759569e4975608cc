"""EWC++: a running diagonal Fisher, kept by parameter name, and the pull towards reference weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from rwf.errors import UserError
from rwf.parts.saved import below, part_of
from rwf.parts.shadow import follow

TINY = 1e-32


class RunningFisher:
    """Squared gradients of batch means, averaged over ``every`` steps, then with weight ``alpha`` into the Fisher.

    Steps are counted through the whole stream. ``official`` is the published counter: it starts anew with each task
    and the update comes before the step that completes the count, so the first holds ``every - 1`` gradients divided
    by ``every``, and a task of fewer steps than that never updates the Fisher.
    """

    def __init__(self, *, alpha: float = 0.9, every: int = 50, official: bool = False) -> None:
        if every < 1:
            raise UserError(f"the Fisher cannot be updated every {every} steps; give 1 or more.")
        if not 0 < alpha <= 1:
            raise UserError(f"the weight of a Fisher update is {alpha}; give a number above 0 and at most 1.")
        self.alpha, self.every, self.official = alpha, every, official
        self.squares: dict[str, Tensor] = {}
        """Sum of squared gradients since the last update."""
        self.running: dict[str, Tensor] = {}
        self.importance: dict[str, Tensor] = {}
        """The Fisher as it was at the last ``consolidate``, scaled to 0..1 over all weights."""
        self.reference: dict[str, Tensor] = {}
        """The weights at the last ``consolidate``."""
        self.count = 0

    @torch.no_grad()
    def add_penalty(self, parameters: Mapping[str, nn.Parameter], strength: float) -> Tensor:
        """Adds to the gradients those of strength * sum of importance * (w - reference)^2; gives its value.

        Not a term of the loss: autograd would keep several copies of all weights for it.
        """
        held = {n: p for n, p in parameters.items() if p.grad is not None and n in self.reference}
        if not held:
            return torch.zeros(())
        weights: list[Tensor] = list(held.values())
        grads = [p.grad for p in held.values() if p.grad is not None]
        importance = follow(self.importance, held, "zeros")
        difference = torch._foreach_sub(weights, follow(self.reference, held, "copy"))
        torch._foreach_addcmul_(grads, difference, importance, value=2 * strength)
        torch._foreach_mul_(difference, difference)
        parts = [torch.dot(d.flatten(), f.flatten()) for d, f in zip(difference, importance, strict=True)]
        return strength * torch.stack(parts).sum()

    @torch.no_grad()
    def accumulate(self, parameters: Mapping[str, nn.Parameter]) -> None:
        """After a backward pass (penalty included): takes in the gradients there are. Call it once a step."""
        held = {n: p for n, p in parameters.items() if p.grad is not None}
        if self.official and (self.count + 1) % self.every == 0:
            self._update(parameters)
        grads = [p.grad for p in held.values() if p.grad is not None]
        if grads:
            torch._foreach_addcmul_(follow(self.squares, held, "zeros"), grads, grads)
        self.count += 1
        if not self.official and self.count == self.every:
            self._update(parameters)
            self.count = 0

    def _update(self, parameters: Mapping[str, nn.Parameter]) -> None:
        running, squares = follow(self.running, parameters, "zeros"), follow(self.squares, parameters, "zeros")
        torch._foreach_mul_(running, 1 - self.alpha)
        torch._foreach_add_(running, squares, alpha=self.alpha / self.every)
        torch._foreach_zero_(squares)

    @torch.no_grad()
    def consolidate(self, parameters: Mapping[str, nn.Parameter]) -> None:
        """A task has ended: its weights become the reference, the Fisher of now their importance."""
        self.reference = {name: p.detach().clone() for name, p in parameters.items()}
        running = [f for f in follow(self.running, parameters, "zeros") if f.numel()]
        if running:
            low = torch.stack([f.min() for f in running]).min()
            high = torch.stack([f.max() for f in running]).max()
            self.importance = {n: (self.running[n] - low) / (high - low + TINY) for n in parameters}
        if self.official:
            self.count = 0

    @torch.no_grad()
    def begin_rows(self, name: str, parameter: nn.Parameter, rows: Tensor) -> None:
        """These rows of a parameter have just got their first value; what stood there before did not matter."""
        for kept in (self.squares, self.running, self.importance):
            if name in kept:
                follow(kept, {name: parameter}, "zeros")[0][rows] = 0.0
        if name in self.reference:
            follow(self.reference, {name: parameter}, "copy")[0][rows] = parameter[rows]

    def state(self) -> tuple[dict[str, Tensor], Any]:
        kept = {"squares": self.squares, "running": self.running}
        kept |= {"importance": self.importance, "reference": self.reference}
        return {k: v for name, tensors in kept.items() for k, v in below(name, tensors).items()}, {"count": self.count}

    def restore(self, tensors: Mapping[str, Tensor], extra: Any) -> None:
        tensors = {name: tensor.clone() for name, tensor in tensors.items()}
        self.squares, self.running = part_of(tensors, "squares"), part_of(tensors, "running")
        self.importance, self.reference = part_of(tensors, "importance"), part_of(tensors, "reference")
        self.count = extra["count"]
