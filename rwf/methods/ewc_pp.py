"""EWC++: weights that mattered for earlier tasks, by a running diagonal Fisher, are pulled back to where they were.

Paper: Chaudhry, Dokania, Ajanthan, Torr, "Riemannian Walk for Incremental Learning: Understanding Forgetting and
Intransigence". Official repository: facebookresearch/agem (MIT); in this setting RaptorMai/online-continual-learning
(no licence).  Differs: the Fisher is made of the gradients of the cross-entropy alone, and its steps are counted
through the whole stream. ``official`` has the penalty in the Fisher and counts anew in each task: where a task has
fewer than ``fisher_every`` steps, nothing ever becomes important and EWC++ is fine-tuning.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from rwf.data.batch import Batch, Boundary
from rwf.errors import UserError
from rwf.methods.finetune import Finetune
from rwf.parts.fisher import RunningFisher
from rwf.parts.settings import not_negative


@dataclass(kw_only=True, eq=False, repr=False)
class EWCpp(Finetune):
    """Cross-entropy + strength * sum of importance * (w - reference)^2; the penalty begins with the second task."""

    strength: float = 100.0
    """Weight of the penalty (lambda)."""
    fisher_weight: float = 0.9
    """Weight of a new Fisher against the running one (alpha)."""
    fisher_every: int = 50
    """Steps whose gradients make a new Fisher."""
    consolidate_every: int = 0
    """Take weights and Fisher as reference every so many steps instead of when a task ends; then no boundaries."""
    official: bool = False
    """The published counter and Fisher."""

    toy_options = {"fisher_every": 4}
    paper_options = {
        **Finetune.paper_options,
        "strength": 100.0,
        "fisher_weight": 0.9,
        "fisher_every": 50,
        "official": True,
    }

    @property
    def needs(self) -> frozenset[str]:
        return super().needs | (frozenset() if self.consolidate_every else {"boundaries"})

    def _check_numbers(self) -> None:
        super()._check_numbers()
        not_negative(strength=self.strength)
        if self.consolidate_every < 0:
            raise UserError(f"consolidate_every is {self.consolidate_every}; give steps, or 0 for the ends of tasks.")

    def setup(self) -> None:
        super().setup()
        self.fisher = RunningFisher(alpha=self.fisher_weight, every=self.fisher_every, official=self.official)

    def backward(self, batch: Batch, rows: Tensor) -> Tensor:
        assert self.classifier is not None
        begun = self.classifier.begun.clone()
        value, weights = super().backward(batch, rows), self.trained()
        self.fisher.begin_rows("classifier.weight", self.classifier.weight, self.classifier.begun & ~begun)
        if not self.official:
            self.fisher.accumulate(weights)
        value = value + self.fisher.add_penalty(weights, self.strength).to(value)
        if self.official:
            self.fisher.accumulate(weights)
        return value

    def update(self, batch: Batch, rows: Tensor) -> dict[str, float]:
        notes = super().update(batch, rows)
        if self.consolidate_every and (self.step_count + 1) % self.consolidate_every == 0:
            self.fisher.consolidate(self.trained())
        return notes

    def on_boundary(self, boundary: Boundary) -> None:
        if self.step_count and not self.consolidate_every:
            self.fisher.consolidate(self.trained())
        super().on_boundary(boundary)
