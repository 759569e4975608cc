"""ER, experience replay: with each batch of the stream a batch out of a memory. The base of the replay methods here.

Paper: Chaudhry, Rohrbach, Elhoseiny, Ajanthan, Dokania, Torr, Ranzato, "On Tiny Episodic Memories in Continual
Learning". Official repository: facebookresearch/agem (MIT); in this setting RaptorMai/online-continual-learning (no
licence).  Differs: the memory holds un-augmented pictures and each replay is a new view (there: the transformed
tensor); picture number n draws its slot out of 0..n-1 (there: out of those before its batch); one forward for both
batches; mask and head as everywhere in this package, ``--protocol paper`` restores the row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from rwf.data.batch import Batch
from rwf.errors import UserError
from rwf.methods.finetune import Finetune
from rwf.parts.balance import MemoryRule, open_memory


@dataclass(kw_only=True, eq=False, repr=False)
class ER(Finetune):
    """The sum of two means: cross-entropy of the stream's batch and of the replayed one."""

    memory_size: int = 500
    """Pictures the memory holds."""
    memory_limit: int | None = None
    """Bytes the memory may take, whatever the number of pictures; no bound if not given."""
    memory_rule: MemoryRule = "reservoir"
    """Which pictures stay: a uniform sample, a class-balanced or greedily balanced one, the last of each class."""
    replay: int = 64
    """Pictures replayed with each batch."""

    extra_needs = frozenset({"memory"})
    toy_options = {"memory_size": 40, "replay": 8}
    paper_options = {**Finetune.paper_options, "memory_size": 500, "replay": 64}

    def _check_numbers(self) -> None:
        super()._check_numbers()
        if self.replay < 1:
            raise UserError(
                f"replay is {self.replay}: nothing would be replayed; give a number of pictures, 1 or more."
            )

    def setup(self) -> None:
        super().setup()
        self.memory = open_memory(
            self.memory_rule, self.memory_size, viewer=self.viewer, seed=self.seed, max_bytes=self.memory_limit
        )

    def loss(self, batch: Batch, rows: Tensor) -> Tensor:
        replayed = self.memory.draw(self.replay, self.step_count)
        logits, again = self.logits_of(batch, rows, replayed)
        loss = self.cross_entropy(logits, rows)
        return loss + self.cross_entropy(again, self.rows(replayed.labels)) if len(replayed) else loss

    def update(self, batch: Batch, rows: Tensor) -> dict[str, float]:
        notes = super().update(batch, rows)
        self.remember(batch)
        return notes

    def remember(self, batch: Batch) -> None:
        """After the step: offers the batch to the memory."""
        self.memory.add(batch)

    def logits_of(self, batch: Batch, rows: Tensor, *replays: Batch) -> Sequence[Tensor]:
        """Scores of the stream's batch and of each replay, in one forward; notes the first as the answer."""
        x = self.cast(torch.cat([part.view() for part in (batch, *replays) if len(part)]))
        labels = torch.cat([rows, *(self.rows(replay.labels) for replay in replays)])
        parts = self.logits(x, labels).split([len(batch), *(len(replay) for replay in replays)])
        self.answered = parts[0].detach()
        return parts
