"""What `rwf tune` can be told; apart from the rest, so that the command line needs no torch."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from rwf.errors import UserError

Points = dict[str, tuple[Any, ...]]
"""The values to try of each option."""


@dataclass(frozen=True, kw_only=True)
class TuneOptions:
    """How the search goes; every method gets the same by default."""

    lr: tuple[float, ...] = ()
    """Learning rates to try; --trials rates from --low to --high if not given."""
    search: tuple[str, ...] = ()
    """Other options to try values of, each as NAME=VALUE,VALUE; then only the rates of --lr."""
    trials: int | None = None
    """How many settings are tried; 6 if not given, or the whole grid of --lr and --search."""
    low: float = 1e-5
    """The lowest rate."""
    high: float = 1e-2
    """The highest rate."""
    sampler: Literal["grid", "tpe", "random"] = "grid"
    """All of a grid; or Optuna's choice after what came out so far; or any."""
    seeds: int = 1
    """Runs of each setting, under this many seeds from --seed on."""
    tune_on: Literal["first-three", "all"] = "first-three"
    """Training pictures of the first three tasks; or of all tasks, which looks ahead and is marked."""
    budget: float | None = None
    """Pictures, in millions, that may go through the backbone in all trials; a method with dear steps tries fewer."""
    jobs: int = 1
    """Runs at the same time."""
    storage: str | None = None
    """URL of a database for the study; a file in the folder if not given."""

    def __post_init__(self) -> None:
        for name, value in (("trials", self.trials), ("seeds", self.seeds), ("jobs", self.jobs)):
            if value is not None and value < 1:
                raise UserError(f"--{name} is {value}: give 1 or more.")
        if not 0 < self.low < self.high < math.inf:
            raise UserError(f"rates from {self.low:g} to {self.high:g} cannot be had: give 0 < --low < --high.")
        if self.budget is not None and not 0 < self.budget < math.inf:
            raise UserError(f"--budget is {self.budget:g} million pictures: give a number above 0.")
        for rate in self.lr:
            if not 0 <= rate < math.inf:
                raise UserError(f"--lr has {rate}: a rate is a finite number that is not negative.")


def rates(count: int, low: float, high: float) -> tuple[float, ...]:
    """So many rates with one ratio between neighbours, to three digits."""
    if count == 1:
        return (float(f"{math.sqrt(low * high):.3g}"),)
    return tuple(float(f"{low * (high / low) ** (i / (count - 1)):.3g}") for i in range(count))


def searched(specs: Sequence[str], method: type) -> Points:
    """What ``--search`` names, each value of the type that the method's option has."""
    hints = get_type_hints(method)
    known = [own.name for own in fields(method) if own.init]
    out: Points = {}
    for spec in specs:
        name, sign, values = spec.partition("=")
        name = name.strip().removeprefix("--").replace("-", "_")
        if not sign or not values:
            raise UserError(f"--search {spec!r} names no values: write NAME=VALUE,VALUE.")
        if name not in known:
            raise UserError(f"--search {spec!r}: this method has no option {name!r}; it has {', '.join(known)}.")
        if name in out:
            raise UserError(f"--search names {name} twice: put all its values into one.")
        out[name] = tuple(dict.fromkeys(_value(name, text.strip(), hints[name]) for text in values.split(",")))
    return out


def _value(name: str, text: str, hint: Any) -> Any:
    """The text as the first type of the hint that it is a value of."""
    kinds = [hint] if get_origin(hint) is Literal else list(get_args(hint)) or [hint]
    for kind in kinds:
        words: Mapping[str, Any] = {}
        if get_origin(kind) is Literal:
            words = {str(choice): choice for choice in get_args(kind)}
        elif kind is NoneType:
            words = {"none": None, "None": None}
        elif kind is bool:
            words = {"true": True, "True": True, "false": False, "False": False}
        elif kind is str:
            return text
        elif kind in (int, float):
            try:
                return kind(text)
            except ValueError:
                continue
        if text in words:
            return words[text]
    raise UserError(f"--search: {text!r} is no value of {name}.")
