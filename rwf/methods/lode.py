"""LODE(DER++): the loss on new pictures is split into "new or old" and "which of the new", and the first is held low.

Paper: Liang, Li, "Loss Decoupling for Task-Agnostic Continual Learning". Official repository:
liangyanshuo/Loss-Decoupling-for-Task-Agnostic-Continual-Learning (no licence).  Differs: classes still to come compete
as new ones only with ``mask none`` (there always); with ``old_classes window`` no boundaries are needed: old is what
is not among the last pictures, and old classes by new ones stands for the number of tasks (with tasks of equal size it
is that number); a label of the batch is never old. The replay terms are DER++'s, the two draws in the other order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from rwf.data.batch import Batch, Boundary
from rwf.methods.der_pp import DERpp
from rwf.parts.losses import decoupled_loss
from rwf.parts.masks import ClassMask
from rwf.parts.settings import not_negative
from rwf.parts.tasks import Tasks


@dataclass(kw_only=True, eq=False, repr=False)
class LODE(DERpp):
    """(inter / tasks so far) * mean "new or old" + intra * mean "which of the new" + DER++'s replay terms."""

    inter: float = 0.1
    """Weight of "new or old", divided by the number of tasks before this one (rho)."""
    intra: float = 1.0
    """Weight of "which of the new" (C)."""
    old_classes: Literal["told", "window"] = "told"
    """Old are classes met before this task (needs boundaries), or not among the last pictures (window)."""
    mask: Literal["none", "seen"] = "seen"
    """Whether classes still to come compete too (none, as published), or those met so far."""

    paper_options = {**DERpp.paper_options, "inter": 0.1, "intra": 1.0}

    @property
    def needs(self) -> frozenset[str]:
        return super().needs | ({"boundaries"} if self.old_classes == "told" else frozenset())

    def _check_numbers(self) -> None:
        super()._check_numbers()
        not_negative(inter=self.inter, intra=self.intra)

    def setup(self) -> None:
        super().setup()
        self.tasks, self.recent = Tasks(), ClassMask("window", self.window)

    def on_boundary(self, boundary: Boundary) -> None:
        super().on_boundary(boundary)
        if self.old_classes == "told":
            self.tasks.enter(boundary.task, len(self.classes))

    def loss(self, batch: Batch, rows: Tensor) -> Tensor:
        if self.old_classes == "window":
            self.recent.watch(rows.tolist())
        logits, replays, scores = self.logits_and_replays(batch, rows)
        return self.stream_loss(logits, rows) + self.replay_loss(replays[::-1], scores[::-1])

    def stream_loss(self, logits: Tensor, rows: Tensor) -> Tensor:
        """The decoupled loss, or all of the cross-entropy as long as nothing is old."""
        old = self.old_rows(rows, logits.shape[1])
        count = int(old.sum())
        if not count:
            return self.cross_entropy(logits, rows)
        tasks = self.tasks.now if self.old_classes == "told" else max(1.0, count / (len(self.classes) - count))
        return decoupled_loss(logits, rows, old, ~old, ratio=self.inter, task=tasks, intra_weight=self.intra)

    def old_rows(self, rows: Tensor, width: int) -> Tensor:
        """Which rows of the head are old classes.  # width"""
        old = torch.zeros(width, dtype=torch.bool, device=rows.device)
        if self.old_classes == "told":
            old[[row for row, task in enumerate(self.tasks.of) if task < self.tasks.now]] = True
            old[rows] = False
            return old
        old[: len(self.classes)] = True
        new = self.recent.allowed(rows, width, len(self.classes))
        return old if new is None else old & ~new
