"""What `--precision bf16` changes: the same runs in both formats, compared picture by picture over seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import mean, stdev
from typing import Any, Literal

import numpy as np

from rwf.errors import UserError
from rwf.files import read_json
from rwf.metrics import NOT_EVALUATED
from rwf.options import RunOptions
from rwf.parts.saved import CONFIG, STATE, part_of, read_state
from rwf.run.build import LearnerConfig
from rwf.run.evaluate import TEST_BATCH, guess
from rwf.run.result import PREDICTIONS
from rwf.run.start import resume, start
from rwf.run.world import World
from rwf.student import t_quantile

Precision = Literal["fp32", "bf16"]


@dataclass(frozen=True)
class Pair:
    """One seed's two runs. Percent of the test pictures; the difference in points, bf16 minus fp32."""

    seed: int
    agreement: float
    """The run in bf16 gives at its end the guess of the run in fp32."""
    agreement_asked: float
    """What was learned in fp32 gives the same guess when it is asked in bf16."""
    fp32: float
    bf16: float
    fp32_seconds: float
    bf16_seconds: float

    @property
    def difference(self) -> float:
        return self.bf16 - self.fp32


def compare(method: str, options: RunOptions, seeds: Sequence[int], out: Path) -> list[Pair]:
    """Both runs of each seed, in folders below ``out``; what is there and finished is not run again."""
    return [_pair(method, replace(options, seed=seed), out) for seed in seeds]


def _pair(method: str, options: RunOptions, out: Path) -> Pair:
    folders = {name: out / f"s{options.seed}-{name}" for name in ("fp32", "bf16")}
    full = _run(method, replace(options, precision="fp32", out=folders["fp32"]))
    half = _run(method, replace(options, precision="bf16", out=folders["bf16"]))
    said = _last_guesses(folders["fp32"])
    return Pair(
        seed=options.seed,
        agreement=agreement(said, _last_guesses(folders["bf16"])),
        agreement_asked=agreement(said, _asked(folders["fp32"], "bf16")),
        fp32=full["final_accuracy"],
        bf16=half["final_accuracy"],
        fp32_seconds=full["timing"]["learn_seconds"],
        bf16_seconds=half["timing"]["learn_seconds"],
    )


def _run(method: str, options: RunOptions) -> dict[str, Any]:
    """The run in its folder: begun, gone on with, or read if it is finished."""
    assert options.out is not None
    if not (options.out / CONFIG).exists():
        return start(method, {}, options)
    there = read_json(options.out / CONFIG)
    if there.get("run") != options.as_json() or there["learner"]["method"] != method:
        raise UserError(f"{options.out} holds a run with other options: choose another folder with --out.")
    return resume(options.out)


def _last_guesses(folder: Path) -> np.ndarray:
    with np.load(folder / PREDICTIONS, allow_pickle=False) as arrays:
        last: np.ndarray = arrays["evaluations"][-1]
    return last


def _asked(folder: Path, precision: Precision) -> np.ndarray:
    """Guesses of what a finished run has learned, asked in this format."""
    content = read_json(folder / CONFIG)
    config = replace(LearnerConfig.from_json(content["learner"]), precision=precision)
    world = World(config, RunOptions.from_json(content["run"]))
    tensors, extra = read_state(folder / STATE)
    world.learner.restore(part_of(tensors, "learner"), extra["learner"])
    met = [str(label) for label in world.learner.classes]
    return guess(world.learner, world.catalog, world.stream.test_batches(met, TEST_BATCH))


def agreement(a: np.ndarray, b: np.ndarray) -> float:
    """Percent of the pictures asked in both that have the same guess."""
    both = (a != NOT_EVALUATED) & (b != NOT_EVALUATED)
    return 100.0 * float(np.mean(a[both] == b[both]))


def interval(differences: Sequence[float]) -> tuple[float, float] | None:
    """The 95 % interval of the mean difference, by Student's t over seeds; None for one seed."""
    if len(differences) < 2:
        return None
    half = t_quantile(0.975, len(differences) - 1) * stdev(differences) / len(differences) ** 0.5
    return mean(differences) - half, mean(differences) + half


def as_json(pairs: Sequence[Pair]) -> dict[str, Any]:
    """All figures."""
    return {
        "seeds": [asdict(pair) | {"difference": pair.difference} for pair in pairs],
        "agreement": mean(pair.agreement for pair in pairs),
        "agreement_asked": mean(pair.agreement_asked for pair in pairs),
        "difference": mean(pair.difference for pair in pairs),
        "difference_interval": interval([pair.difference for pair in pairs]),
        "time_ratio": sum(pair.bf16_seconds for pair in pairs) / sum(pair.fp32_seconds for pair in pairs),
    }


def markdown(pairs: Sequence[Pair]) -> str:
    """The figures for a person and for docs/performance.md."""
    titles = ["seed", "fp32 %", "bf16 %", "difference", "same guess %", "same guess, asked only %"]
    lines = [" | ".join(titles), " | ".join(["---:"] * len(titles))]
    for p in pairs:
        figures = (p.fp32, p.bf16, p.difference, p.agreement, p.agreement_asked)
        lines.append(" | ".join([str(p.seed), *(f"{value:.2f}" for value in figures)]))
    return "\n".join(f"| {line} |" for line in lines) + "\n\n" + sentence(pairs)


def sentence(pairs: Sequence[Pair]) -> str:
    """The outcome."""
    found = as_json(pairs)
    bounds = found["difference_interval"]
    width = "one seed, so no interval" if bounds is None else f"95 % interval {bounds[0]:+.2f} to {bounds[1]:+.2f}"
    return (
        f"bf16 minus fp32: {found['difference']:+.2f} points ({width}); the same guess for {found['agreement']:.2f} % "
        f"of the test pictures, and for {found['agreement_asked']:.2f} % where what was learned in fp32 is only asked "
        f"in bf16; learning took {found['time_ratio']:.2f} of the time."
    )
