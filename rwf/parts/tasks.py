"""Where a method stands that is told boundaries: the running task, and the task that each class came with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor


class Tasks:
    """A part with a state. Without any boundary everything belongs to task 0."""

    def __init__(self) -> None:
        self.now = 0
        self.begun = False
        self.pictures = 0
        """Learned since the running task began."""
        self.of: list[int] = []
        """The task of each row of the scores."""
        self.looked_at = -1
        """Number of pictures learned at the last second look."""

    def enter(self, task: int, classes: int) -> bool:
        """A task begins; true if it ends another one. ``classes`` is the number of rows there are so far."""
        ends = task != self.now and (self.begun or self.pictures > 0)
        self.meet(classes)
        if task != self.now:
            self.pictures = 0
        self.now, self.begun = task, True
        return ends

    def meet(self, classes: int, pictures: int = 0) -> None:
        """So many rows there are now, and so many pictures have just been learned."""
        self.of += [self.now] * (classes - len(self.of))
        self.pictures += pictures

    def state(self) -> tuple[dict[str, Tensor], Any]:
        return {}, {
            "now": self.now,
            "begun": self.begun,
            "pictures": self.pictures,
            "of": self.of,
            "looked_at": self.looked_at,
        }

    def restore(self, tensors: Mapping[str, Tensor], extra: Any) -> None:
        self.now, self.begun, self.pictures = extra["now"], extra["begun"], extra["pictures"]
        self.of, self.looked_at = list(extra["of"]), extra["looked_at"]
