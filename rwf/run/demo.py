"""`rwf demo`: a few methods learn one stream one after another, each a run like any other, with routing maps."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console

from rwf.data.batch import Batch
from rwf.errors import UserError
from rwf.files import read_json, write_json
from rwf.metrics import NOT_EVALUATED
from rwf.options import RunOptions
from rwf.parts.learner import Learner
from rwf.parts.saved import CONFIG
from rwf.registry import METHODS
from rwf.run.build import load, make_method
from rwf.run.cost import Still
from rwf.run.demo_options import SETTINGS, DemoOptions
from rwf.run.fingerprint import fingerprint
from rwf.run.maps import RoutingMaps
from rwf.run.result import PREDICTIONS, RESULT
from rwf.run.start import MUST_AGREE, learner_config, resume, start
from rwf.run.world import World
from rwf.vit.flops import count

BATCH_SIZE = 16
COST = "cost.json"


def learn_all(options: DemoOptions) -> list[Path]:
    """Runs what has not been run yet, goes on with what was broken off; the folders, one a method."""
    methods = {spec: SETTINGS.get(spec, {}) for spec in options.methods}
    if not methods:
        raise UserError("--methods names none: leave it out, or choose among `rwf list methods`.")
    for spec, own in methods.items():
        make_method(spec, own)  # a wrong name is said before anything is learned
    run = RunOptions(
        benchmark=options.benchmark,
        backbone=options.backbone,
        seed=options.seed,
        tasks=options.tasks,
        train_fraction=options.train_fraction,
        batch_size=BATCH_SIZE,
        threads=options.threads,
        anytime=0,
        feature_cache="off",  # each method is shown with what it costs by itself
    )
    first, own = next(iter(methods.items()))
    environment = World(learner_config(first, own, run), run).environment()
    known = {key: environment[key] for key in MUST_AGREE}
    console, folders = Console(file=sys.stderr), []
    for number, (spec, own) in enumerate(methods.items(), 1):
        label = spec.rpartition(":")[2]
        folder = options.out / f"{label}-{fingerprint(spec, own, run, known)}"
        title = METHODS[spec].title if spec in METHODS else spec
        console.print(f"[bold]{label}[/bold] ({number} of {len(methods)}): {title}", highlight=False, soft_wrap=True)
        learn(spec, own, replace(run, out=folder))
        if not (folder / COST).exists():
            write_json(folder / COST, counted(folder))
        folders.append(folder)
    return folders


def learn(spec: str, own: dict[str, Any], run: RunOptions) -> dict[str, Any]:
    """The result of one run: of a finished one at once, of another after what is still to be done."""
    assert run.out is not None
    maps = RoutingMaps(run.out)
    if (run.out / CONFIG).exists():
        return resume(run.out, observe=maps)
    return start(spec, own, run, observe=maps)


def counted(folder: Path) -> dict[str, float]:
    """Operations of a finished run, counted on its learner as it is now: one step of a batch, one answer of a batch.

    They stand for all steps and all answers, those asked for before learning included, but for what the frozen network
    had said before. Empty where there is work besides: before an evaluation, or in a second look.
    """
    learner = load(folder)
    if type(learner).prepare is not Learner.prepare or "second_look" in learner.needs:
        return {}
    learner.vit.attention = "explicit"  # fused kernels are counted by formulas of their own
    learner.viewer = Still(learner.vit.image_size)
    last = learner.classes[-BATCH_SIZE:]
    labels = [last[i % len(last)] for i in range(BATCH_SIZE)]
    picture = torch.zeros(3, 1, 1, dtype=torch.uint8)
    batch = Batch([picture] * BATCH_SIZE, labels, range(BATCH_SIZE), learner.viewer)
    learned = learner.picture_count
    answer = count(lambda: learner.predict(batch)) / BATCH_SIZE
    step = count(lambda: learner.learn(batch)) / BATCH_SIZE
    with np.load(folder / PREDICTIONS) as guesses:
        asked = sum(int((guesses[key] != NOT_EVALUATED).sum()) for key in ("evaluations", "anytime"))
    asked += 0 if learner.answers_while_learning else learned
    result = read_json(folder / RESULT)
    read = result["forwards"]["total"] - result["timing"]["forwards_computed"]
    frozen = count(lambda: learner.vit.features(batch.view(kind="test"))) / BATCH_SIZE if read else 0.0
    return {"step": step, "answer": answer, "tflop": (learned * step + asked * answer - read * frozen) / 1e12}
