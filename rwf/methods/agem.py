"""A-GEM: a step may not, to first order, raise the loss on the memory; what of it would is projected out.

Paper: Chaudhry, Ranzato, Rohrbach, Elhoseiny, "Efficient Lifelong Learning with A-GEM". Official repository:
facebookresearch/agem (MIT); in this setting RaptorMai/online-continual-learning (no licence), whose reservoir we use
(``memory_rule ring`` is the original's).  Differs: the constraint holds from the second batch on, so that no
boundaries are needed (``wait`` is the official gate: from the second task on); under Adam it holds for the gradient
and only nearly for the step, there as here.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from rwf.data.batch import Batch, Boundary
from rwf.methods.er import ER
from rwf.parts.retrieval import project_gradients
from rwf.parts.tasks import Tasks


@dataclass(kw_only=True, eq=False, repr=False)
class AGEM(ER):
    """The memory gives a direction, never a term of the loss."""

    wait: bool = False
    """Do not project before the second task (needs boundaries)."""

    paper_options = {**ER.paper_options, "wait": True}

    @property
    def needs(self) -> frozenset[str]:
        return super().needs | ({"boundaries"} if self.wait else frozenset())

    def setup(self) -> None:
        super().setup()
        self.tasks = Tasks()

    def on_boundary(self, boundary: Boundary) -> None:
        super().on_boundary(boundary)
        if self.wait:
            self.tasks.enter(boundary.task, len(self.classes))

    def loss(self, batch: Batch, rows: Tensor) -> Tensor:
        (logits,) = self.logits_of(batch, rows)
        return self.cross_entropy(logits, rows)

    def backward(self, batch: Batch, rows: Tensor) -> Tensor:
        value = super().backward(batch, rows)
        if len(self.memory) and not (self.wait and self.tasks.now == 0):
            replayed = self.memory.draw(self.replay, self.step_count)
            labels = self.rows(replayed.labels)
            with self.autocast():
                loss = self.cross_entropy(self.logits(self.cast(replayed.view()), labels), labels)
            weights = list(self.trained().values())
            project_gradients(weights, torch.autograd.grad(loss, weights, allow_unused=True))
        return value
