"""Which classes compete in a loss term: a class mask belongs to the term and contains the term's own labels."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn import functional

MaskKind = Literal["none", "seen", "task", "batch", "window"]


class ClassMask:
    """Names the rows of the head that may compete with a term's labels.

    ``none``: all rows there are, those of classes never seen too (needs the number of classes).
    ``seen``: the classes met so far.  ``task``: those of the running task (needs to be told them).
    ``batch``: those of the term's own labels.  ``window``: those among the last ``window`` pictures of the stream,
    counted in pictures and not in batches, so that it means the same at every batch size.
    """

    def __init__(self, kind: MaskKind, window: int = 256) -> None:
        self.kind = kind
        self.recent: deque[int] = deque(maxlen=window)
        self.task: list[int] = []

    def watch(self, rows: Iterable[int]) -> None:
        """Notes the labels of pictures that the stream has just handed out."""
        if self.kind == "window":
            self.recent.extend(rows)

    def enter(self, rows: Iterable[int]) -> None:
        """A task begins: its rows."""
        self.task = sorted(rows)

    def allowed(self, rows: Tensor, width: int, seen: int) -> Tensor | None:
        """Bool over the ``width`` rows of the head, or None where all compete; ``rows`` are the term's labels."""
        if self.kind == "none" or (self.kind == "seen" and seen == width):
            return None
        keep = torch.zeros(width, dtype=torch.bool, device=rows.device)
        if self.kind == "seen":
            keep[:seen] = True
        elif self.kind == "task":
            keep[self.task] = True
        elif self.kind == "window":
            keep[list(self.recent)] = True
        keep[rows] = True
        return keep

    def state(self) -> tuple[dict[str, Tensor], Any]:
        return {}, {"recent": list(self.recent), "task": self.task}

    def restore(self, tensors: dict[str, Tensor], extra: Any) -> None:
        self.recent.clear()
        self.recent.extend(extra["recent"])
        self.task = list(extra["task"])


def masked_cross_entropy(logits: Tensor, rows: Tensor, allowed: Tensor | None, reduction: str = "mean") -> Tensor:
    """Cross-entropy among the allowed classes; the others get no probability and no gradient."""
    if allowed is not None:
        logits = logits.masked_fill(~allowed, -torch.inf)
    return functional.cross_entropy(logits, rows, reduction=reduction)
