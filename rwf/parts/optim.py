"""One optimiser for the whole stream, its state kept by parameter name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

OptimizerKind = Literal["adam", "sgd"]


class NamedOptimizer:
    """torch's Adam (or SGD with momentum) over named parameters that may grow.

    Names outlive parameter objects: a head that gained rows is a new Parameter, whose moments are the old ones
    padded with zeros, which is what a preallocated head would hold for rows that never had a gradient.
    The same by-name state is what a checkpoint holds.
    """

    def __init__(self, kind: OptimizerKind, *, weight_decay: float = 0.0, momentum: float = 0.9) -> None:
        self.kind, self.weight_decay, self.momentum = kind, weight_decay, momentum
        self.parameters: dict[str, nn.Parameter] = {}
        self.rates: dict[str, float] = {}
        self.torch: torch.optim.Optimizer | None = None
        self.steps = 0

    def adopt(self, parameters: Mapping[str, nn.Parameter], rates: Mapping[str, float]) -> None:
        """Takes these parameters at these rates from now on; those known by name keep their state."""
        kept, steps = self.state()
        self.parameters, self.rates = dict(parameters), dict(rates)
        groups = [
            {"params": [p for n, p in self.parameters.items() if self.rates[n] == rate], "lr": rate}
            for rate in sorted(set(self.rates.values()))
        ]
        self.torch = self._make(groups) if groups else None
        self.restore(kept, steps)

    def _make(self, groups: list[dict]) -> torch.optim.Optimizer:
        if self.kind == "sgd":
            return torch.optim.SGD(groups, momentum=self.momentum, weight_decay=self.weight_decay)
        return torch.optim.Adam(groups, weight_decay=self.weight_decay, fused=True)

    def reset(self, names: Iterable[str] | None = None) -> None:
        """Forgets the moments of these parameters, or all (what codes do that make a new optimiser for each task)."""
        if self.torch is not None:
            for name in self.parameters if names is None else names:
                self.torch.state.pop(self.parameters[name], None)

    def step(self, clip: float = 0.0) -> None:
        """One update with the gradients there are, then no gradients; ``clip`` bounds their joint norm."""
        if self.torch is None:
            return
        if clip:
            nn.utils.clip_grad_norm_(list(self.parameters.values()), clip)
        self.torch.step()
        self.steps += 1
        self.torch.zero_grad(set_to_none=True)

    def state(self) -> tuple[dict[str, Tensor], int]:
        if self.torch is None:
            return {}, self.steps
        tensors = {
            f"{name}|{key}": value
            for name, parameter in self.parameters.items()
            for key, value in self.torch.state.get(parameter, {}).items()
            if isinstance(value, Tensor)
        }
        return tensors, self.steps

    def restore(self, tensors: Mapping[str, Tensor], steps: int) -> None:
        """Puts moments back; a parameter that has grown since gets zeros for its new rows."""
        self.steps = steps
        if self.torch is None:
            return
        self.reset()
        for full, value in tensors.items():
            name, _, key = full.rpartition("|")
            parameter = self.parameters.get(name)
            if parameter is None:
                continue
            if value.dim():
                short = parameter.shape[0] - value.shape[0]
                value = functional.pad(value, [0, 0] * (value.dim() - 1) + [0, short]).to(parameter)
            self.torch.state[parameter][key] = value.clone()
