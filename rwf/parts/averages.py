"""An average of the weights over time, which answers while the weights themselves go on learning."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from rwf.data.batch import Batch
from rwf.errors import UserError
from rwf.parts.learner import Learner
from rwf.parts.shadow import follow

if TYPE_CHECKING:
    from rwf.parts.gradient import GradientLearner as Base
else:  # a dataclass repeats the defaults of its base, and would undo what the method it goes before has made of them
    Base = Learner


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


@dataclass(kw_only=True, eq=False, repr=False)
class Averaged(Base):
    """Written before any gradient method (``class Mine(Averaged, DERpp)``): an average of its weights answers.

    What is learned stays as it was, bit for bit; training never reads the average.
    """

    average_start: float = 0.9
    """Rate of the average during its warm-up."""
    average_end: float = 0.99
    """Rate of the average afterwards."""
    average_warmup: int = 79
    """Batches of the stream until the rate changes (about a task's)."""

    answers_while_learning = False  # what is known before a step is the training weights' answer

    def _check_numbers(self) -> None:
        super()._check_numbers()
        if self.average_warmup < 0:
            raise UserError(f"average_warmup is {self.average_warmup}; give a number of batches, 0 or more.")

    def setup(self) -> None:
        super().setup()
        warmup = self.average_warmup * self.steps_each_batch
        self.average = WeightAverage(warmup=warmup, start=self.average_start, end=self.average_end)

    @property
    def steps_each_batch(self) -> int:
        """Steps of the optimiser for each batch of the stream."""
        return 1

    def adopt(self) -> None:
        super().adopt()
        self.average.begin(self.trained())

    def backward(self, batch: Batch, rows: Tensor) -> Tensor:
        """Rows of the head that get their beginning in this step begin there in the average too."""
        assert self.classifier is not None
        begun = self.classifier.begun.clone()
        value = super().backward(batch, rows)
        fresh = self.classifier.begun & ~begun
        if bool(fresh.any()):
            self.average.begin(self.trained())
            self.average.weights["classifier.weight"][fresh] = self.classifier.weight.data[fresh]
        return value

    def step(self) -> None:
        super().step()
        self.average.update(self.trained())

    def answer(self, x: Tensor) -> Tensor:
        with self.average.applied(self.trained()):
            return super().answer(x)
