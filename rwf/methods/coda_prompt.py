"""CODA-Prompt: a picture's prefixes are sums of learned components, weighted by attention to its frozen feature.

Paper: Smith et al., "CODA-Prompt: COntinual Decomposed Attention-based Prompting for Rehearsal-Free Continual
Learning", CVPR 2023. Official repository: GT-RIPL/CODA-Prompt (MIT). Differs: one pass at a constant rate (the
published schedule divides by zero at one epoch), and no more components than the ViT is wide.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from rwf.data.batch import Batch, Boundary
from rwf.parts.gradient import GradientLearner, Reset
from rwf.parts.protocol import MASKED
from rwf.parts.query import frozen_query
from rwf.parts.settings import not_negative
from rwf.vit.components import PromptComponents


@dataclass(kw_only=True, eq=False, repr=False)
class CodaPrompt(GradientLearner):
    """The running task's components and the head are trained; a second, frozen forward makes the query."""

    lr: float = 1e-2
    """Learning rate of the components, the best of five on both of our worlds (docs/defaults.md)."""
    blocks: int | None = None
    """Blocks, from the first, with prompts; 5, or what the ViT has, if not given."""
    pool: int | None = None
    """Components in each of them, shared out among the tasks; 100, or the ViT's width if less, if not given."""
    length: int = 8
    """Keys and values of a prompt, half of each."""
    penalty: float = 0.0
    """Weight of the orthogonality of the components (0.1 in the paper, 0 in the published code)."""
    reset_optimizer: Reset = "features"
    """What is forgotten when a task begins: moments but the head's, so that components stay; published is all."""

    extra_needs = frozenset({"boundaries", "task_count"})
    paper_options = MASKED | {"lr": 0.001, "clip": 0.0, "reset_optimizer": "all"}

    def setup(self) -> None:
        not_negative(penalty=self.penalty)
        self.prompts = PromptComponents(
            width=self.vit.width,
            depth=self.vit.depth,
            tasks=self.told.task_count,
            blocks=range(min(5, self.vit.depth) if self.blocks is None else self.blocks),
            pool=min(100, self.vit.width) if self.pool is None else self.pool,
            length=self.length,
            seed=self.seed,
        )
        self.prompts.enter(0)

    def features(self, x: Tensor) -> Tensor:
        return self.vit.features(x, plug=self.prompts.plug(frozen_query(self.vit, x)))

    def loss(self, batch: Batch, rows: Tensor) -> Tensor:
        loss = super().loss(batch, rows)
        return loss + self.penalty * self.prompts.penalty() if self.penalty else loss

    def on_boundary(self, boundary: Boundary) -> None:
        super().on_boundary(boundary)
        for task in range(len(self.prompts.entered), boundary.task + 1):
            self.prompts.enter(task)
