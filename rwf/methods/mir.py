"""MIR, maximally interfered retrieval: replays those pictures whose loss the step on the stream would raise most.

Paper: Aljundi, Caccia, Belilovsky, Caccia, Lin, Charlin, Tuytelaars, "Online Continual Learning with Maximally
Interfered Retrieval". Official repository: optimass/Maximally_Interfered_Retrieval (MIT); in this setting
RaptorMai/online-continual-learning (no licence).  Differs: the step that is looked at is the one Adam is about to
make; a plain step, as published (``look_ahead plain``), moves a ViT at a rate of 1e-4 so little that its scores are
rounding errors. No copied network, candidates of the running task are not excluded (that needs boundaries), and losses
are compared in full precision on the views that are then replayed. Only these count as replayed; the candidates cost
two forwards.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from rwf.data.batch import Batch
from rwf.errors import UserError
from rwf.methods.er import ER
from rwf.parts.retrieval import adam_step, highest, interference, sgd_step


@dataclass(kw_only=True, eq=False, repr=False)
class MIR(ER):
    """ER whose replays are chosen out of a larger draw."""

    candidates: int = 200
    """Pictures drawn, of which the most interfered ones are replayed."""
    look_ahead: Literal["optimizer", "plain"] = "optimizer"
    """The step whose interference is looked at: the optimiser's own (without momentum), or a plain one."""

    toy_options = {**ER.toy_options, "candidates": 16}
    paper_options = {**ER.paper_options, "candidates": 200, "look_ahead": "plain"}

    def _check_numbers(self) -> None:
        super()._check_numbers()
        if self.candidates < self.replay:
            raise UserError(
                f"candidates is {self.candidates} and replay {self.replay}: replays are chosen out of the candidates; "
                "give at least as many of these."
            )

    def loss(self, batch: Batch, rows: Tensor) -> Tensor:
        (logits,) = self.logits_of(batch, rows)
        return self.cross_entropy(logits, rows)

    def backward(self, batch: Batch, rows: Tensor) -> Tensor:
        value, slots = super().backward(batch, rows), self.memory.sample(self.candidates, self.step_count)
        if not slots:
            return value
        candidates = self.memory.look(slots)
        x, labels = self.cast(candidates.view()), self.rows(candidates.labels)
        if len(slots) > self.replay:
            chosen = self.choose(x, labels)
            x, labels, slots = x[chosen], labels[chosen], [slots[i] for i in chosen]
        self.memory.hand_out(slots)
        with self.autocast():
            loss = self.cross_entropy(self.logits(x, labels), labels)
        loss.backward()  # type: ignore[no-untyped-call]
        return value + loss.detach()

    def choose(self, x: Tensor, labels: Tensor) -> list[int]:
        """Positions of the candidates that the gradients there are would hurt most."""
        if self.look_ahead == "optimizer" and self.optimizer == "adam":
            ahead = adam_step(self.adam, self.clip)
        else:
            ahead = sgd_step(self.trained(), self.adam.rates, 0.0 if self.look_ahead == "plain" else self.clip)
        allowed = self.class_mask.allowed(labels, self.classifier.rows, len(self.classes)) if self.classifier else None
        return highest(interference(self.net, self.logits, ahead, x, labels, allowed=allowed), self.replay)
