"""Finished runs made of numbers, for pages that need no run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rwf.metrics import NOT_EVALUATED, accuracy_matrix, summary
from rwf.report.folder import Run


def made_run(
    name: str = "rwf",
    *,
    tasks: int = 4,
    seed: int = 0,
    seed_name: int = 0,
    right: float = 0.6,
    folder: Path = Path("run"),
    **result: Any,
) -> Run:
    """A run over two classes a task and five test pictures a class, whose guesses are drawn."""
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(2 * tasks), 5)
    owner = labels // 2
    guesses = np.full((tasks, len(labels)), NOT_EVALUATED)
    for i in range(tasks):
        asked = owner <= i
        guesses[i, asked] = np.where(
            rng.random(asked.sum()) < right, labels[asked], rng.integers(0, 2 * i + 2, asked.sum())
        )
    figures = summary(accuracy_matrix(labels, owner, guesses, tasks))
    everything = {
        "method": name,
        "benchmark": "split-made",
        "backbone": "random:32x4",
        "seed": seed_name,
        "mask": "window",
        "trainable_percent": 2.13,
        "forwards_per_image": 1.0,
        "timing": {"learned_images_per_second": 1234.5},
        "single_pass": {"images_in_stream": 400},
        "run": {"batch_size": 16},
    }
    predictions = {
        "classes": np.array([f"class {c}" for c in range(2 * tasks)]),
        "labels": labels,
        "tasks": owner,
        "evaluations": guesses,
    }
    environment = {"benchmark_source": "synthetic: made for a test", "packages": {"rwf": "0"}, "threads": 1}
    return Run(everything | figures | result, environment, predictions, {}, folder)


def write_run(run: Run, folder: Path) -> Path:
    """The run as the files that a finished run leaves."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "result.json").write_text(json.dumps(dict(run.result)))
    (folder / "env.json").write_text(json.dumps(dict(run.environment)))
    (folder / "config.json").write_text("{}")
    np.savez(folder / "predictions.npz", **dict[str, Any](run.predictions))
    return folder


def made_world(root: Path, methods: Sequence[str] = ("rwf", "ncm", "finetune"), seeds: int = 3, **result: Any) -> Path:
    """Folders of several methods and seeds, each method a little worse than the one before it."""
    for i, method in enumerate(methods):
        for seed in range(seeds):
            run = made_run(method, seed=10 * seed + i, right=0.8 - 0.15 * i, **{"seed_name": seed, **result})
            write_run(run, root / f"{method}-s{seed}")
    return root
