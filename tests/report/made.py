"""Finished runs made of numbers, for pages that need no run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from rwf.metrics import NOT_EVALUATED, accuracy_matrix, summary
from rwf.report.folder import Run


def made_run(name: str = "rwf", *, tasks: int = 4, seed: int = 0, folder: Path = Path("run"), **result: Any) -> Run:
    """A run over two classes a task and five test pictures a class, whose guesses are drawn."""
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(2 * tasks), 5)
    owner = labels // 2
    guesses = np.full((tasks, len(labels)), NOT_EVALUATED)
    for i in range(tasks):
        asked = owner <= i
        guesses[i, asked] = np.where(
            rng.random(asked.sum()) < 0.6, labels[asked], rng.integers(0, 2 * i + 2, asked.sum())
        )
    figures = summary(accuracy_matrix(labels, owner, guesses, tasks))
    everything = {
        "method": name,
        "benchmark": "split-made",
        "backbone": "random:32x4",
        "seed": 0,
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
