"""An average of the weights over time, which answers while the weights themselves go on learning."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from rwf.errors import UserError
from rwf.parts.shadow import follow


class WeightAverage:
    """Exponential moving average by name: rate ``start`` up to and including iteration ``warmup``, then ``end``.

    An iteration is an optimiser step, counted from 0. Buffers may be averaged as weights are.
    """

    def __init__(self, *, warmup: int, start: float = 0.9, end: float = 0.99) -> None:
        for rate in (start, end):
            if not 0 <= rate < 1:
                raise UserError(f"the rate of a weight average is {rate}; give a number from 0 to below 1.")
        self.warmup, self.start, self.end = warmup, start, end
        self.weights: dict[str, Tensor] = {}
        self.iterations = 0

    @property
    def rate(self) -> float:
        """How much of the average stays at the next update."""
        return self.start if self.iterations <= self.warmup else self.end

    def begin(self, parameters: Mapping[str, Tensor]) -> None:
        """Before a step: what is not averaged yet (at first all, later new rows of a head) starts as it is now."""
        follow(self.weights, parameters, "copy")

    @torch.no_grad()
    def update(self, parameters: Mapping[str, Tensor]) -> None:
        """After each optimiser step."""
        average = follow(self.weights, parameters, "copy")
        torch._foreach_lerp_(average, [p.detach() for p in parameters.values()], 1 - self.rate)
        self.iterations += 1

    @contextmanager
    def applied(self, parameters: Mapping[str, Tensor]) -> Iterator[None]:
        """Within it the parameters hold the average. Storage is exchanged, nothing is copied or rounded."""
        average = dict(zip(parameters, follow(self.weights, parameters, "copy"), strict=True))
        _exchange(parameters, average)
        try:
            yield
        finally:
            _exchange(parameters, average)

    def state(self) -> tuple[dict[str, Tensor], Any]:
        return dict(self.weights), {"iterations": self.iterations}

    def restore(self, tensors: Mapping[str, Tensor], extra: Any) -> None:
        self.weights = {name: tensor.clone() for name, tensor in tensors.items()}
        self.iterations = extra["iterations"]


def _exchange(parameters: Mapping[str, Tensor], average: Mapping[str, Tensor]) -> None:
    for name, parameter in parameters.items():
        parameter.data, average[name].data = average[name].data, parameter.data
