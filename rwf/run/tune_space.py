"""The settings that a search tries: points of a grid from the middle outwards, or what Optuna's samplers propose."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

import optuna

from rwf.errors import UserError
from rwf.run.tune_options import Points, TuneOptions, rates
from rwf.seeds import hash32

DEFAULT_TRIALS = 6
WIDE = 1e9
"""No bound: numbers of a grid are told to Optuna, not drawn."""


@dataclass(frozen=True)
class Space:
    """``values`` to try of each option; with ``between`` the rate of that name is drawn between two bounds."""

    values: Points
    trials: int
    sampler: str
    between: tuple[str, float, float] | None = None

    @property
    def names(self) -> list[str]:
        return sorted([*self.values, *(self.between[:1] if self.between else ())])

    def grid(self) -> list[dict[str, Any]]:
        """All settings, those in the middle of every range first: what a small budget should see."""
        places = product(*(range(len(values)) for values in self.values.values()))
        middle = [(len(values) - 1) / 2 for values in self.values.values()]
        near = sorted(places, key=lambda at: (sum(abs(a - m) for a, m in zip(at, middle, strict=True)), at))
        return [{name: self.values[name][i] for name, i in zip(self.values, at, strict=True)} for at in near]

    def distribution(self, name: str) -> optuna.distributions.BaseDistribution:
        """What Optuna is told of an option: a number of a grid has no bounds, so that a grid can be extended."""
        if self.between and name == self.between[0]:
            return optuna.distributions.FloatDistribution(*self.between[1:], log=True)
        if self.sampler == "grid" and self.is_number(name):
            return optuna.distributions.FloatDistribution(-WIDE, WIDE)
        return optuna.distributions.CategoricalDistribution(self.values[name])

    def is_number(self, name: str) -> bool:
        return all(isinstance(value, float) for value in self.values.get(name, (0.0,)))

    def sampler_after(self, done: int, seed: int) -> optuna.samplers.BaseSampler:
        """Seeded by how many trials are done, so that a search that was broken off goes on as it would have."""
        draw = hash32(seed, self.sampler, done)
        if self.sampler == "tpe":
            return optuna.samplers.TPESampler(seed=draw, n_startup_trials=min(5, max(1, self.trials // 2)))
        return optuna.samplers.RandomSampler(seed=draw)


def make_space(options: TuneOptions, rate: str | None, others: Mapping[str, tuple[Any, ...]], method: str) -> Space:
    """What is tried: the rates, where nothing else is searched or rates are given, times the values of the others."""
    values: Points = dict(others)
    given = tuple(sorted(set(options.lr)))
    if given and rate is not None and rate in values:
        raise UserError(f"--search {rate} and --lr are the same option of {method}: give one of them.")
    if given and rate is not None:
        values = {rate: given, **values}
    if not values and rate is None:
        raise UserError(
            f"{method} learns in closed form, without a learning rate, so there is nothing to tune: run it as it is, "
            "or name other options with --search NAME=VALUE,VALUE."
        )
    between = None
    if not values and rate is not None:
        if options.sampler == "grid":
            values = {rate: rates(options.trials or DEFAULT_TRIALS, options.low, options.high)}
        else:
            between = (rate, options.low, options.high)
    space = Space(values, options.trials or DEFAULT_TRIALS, options.sampler, between)
    if options.sampler != "grid":
        return space
    size = len(space.grid())
    if options.trials is not None and size != options.trials:
        raise UserError(f"the grid has {size} settings, not the {options.trials} of --trials: leave --trials out.")
    return Space(values, size, "grid")
