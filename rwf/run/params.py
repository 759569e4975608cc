"""How many numbers each method trains, counted on the methods themselves and set beside the paper's."""

from __future__ import annotations

import copy
from typing import Any

from rich.table import Table

from rwf.data.batch import Boundary
from rwf.data.view import View
from rwf.errors import UserError
from rwf.parts.learner import Learner
from rwf.parts.told import Told, shown_boundary
from rwf.registry import METHODS
from rwf.run.build import make_method
from rwf.vit.forward import ViT
from rwf.vit.weights import load_backbone

PAPER_PERCENT = {
    "l2p": 0.47,
    "dual_prompt": 0.58,
    "coda_prompt": 5.00,
    "inflora": 1.70,
    "aper_adapter": 1.50,
    "ease": 1.32,
    "rwf": 2.13,
}
"""Table 4 of the paper: trained numbers in percent of the ViT."""
TASKS = 10


def rows(backbone: str, classes: int) -> list[dict[str, Any]]:
    """A row a method, in its default configuration, after ten tasks of classes.

    The backbone is built with drawn weights: counting needs shapes only.
    """
    if classes < 1:
        raise UserError(f"--classes is {classes}: give 1 or more.")
    vit = load_backbone(backbone, pretrained=False)
    return [row(name, vit, classes) for name, entry in METHODS.items() if not entry.alias_of]


def row(name: str, vit: ViT, classes: int) -> dict[str, Any]:
    """What one method trains: in the last task, ever, what it keeps to predict, and its head."""
    learner = make_method(name, {})
    learner.bind(
        copy.deepcopy(vit),
        viewer=View(seed=0, size=vit.image_size, mean=vit.mean, std=vit.std),
        told=Told(class_count=classes, task_count=TASKS),
    )
    now, ever = _through_tasks(learner, [str(i) for i in range(classes)])
    tensors, _ = learner.state()
    stored = sum(t.numel() for key, t in tensors.items() if key.startswith(("trained/", "buffer/")) and not _head(key))
    body = sum(n for key, n in ever.items() if not _head(key))
    return {
        "method": name,
        "per_task": sum(n for key, n in now.items() if not _head(key)),
        "ever": body,
        "stored": stored,
        "head": sum(n for key, n in ever.items() if _head(key)),
        "percent": 100.0 * body / vit.total_parameters,
        "paper_percent": PAPER_PERCENT.get(name),
    }


def _through_tasks(learner: Learner, names: list[str]) -> tuple[dict[str, int], dict[str, int]]:
    """Sizes of what is trained in the last task, and of all that was trained at any time."""
    now: dict[str, int] = {}
    ever: dict[str, int] = {}
    size = -(-len(names) // TASKS)
    for task, start in enumerate(range(0, len(names), size)):
        brought = names[start : start + size]
        boundary = shown_boundary(Boundary(task, brought), learner.needs)
        if boundary is not None:
            learner.on_boundary(boundary)
        learner.rows(brought)
        now = {key: p.numel() for key, p in learner.trained().items()}
        ever |= now
    return now, ever


def _head(key: str) -> bool:
    return key.removeprefix("trained/").startswith("classifier.")


def table(found: list[dict[str, Any]]) -> Table:
    """The rows for a person."""
    made = Table(box=None, pad_edge=False, caption="Without the head; percent of the ViT with 1000 classes.")
    for title in ("method", "per task", "ever", "stored", "head", "percent", "paper"):
        made.add_column(title, justify="left" if title == "method" else "right", no_wrap=True)
    for r in found:
        paper = "-" if r["paper_percent"] is None else f"{r['paper_percent']:.2f}"
        counts = [f"{r[key]:,}" for key in ("per_task", "ever", "stored", "head")]
        made.add_row(r["method"], *counts, f"{r['percent']:.3f}", paper)
    return made
