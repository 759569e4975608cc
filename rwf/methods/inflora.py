"""InfLoRA: a low-rank branch a task, whose inputs are chosen where earlier tasks had none.

Paper: Liang and Li, "InfLoRA: Interference-Free Low-Rank Adaptation for Continual Learning", CVPR 2024. Official
repository: liangyanshuo/InfLoRA, no licence. Differs: ``passes="strict"`` looks at each picture once: the head alone
learns from a task's first pictures, which the branch is then designed from, and the memory of inputs is filled by the
training forwards (the published form, the option ``official``, goes through a task's pictures before and after
training on it); the local heads are one head under the task's mask; rank 8, which has the paper's 1.70 %.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from rwf.data.batch import Batch, Boundary
from rwf.errors import UserError
from rwf.parts.gradient import GradientLearner, Reset
from rwf.parts.masks import MaskKind
from rwf.parts.protocol import MASKED
from rwf.parts.subspace import DualMemories, InputMoments, energy_threshold
from rwf.parts.tasks import Tasks
from rwf.vit.lora import LoRA
from rwf.vit.together import Together


@dataclass(kw_only=True, eq=False, repr=False)
class InfLoRA(GradientLearner):
    """The running branch's up-projections on k and v of all blocks, and the head, are trained."""

    rank: int = 8
    """Inner width of a branch."""
    energy: float = 0.95
    """Share of the first task's inputs that later branches keep out of."""
    last_energy: float = 1.0
    """What this share rises to over the tasks."""
    passes: Literal["strict", "official"] = "strict"
    """Each picture once, or a look at all of a task before and after it is learned."""
    design_after: int = 128
    """Pictures of a task (strict) that its branch is designed from; a task of fewer trains the head alone."""
    mask: MaskKind = "task"
    """Which classes compete in the loss; task makes it one head a task, as published."""
    reset_optimizer: Reset = "features"
    """What is forgotten when a task begins: moments but the head's; published is all."""

    extra_needs = frozenset({"boundaries", "task_count"})
    paper_options = MASKED | {"lr": 0.0005, "clip": 0.0, "passes": "official", "reset_optimizer": "all"}

    @property
    def needs(self) -> frozenset[str]:
        return super().needs | ({"second_look"} if self.passes == "official" else set())

    def setup(self) -> None:
        if not 0 < self.energy <= self.last_energy <= 1:
            raise UserError(f"energy is {self.energy} to {self.last_energy}; give shares in (0, 1] that do not fall.")
        if self.design_after < 1:
            raise UserError(f"design_after is {self.design_after}; a branch is designed from 1 picture or more.")
        width, depth = self.vit.width, self.vit.depth
        self.tasks = Tasks()
        self.moments = InputMoments(width, depth)
        self.memories = DualMemories(width, depth)
        self.lora = LoRA(width=width, depth=depth, rank=self.rank, targets=("k", "v"), train_down=False, seed=self.seed)

    @property
    def trained_before(self) -> int:
        return int(self.lora.folds)

    @property
    def designed(self) -> bool:
        """Whether the running branch has its down-projections."""
        return self.tasks.pictures >= self.design_after if self.passes == "strict" else self.tasks.begun

    def features(self, x: Tensor) -> Tensor:
        return self.vit.features(x, plug=self.lora)

    def loss(self, batch: Batch, rows: Tensor) -> Tensor:
        x = self.cast(batch.view())
        plug = Together(self.lora, self.moments) if self.passes == "strict" else self.lora
        with nullcontext() if self.designed else torch.no_grad():
            features = self.vit.features(x, plug=plug)
        logits = self.classify_features(features, rows)
        self.answered = logits.detach()
        return self.cross_entropy(logits, rows)

    def update(self, batch: Batch, rows: Tensor) -> dict[str, float]:
        if self.passes == "official" and not self.tasks.begun:  # a stream that has no boundaries is one task
            self.begin(0)
        before = self.designed
        notes = super().update(batch, rows)
        self.tasks.meet(len(self.classes), len(batch))
        if self.designed and not before:
            self.design()
        return notes

    def on_boundary(self, boundary: Boundary) -> None:
        super().on_boundary(boundary)
        self.begin(boundary.task)

    def begin(self, task: int) -> None:
        """The running task ends: what it used is remembered, its branch frozen. Another begins."""
        if self.tasks.pictures and task != self.tasks.now:
            if self.passes == "official":
                self.look(self.tasks.now)
            threshold = energy_threshold(self.tasks.now, self.told.task_count, self.energy, self.last_energy)
            self.memories.update_all(self.moments, threshold)
        first = not self.tasks.begun
        if self.tasks.enter(task, len(self.classes)):
            self.lora.fold()
            self.moments.reset()
            first = True
        if first and self.passes == "official":
            self.look(task)
            self.design()

    def design(self) -> None:
        """Down-projections from the inputs that were collected, clear of what is remembered."""
        for block, rows in enumerate(self.memories.designs(self.moments, self.rank)):
            self.lora.set_down(block, rows)

    @torch.no_grad()
    def look(self, task: int) -> None:
        """Collects the inputs of all blocks over a whole task."""
        self.moments.reset()
        for batch in self.told.second_look(task):
            with self.autocast():
                self.vit.features(self.cast(batch.view()), plug=Together(self.lora, self.moments))
