"""Experiments that take one explanation at a time away."""

from __future__ import annotations

from typing import Any

from rwf.experiments.cell import Ask, Cell

MASKS = ("none", "task", "batch", "window")
LADDER: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("1 linear probe", "linear_probe", {}),
    ("2 mean token", "rwf", {"train": "none", "uniform": True}),
    ("3 frozen queries", "rwf", {"train": "none"}),
    ("4 static prompts", "vpt", {}),
    ("5 direct queries", "rwf", {"train": "direct"}),
    ("6 RwF", "rwf", {}),
    ("7 output matrix", "rwf", {"train": "out"}),
)
SHARES = (1, 2, 4, 8)
"""One thing is added on each rung; the last trains another matrix of the same size."""


def masks(ask: Ask) -> list[Cell]:
    """Which classes compete in the loss: how much of a result is the mask's."""
    methods = ask.methods(("finetune", "linear_probe", "online_lora", "rwf"), "mask")
    return [cell for method in methods for mask in MASKS for cell in ask.cells(method, {"mask": mask}, {"mask": mask})]


def ladder(ask: Ask) -> list[Cell]:
    """From a linear probe to RwF: all rungs with RwF's settings, each with one thing more than the one before."""
    ask.methods(("rwf",), "train", "uniform")
    return [cell for rung, method, own in LADDER for cell in ask.cells(method, {"rung": rung}, own, like="rwf")]


def switch(ask: Ask) -> list[Cell]:
    """Online accuracy right after a change of task; it is read from the rows that every run writes."""
    return [
        cell
        for method in ask.methods(("rwf", "vpt", "linear_probe", "ncm", "l2p", "finetune"))
        for cell in ask.cells(method, {})
    ]


def resolution(ask: Ask) -> list[Cell]:
    """Pictures whose details are taken away, in the same views and with as many tokens.

    The paper explains its small lead on CIFAR-100 by low resolution: then the lead must shrink here as well.
    """
    side = ask.vit.image_size
    return [
        cell
        for method in ask.methods(("rwf", "vpt", "linear_probe", "ncm"))
        for detail in (max(1, side // share) for share in SHARES)
        for cell in ask.cells(method, {"detail": detail}, run={"detail": detail})
    ]
