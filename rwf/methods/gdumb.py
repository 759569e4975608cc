"""GDumb: keeps a class-balanced memory, and only when asked trains a network on it, from the pretrained weights on.

Paper: Prabhu, Torr, Dokania, "GDumb: A Simple Approach that Questions Our Progress in Continual Learning". Official
repository: drimpossible/GDumb (no licence); in this setting RaptorMai/online-continual-learning (no licence).
Differs: with more classes than room a class may always hold one picture, and one that lost its last picture can come
back (there it never does); the last, smaller batch of a pass is used; Adam at a constant rate (there SGD with warm
restarts and CutMix, for networks from scratch).  The network is a function of the memory and the seed alone: neither
earlier training nor whether ``prepare`` was called changes what is predicted. Each evaluation after new pictures costs
``epochs`` passes through the memory; the online accuracy is asked of the network of the last evaluation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from rwf.data.batch import Batch
from rwf.errors import UserError
from rwf.methods.finetune import Finetune
from rwf.parts.balance import GreedyBalanced
from rwf.parts.gradient import Reset
from rwf.parts.masks import MaskKind
from rwf.seeds import generator


@dataclass(kw_only=True, eq=False, repr=False)
class GDumb(Finetune):
    """Nothing is learned from the stream itself."""

    memory_size: int = 500
    """Pictures the memory holds."""
    memory_limit: int | None = None
    """Bytes the memory may take, whatever the number of pictures; no bound if not given."""
    epochs: int = 30
    """Passes through the memory."""
    memory_batch: int = 32
    """Pictures a step."""
    clip: float = 10.0
    """Bound of the gradient's joint norm; 0 for none."""

    mask: MaskKind = field(default="seen", init=False)
    window: int = field(default=1, init=False)
    reset_optimizer: Reset = field(default="none", init=False)

    extra_needs = frozenset({"memory"})
    answers_while_learning = False
    toy_options = {"memory_size": 40, "epochs": 5, "memory_batch": 16}
    paper_options = {
        **{name: value for name, value in Finetune.paper_options.items() if name != "mask"},
        "memory_size": 500,
        "epochs": 30,
        "memory_batch": 32,
        "clip": 10.0,
    }

    def _check_numbers(self) -> None:
        super()._check_numbers()
        for name in ("epochs", "memory_batch"):
            if getattr(self, name) < 1:
                raise UserError(f"{name} is {getattr(self, name)}: nothing would be learned; give 1 or more.")

    def setup(self) -> None:
        super().setup()
        self.memory = GreedyBalanced(self.memory_size, viewer=self.viewer, seed=self.seed, max_bytes=self.memory_limit)
        self.pretrained = {name: p.detach().clone() for name, p in self.vit.named_parameters()}
        self.trained_at = 0
        """Pictures the memory had been offered when the network was trained."""

    def update(self, batch: Batch, rows: Tensor) -> dict[str, float]:
        self.memory.add(batch, views=0)
        return {}

    def predict(self, images: Batch | Sequence[Any] | Any, *, chunk: int = 256) -> Tensor:
        self.prepare()
        return super().predict(images, chunk=chunk)

    @torch.enable_grad()
    def prepare(self) -> None:
        if self.trained_at == self.memory.seen:
            return
        self.begin_anew()
        for epoch in range(self.epochs):
            order = torch.randperm(len(self.memory), generator=generator(self.seed, "gdumb", epoch))
            for slots in order.split(self.memory_batch):
                part = self.memory.look(slots.tolist())
                visits = [visit + epoch for visit in part.visits]
                batch = Batch(part.images, part.labels, part.ids, self.viewer, visits)
                super().update(batch, self.rows(batch.labels))
                self.memory.replays += len(batch)
        self.adam.reset()
        self.trained_at = self.memory.seen

    @torch.no_grad()
    def begin_anew(self) -> None:
        """The pretrained weights, a new head, an optimiser without a past."""
        for name, parameter in self.vit.named_parameters():
            parameter.copy_(self.pretrained[name])
        self.classifier = self.make_head().to(self.device, self.vit_dtype)
        self.classifier.grow(len(self.classes))
        self.adopt()
        self.adam.reset()

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        tensors, extra = super().state()
        return tensors, extra | {"trained_at": self.trained_at}

    def restore(self, tensors: dict[str, Tensor], extra: Mapping[str, Any]) -> None:
        super().restore(tensors, extra)
        self.trained_at = extra["trained_at"]
