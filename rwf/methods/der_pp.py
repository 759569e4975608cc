"""DER++, dark experience replay: the memory keeps the scores of its time too, and replay holds on to both.

Paper: Buzzega, Boschini, Porrello, Abati, Calderara, "Dark Experience for General Continual Learning: a Strong, Simple
Baseline". Official repository: aimagelab/mammoth (MIT).  Differs: the stored scores are those of the classes met by
then, and the distance is a mean over these (with ``mask none`` over all classes from the start, as published: with
1000 of them the term then weighs a tenth of what it does with 100); one forward for all three batches; each replay is
a new view of the un-augmented picture (as there, the scores belong to the view of the time).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from torch import Tensor

from rwf.data.batch import Batch
from rwf.methods.er import ER
from rwf.parts.losses import logit_distance
from rwf.parts.memory import Replay
from rwf.parts.settings import not_negative


@dataclass(kw_only=True, eq=False, repr=False)
class DERpp(ER):
    """Cross-entropy of the stream + alpha * distance to stored scores + beta * cross-entropy of a second draw."""

    alpha: float = 0.2
    """Weight of the distance to the stored scores."""
    beta: float = 0.5
    """Weight of the replayed cross-entropy."""
    shared_draw: bool = False
    """One draw serves both replay terms, which saves a third of the cost."""

    paper_options = {**ER.paper_options, "alpha": 0.2, "beta": 0.5}

    def _check_numbers(self) -> None:
        super()._check_numbers()
        not_negative(alpha=self.alpha, beta=self.beta)

    def loss(self, batch: Batch, rows: Tensor) -> Tensor:
        logits, replays, scores = self.logits_and_replays(batch, rows)
        return self.cross_entropy(logits, rows) + self.replay_loss(replays, scores)

    def logits_and_replays(self, batch: Batch, rows: Tensor) -> tuple[Tensor, list[Replay], list[Tensor]]:
        """Scores of the stream's batch, the replays (one if shared, else two), and their scores."""
        replays = [self.memory.draw(self.replay, self.step_count)]
        if not self.shared_draw:
            replays.append(self.memory.draw(self.replay, self.step_count, name="second draw"))
        logits, *scores = self.logits_of(batch, rows, *replays)
        return logits, replays, scores

    def replay_loss(self, replays: list[Replay], scores: list[Tensor]) -> Tensor | float:
        """The distance on the first draw, the cross-entropy on the last; 0 as long as the memory is empty."""
        if not len(replays[0]):
            return 0.0
        stored, known = replays[0].padded("logits", scores[0].shape[1])
        distance = logit_distance(scores[0], stored.to(self.device), known.to(self.device))
        return self.alpha * distance + self.beta * self.cross_entropy(scores[-1], self.rows(replays[-1].labels))

    def remember(self, batch: Batch) -> None:
        self.memory.add(batch, logits=cast(Tensor, self.answered))
