"""EMA(RAR): repeated augmented rehearsal, several steps on each batch with new views and replays; an average answers.

Papers: Soutif-Cormerais, Carta, van de Weijer, "Improving Online Continual Learning Performance and Stability with
Temporal Ensembles"; Zhang, Pfahringer, Frank, Bifet, Lim, Jia, "A simple but strong baseline for online continual
learning: Repeated Augmented Rehearsal". Official repositories: AlbinSou/online_ema (MIT),
YaqianZhang/RepeatedAugmentedRehearsal (no licence). Not Retrospective Adversarial Replay, which bears the same
letters.  Differs: replay from the first task on; the views are this package's (there: crops and flips, RandAugment).
A batch is seen once, in ``repeats`` views, and then it is gone; what the repeats cost is in the certificate.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from rwf.data.batch import Batch
from rwf.errors import UserError
from rwf.methods.er import ER
from rwf.parts.averages import Averaged


@dataclass(kw_only=True, eq=False, repr=False)
class RAR(ER):
    """Cross-entropy is one mean over the stream's and the replayed pictures."""

    repeats: int = 3
    """Steps on each batch of the stream, each with new views of it and a new draw."""

    toy_options = {**ER.toy_options, "repeats": 2}
    paper_options = {**ER.paper_options, "repeats": 3}

    def _check_numbers(self) -> None:
        super()._check_numbers()
        if self.repeats < 1:
            raise UserError(f"repeats is {self.repeats}: a batch would not be learned; give 1 or more.")

    def setup(self) -> None:
        super().setup()
        self.repeat = 0

    def update(self, batch: Batch, rows: Tensor) -> dict[str, float]:
        self.class_mask.watch(rows.tolist())
        notes: list[dict[str, float]] = []
        for repeat in range(self.repeats):
            self.repeat = repeat
            notes.append(self.learn_once(batch, rows))
        self.remember(batch)
        return notes[0]

    def loss(self, batch: Batch, rows: Tensor) -> Tensor:
        replayed = self.memory.draw(self.replay, self.step_count, name=f"draw {self.repeat}")
        x = torch.cat([batch.view(self.repeat), *([replayed.view()] if len(replayed) else [])])
        labels = torch.cat([rows, self.rows(replayed.labels)])
        logits = self.logits(self.cast(x), labels)
        if self.repeat == 0:
            self.answered = logits[: len(batch)].detach()
        return self.cross_entropy(logits, labels)

    def remember(self, batch: Batch) -> None:
        self.memory.add(batch, views=self.repeats)


@dataclass(kw_only=True, eq=False, repr=False)
class EMARAR(Averaged, RAR):
    """Repeated augmented rehearsal with averaged weights."""

    paper_options = {**RAR.paper_options, "average_start": 0.9, "average_end": 0.99}

    @property
    def steps_each_batch(self) -> int:
        return self.repeats
