"""What the rows of the paper's tables have in common: the settings that ``--protocol paper`` starts from."""

from __future__ import annotations

from typing import Any

PUBLISHED: dict[str, Any] = {"normalize": "none", "test_view": "cut", "head_lr": None}
"""Pixels in [0, 1] as they are, test pictures cut to their middle, one learning rate for everything."""

MASKED = PUBLISHED | {"mask": "task", "head": "linear"}
"""The rows whose code lets only the running task's classes compete."""

UNMASKED = PUBLISHED | {"mask": "none", "head": "linear", "clip": 0.0}
"""The rows whose code lets all classes compete from the start."""

ADAPTED = PUBLISHED | {
    "optimizer": "sgd",
    "lr": 0.05,
    "weight_decay": 5e-4,
    "clip": 0.0,
    "head_start": "random",
    "passes": "official",
}
"""The rows that adapt with adapters and then look at the pictures again."""
