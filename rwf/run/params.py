"""How many numbers each method trains, counted on the methods themselves and set beside the paper's."""

from __future__ import annotations

import copy
from typing import Any

from rich.table import Table
from torch import Tensor, nn

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
COUNTED_EVER = frozenset({"inflora"})
"""Rows in which the paper can only have counted what all tasks together trained; in the others it is one task's."""
VARIANTS: dict[str, dict[str, dict[str, Any]]] = {
    "rwf": {"hopfield_pooling": {}, "equations": {"reading": "equations"}},
    "l2p": {"pool 10 x 5": {}, "pool 30 x 10": {"pool": 30, "length": 10}},
    "dual_prompt": {"expert 5": {}, "expert 20": {"expert_length": 20}},
    "inflora": {"rank 8": {}, "rank 10": {"rank": 10}},
}
"""Configurations that are in use beside each other; the first is this package's default."""
TASKS = 10


def rows(backbone: str, classes: int) -> list[dict[str, Any]]:
    """A row for each method and variant, after ten tasks of classes.

    The backbone is built with drawn weights: counting needs shapes only.
    """
    if classes < 1:
        raise UserError(f"--classes is {classes}: give 1 or more.")
    vit = load_backbone(backbone, pretrained=False)
    names = [name for name, entry in METHODS.items() if not entry.alias_of]
    return [
        row(name, variant, options, vit, classes)
        for name in names
        for variant, options in VARIANTS.get(name, {"default": {}}).items()
    ]


def row(name: str, variant: str, options: dict[str, Any], vit: ViT, classes: int) -> dict[str, Any]:
    """What one method trains in a task and ever, what it keeps besides pictures, and its head."""
    learner = make_method(name, options)
    learner.bind(
        shallow_copy(vit),
        viewer=View(seed=0, size=vit.image_size, mean=vit.mean, std=vit.std),
        told=Told(class_count=classes, task_count=TASKS),
    )
    now, ever = _through_tasks(learner, [str(i) for i in range(classes)])
    body = sum(n for key, n in now.items() if not _head(key))
    # What was put away had the names and shapes of what is trained now.
    all_tasks = body * learner.trained_before + sum(n for key, n in ever.items() if not _head(key))
    counted = all_tasks if name in COUNTED_EVER else body
    return {
        "method": name,
        **({"reading": variant} if name == "rwf" else {}),
        "variant": variant,
        "per_task": body,
        "ever": all_tasks,
        "stored": sum(_kept(key, tensor) for key, tensor in learner.state()[0].items()),
        "head": sum(n for key, n in ever.items() if _head(key)),
        "percent": 100.0 * counted / vit.total_parameters,
        "percent_of": "ever" if name in COUNTED_EVER else "per_task",
        "paper_percent": PAPER_PERCENT.get(name),
    }


def shallow_copy(vit: ViT) -> ViT:
    """Modules of its own around the same numbers: a method may unfreeze it, and nothing is copied."""
    return copy.deepcopy(vit, {id(p): nn.Parameter(p.data, requires_grad=False) for p in vit.parameters()})


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
    return key.partition("/")[2].startswith("classifier.") or key.startswith("classifier.")


def _kept(key: str, tensor: Tensor) -> int:
    """Numbers of a tensor of the state that outlive a task: neither head, nor optimiser, nor pictures, nor counters."""
    apart = _head(key) or key.startswith(("part/adam/", "part/memory/")) or not tensor.is_floating_point()
    return 0 if apart else tensor.numel()


def table(found: list[dict[str, Any]]) -> Table:
    """The rows for a person."""
    caption = "Without the head; percent of the ViT with 1000 classes (*: of what all ten tasks together trained)."
    made = Table(box=None, pad_edge=False, caption=caption)
    for title in ("method", "per task", "ever", "stored", "percent", "paper"):
        made.add_column(title, justify="left" if title == "method" else "right", no_wrap=True)
    for r in found:
        name = r["method"] if r["variant"] == "default" else f"{r['method']}, {r['variant']}"
        paper = "-" if r["paper_percent"] is None else f"{r['paper_percent']:.2f}"
        star = "*" if r["percent_of"] == "ever" else ""
        counts = [f"{r[key]:,}" for key in ("per_task", "ever", "stored")]
        made.add_row(name, *counts, f"{star}{r['percent']:.3f}", paper)
    return made
