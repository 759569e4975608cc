"""A cell of a table, as the runs that fill it; and what experiments are given to make cells of."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any

from rwf.errors import UserError
from rwf.experiments.asked import Asked
from rwf.files import read_json
from rwf.options import RunOptions
from rwf.registry import METHODS, resolve_method
from rwf.vit.forward import ViT
from rwf.vit.weights import load_backbone

EMBEDDED = {"split-renditions": "vit_nano_patch8_64.renditions", "split-digits": "vit_nano_patch8_64.renditions"}
"""The backbone that belongs to a benchmark that comes with the package."""
RUN_NAMES = frozenset(own.name for own in fields(RunOptions))
TUNED = "tuned"
"""The option of a run that puts the search for its settings beside its result, where runs have it."""


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One run of one cell: what is run, and the labels of the row and column it fills."""

    method: str
    options: Mapping[str, Any]
    run: RunOptions
    labels: Mapping[str, Any] = field(default_factory=dict)
    watch: str = ""
    """Which observer looks at the run (a name of ``rwf.run.work.WATCHERS``)."""

    @property
    def title(self) -> str:
        """As a person reads it."""
        parts = [f"{name} {value}" for name, value in self.labels.items() if name != "method"]
        return ", ".join([self.method.rpartition(":")[2], *parts, f"seed {self.run.seed}"])


class Ask:
    """What was asked, and how an experiment turns it into cells."""

    def __init__(self, asked: Asked) -> None:
        self.asked = asked
        if not asked.seeds:
            raise UserError("--seeds names none: give one number or more.")
        for name in ("jobs", "threads"):
            value = getattr(asked, name)
            if value is not None and value < 1:
                raise UserError(f"--{name} is {value}: give 1 or more, or leave it out.")
        if asked.gpus < 0 or (asked.gpus and not asked.ray):
            raise UserError(f"--gpus {asked.gpus:g} is for Ray to share out: give --ray too, and a number above 0.")
        self.settings = settings_of(asked.settings)
        self.backbone = asked.backbone or EMBEDDED.get(asked.benchmark, RunOptions.backbone)

    @cached_property
    def vit(self) -> ViT:
        """A ViT of the asked shape; its numbers may be drawn ones."""
        return load_backbone(self.backbone, pretrained=False, image_size=self.asked.image_size)

    def methods(self, default: Sequence[str], *needed: str) -> list[str]:
        """The asked methods, or the experiment's own; each must have the options that the experiment sets."""
        chosen = list(self.asked.methods or default)
        for method in chosen:
            missing = [name for name in needed if name not in _options(method)]
            if missing:
                raise UserError(
                    f"this experiment sets {missing[0]}, which {method} has not: leave {method} out of --methods."
                )
        return chosen

    def cells(
        self,
        method: str,
        labels: Mapping[str, Any],
        own: Mapping[str, Any] | None = None,
        *,
        like: str = "",
        run: Mapping[str, Any] | None = None,
        watch: str = "",
    ) -> Iterator[Cell]:
        """A method under these labels, for each learning rate and seed.

        ``own`` and ``run`` are what the experiment sets and win over everything; ``like`` names a method whose
        settings hold here too, as far as this one has such options (a control differs in one thing only).
        """
        settled = self.settled(like or method)
        options = {name: value for name, value in settled.items() if name in _options(method)}
        changes = {name: value for name, value in settled.items() if name in RUN_NAMES}
        if like not in ("", method):
            changes.pop(TUNED, None)  # the search was another method's
        rate = _rate(method)
        for lr in (self.asked.lr if rate else ()) or (None,):
            rates = {} if lr is None or rate is None else {rate: lr}
            shown = {"method": method, **labels} | ({"lr": lr} if rates else {})
            for seed in self.asked.seeds:
                yield Cell(
                    method=method,
                    options=options | rates | dict(own or {}),
                    run=self.run_options(seed, changes | dict(run or {})),
                    labels=shown,
                    watch=watch,
                )

    def settled(self, method: str) -> dict[str, Any]:
        """What protocol and settings file say of a method, options of the run among them."""
        paper = getattr(resolve_method(method), "paper_options", {}) if self.asked.protocol == "paper" else {}
        return dict(paper) | self.settings.get(method, {})

    def run_options(self, seed: int, changes: Mapping[str, Any]) -> RunOptions:
        """The run's options; what was asked by name wins over the protocol, the experiment over both."""
        asked = self.asked
        values: dict[str, Any] = {"normalize": "weights"} | {
            name: value for name, value in changes.items() if name in RUN_NAMES
        }
        if asked.normalize is not None:
            values["normalize"] = asked.normalize
        same = RUN_NAMES & {own.name for own in fields(Asked)} - {"out", "backbone", "normalize"}
        given = {name: getattr(asked, name) for name in same}
        jobs = asked.jobs or 1
        given["threads"] = asked.threads or (1 if asked.ray else max(1, processors() // jobs))
        return RunOptions(**(given | {"backbone": self.backbone, "seed": seed} | values))


def processors() -> int:
    """How many this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _options(method: str) -> set[str]:
    return {own.name for own in fields(resolve_method(method)) if own.init}


def _rate(method: str) -> str | None:
    """The option that a learning rate is given to: the head's where nothing else is trained."""
    names = _options(method)
    only_head = method in METHODS and METHODS[method].trainable_percent == 0
    return next((name for name in (("head_lr", "lr") if only_head else ("lr",)) if name in names), None)


def settings_of(paths: Sequence[Path]) -> dict[str, dict[str, Any]]:
    """Options by method: what a search chose (a run then carries the search), or what a file says."""
    found: dict[str, dict[str, Any]] = {}
    for path in paths:
        content = read_json(path / "tune.json" if path.is_dir() else path)
        if path.is_dir() and isinstance(content, dict) and content.get("chosen"):
            content = {content["method"]: content["chosen"] | ({TUNED: str(path)} if TUNED in RUN_NAMES else {})}
        if not isinstance(content, dict) or not all(isinstance(value, dict) for value in content.values()):
            raise UserError(f"{path} is not a table of options by method: write " + '{"rwf": {"lr": 0.002}}.')
        for method, options in content.items():
            wrong = sorted(options.keys() - _options(method) - RUN_NAMES)
            if wrong:
                raise UserError(f"{path} sets {wrong[0]} for {method}, which it has not: `rwf run {method} --help`.")
            found[method] = found.get(method, {}) | options
    return found
