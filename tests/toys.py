"""Small things to test with: a learner on a small random ViT, and its stream."""

from __future__ import annotations

from typing import Any

from rwf.data.stream import Stream
from rwf.parts.learner import Learner
from rwf.run.check import Subject


def toy(method: str = "linear_probe", *, seed: int = 0, batch_size: int = 16, **options: Any) -> tuple[Learner, Stream]:
    """A method on the toy stream of ten colours in two tasks, in float64."""
    return Subject(method, options).make(seed=seed, batch_size=batch_size, double=True)
