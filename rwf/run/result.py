"""The end of a run: every figure of ``result.json`` from the record, and the guesses for any later figure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from rwf.files import read_json, replacing, write_json
from rwf.metrics import Curve, accuracy, accuracy_matrix, plain, summary
from rwf.parts.learner import Learner
from rwf.parts.saved import CONFIG
from rwf.run.forwards import computed, totals
from rwf.run.record import Record
from rwf.run.world import World

RESULT = "result.json"
PREDICTIONS = "predictions.npz"


def finish(world: World, folder: Path, record: Record) -> dict[str, Any]:
    """Writes predictions and result, and gives the result."""
    write_predictions(world, folder, record)
    result = make_result(world, record)
    write_json(folder / RESULT, result)
    return result


def make_result(world: World, record: Record) -> dict[str, Any]:
    """All keys of ``result.json``; formulas in docs/metrics.md."""
    learner, plan, progress = world.learner, world.plan, record.progress
    matrix = accuracy_matrix(plan.test_labels, plan.test_tasks, np.array(record.guesses), plan.tasks)
    accuracies = summary(matrix, curve=_curve(world, record), learned=plan.learned)
    accuracies["online_accuracy"] = 100.0 * progress.online_correct / progress.pictures
    certificate = world.stream.guard.certificate()
    return {
        "method": learner.recipe["method"],
        "benchmark": world.options.benchmark,
        "backbone": learner.recipe["backbone"],
        "backbone_hash": learner.vit.hash,
        "benchmark_fingerprint": world.catalog.fingerprint,
        "seed": world.options.seed,
        "mask": getattr(learner, "mask", "n/a"),
        "needs": sorted(learner.needs),
        **accuracies,
        "anytime_curve": [
            {"pictures": seen, "accuracy": value}
            for seen, value in zip(progress.anytime_seen, plain(_anytime(world, record)), strict=True)
        ],
        **trained_numbers(learner),
        "memory_bytes": learner.memory_bytes,
        "forwards_per_image": progress.forwards["learning"] / progress.pictures,
        "forwards": totals(progress.forwards),
        "single_pass": certificate | {"replays": learner.replays, "gradient_steps": learner.gradient_steps},
        "options": learner.options(),
        "run": world.options.as_json(),
        "tuned": read_json(record.folder / CONFIG).get("tuned"),
        "timing": {
            "learn_seconds": progress.learn_seconds,
            "evaluate_seconds": progress.evaluate_seconds,
            "learned_images_per_second": progress.pictures / progress.learn_seconds,
            "forwards_computed": computed(progress.forwards),
        },
    }


def _anytime(world: World, record: Record) -> np.ndarray:
    if not record.anytime_guesses:
        return np.zeros(0)
    return accuracy(world.plan.test_labels, np.array(record.anytime_guesses))


def _curve(world: World, record: Record) -> Curve | None:
    if not record.anytime_guesses:
        return None
    plan, evaluated = world.plan, np.array(record.progress.evaluated_seen, float)
    return Curve(
        seen=np.array(record.progress.anytime_seen, float),
        accuracy=_anytime(world, record),
        by_task=accuracy_matrix(plan.test_labels, plan.test_tasks, np.array(record.anytime_guesses), plan.tasks),
        task_end=evaluated if plan.learned is None else evaluated[plan.learned],
    )


def trained_numbers(learner: Learner) -> dict[str, Any]:
    """What gradients change: with the head, and without it as a share of the whole backbone, as the paper counts."""
    trained = {name: p.numel() for name, p in learner.trained().items()}
    head = sum(n for name, n in trained.items() if name.startswith("classifier."))
    total = sum(trained.values())
    return {
        "trainable_parameters": total,
        "head_parameters": head,
        "trainable_percent": 100.0 * (total - head) / learner.vit.total_parameters,
    }


def write_predictions(world: World, folder: Path, record: Record) -> None:
    """Per test picture: label, task, and the class guessed at each evaluation (-1: not asked)."""
    plan, catalog = world.plan, world.catalog
    with replacing(folder / PREDICTIONS) as temporary, open(temporary, "wb") as file:
        np.savez_compressed(
            file,
            classes=np.array(catalog.classes),
            labels=plan.test_labels,
            tasks=plan.test_tasks,
            evaluations=np.array(record.guesses, np.int32),
            evaluated_after=np.array(record.progress.evaluated_seen),
            anytime=np.array(record.anytime_guesses, np.int32),
            anytime_after=np.array(record.progress.anytime_seen),
        )
