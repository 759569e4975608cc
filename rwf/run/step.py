"""What the loop does with one item of a stream, and nothing else: tell what was declared, learn once, seeded."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from rwf.data.batch import Batch, Boundary
from rwf.data.stream import Stream
from rwf.parts.learner import Learner
from rwf.parts.told import Told, shown_boundary
from rwf.seeds import hash32


def tell(learner: Learner, boundary: Boundary) -> None:
    """A boundary reaches only a method that declared it, and only as much of it as it declared."""
    shown = shown_boundary(boundary, learner.needs)
    if shown is not None:
        learner.on_boundary(shown)


def learn(learner: Learner, batch: Batch, seed: int, step: int) -> dict[str, float]:
    """One step. Randomness is seeded by its number, so that nothing of it need ever be saved."""
    torch.manual_seed(hash32(seed, "step", step))
    return learner.learn(batch)


def drive(learner: Learner, stream: Stream, seed: int, *, start: int = 0, end: int | None = None) -> Iterator[Batch]:
    """Steps ``start`` to ``end`` of a stream without any record of it; gives each batch after it was learned."""
    step = start
    for item in stream.items(start=start):
        if isinstance(item, Boundary):
            tell(learner, item)
            continue
        learn(learner, item, seed, step)
        yield item
        step += 1
        if step == end:
            return


class LateStream:
    """The second look of a stream that is made after the learner that may ask for it."""

    def __init__(self) -> None:
        self.stream: Stream | None = None

    def told(self, class_count: int, task_count: int) -> Told:
        return Told(class_count, task_count, self._look)

    def open(self, stream: Stream, learner: Learner) -> None:
        stream.guard.allow_second_look = "second_look" in learner.needs
        self.stream = stream

    def _look(self, task: int) -> Iterator[Batch]:
        if self.stream is None:
            raise RuntimeError("a second look was asked for before the stream began")
        return self.stream.second_look(task)
