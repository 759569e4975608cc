"""What `rwf demo` runs and what of it can be chosen; apart from the rest, so that the command line needs no torch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

SHARED: dict[str, Any] = {"mask": "batch", "head_lr": 5e-3}
SETTINGS: dict[str, dict[str, Any]] = {
    "rwf": SHARED | {"lr": 1e-3},
    "linear_probe": SHARED,
    "finetune": SHARED | {"lr": 1e-4},
    "l2p": SHARED | {"lr": 1e-2},
}
"""The methods, each with the options in which the demo differs from its defaults: one mask and one rate of the head for
all, and the best rate of those that docs/embedded-world.md shows."""


@dataclass(frozen=True, kw_only=True)
class DemoOptions:
    """The defaults cost about three minutes on two cores; a smaller part of the pictures is a quicker look."""

    methods: tuple[str, ...] = tuple(SETTINGS)
    """Which methods, one after another."""
    train_fraction: float = 0.55
    """Part of each class's training pictures that is used."""
    tasks: int = 5
    """Into how many tasks the classes are split."""
    seed: int = 0
    """Seed of order, views and initial weights."""
    benchmark: str = "split-renditions"
    """What to learn."""
    backbone: str = "vit_nano_patch8_64.renditions"
    """The ViT."""
    threads: int | None = None
    """Threads of torch; torch's own choice if not given."""
    out: Path = Path("runs/demo")
    """Folder of the runs and the page; finished runs in it are used again."""
