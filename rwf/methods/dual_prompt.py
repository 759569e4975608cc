"""DualPrompt: prefixes for all pictures in the first blocks, prefixes of the task in the next ones.

Paper: Wang et al., "DualPrompt: Complementary Prompting for Rehearsal-free Continual Learning", ECCV 2022. Official
repository: google-research/l2p (Apache-2.0); the PyTorch form is JH-LEE-KR/dualprompt-pytorch (Apache-2.0). Differs:
keys and values of the chosen prompts keep their axes (the published reshape swaps them with the samples; it is the
option ``official_reshape``), and a test picture's prompts are its own choice, never the majority's of its batch.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from rwf.data.batch import Batch, Boundary
from rwf.parts.gradient import GradientLearner, Reset
from rwf.parts.protocol import MASKED
from rwf.parts.query import frozen_query
from rwf.parts.settings import not_negative
from rwf.parts.tasks import Tasks
from rwf.vit.prompts import DualPrompts


@dataclass(kw_only=True, eq=False, repr=False)
class DualPrompt(GradientLearner):
    """Prompts, keys and the head are trained; a second, frozen forward makes the query."""

    lr: float = 1e-2
    """Learning rate of prompts and keys, among the best of five on both of our worlds (docs/defaults.md)."""
    general_blocks: int = 2
    """Blocks, from the first, with prompts for all pictures."""
    expert_blocks: int | None = None
    """Blocks after these with prompts of the task; 3, or what the ViT has, if not given."""
    general_length: int = 5
    """Keys, and values, of a general prompt."""
    expert_length: int = 5
    """Keys, and values, of a task's prompt."""
    pool: int | None = None
    """Tasks there is room for; as many as there are (which it is then told) if not given."""
    pull: float = 1.0
    """Weight of the term that draws a task's key to its queries."""
    prompt_start: float = 1.0
    """Prompts begin between minus and plus this: 1 as published for PyTorch, less for tokens that are small."""
    official_reshape: bool = False
    """The published layout, which mixes keys, values and samples."""
    reset_optimizer: Reset = "features"
    """What is forgotten when a task begins: moments but the head's, so that old prompts stay; published is all."""

    answers_while_learning = False  # the task's prompts are trained, the chosen ones answer
    paper_options = MASKED | {"lr": 0.0075, "reset_optimizer": "all", "official_reshape": True}

    @property
    def needs(self) -> frozenset[str]:
        return super().needs | {"boundaries"} | ({"task_count"} if self.pool is None else set())

    def setup(self) -> None:
        not_negative(pull=self.pull, prompt_start=self.prompt_start)
        general = self.general_blocks
        expert = self.expert_blocks if self.expert_blocks is not None else min(3, self.vit.depth - general)
        self.tasks = Tasks()
        self.prompts = DualPrompts(
            width=self.vit.width,
            depth=self.vit.depth,
            pool=self.told.task_count if self.pool is None else self.pool,
            general_blocks=range(general),
            expert_blocks=range(general, general + expert),
            general_length=self.general_length,
            expert_length=self.expert_length,
            bound=self.prompt_start,
            official_reshape=self.official_reshape,
            seed=self.seed,
        )

    def features(self, x: Tensor) -> Tensor:
        choice = self.prompts.keys.choose(frozen_query(self.vit, x))
        return self.vit.features(x, plug=self.prompts.plug(choice.ids))

    def loss(self, batch: Batch, rows: Tensor) -> Tensor:
        x = self.cast(batch.view())
        choice = self.prompts.keys.choose(frozen_query(self.vit, x), forced=self.tasks.now)
        logits = self.classify_features(self.vit.features(x, plug=self.prompts.plug(choice.ids)), rows)
        return self.cross_entropy(logits, rows) - self.pull * choice.pull

    def on_boundary(self, boundary: Boundary) -> None:
        if self.tasks.enter(boundary.task, len(self.classes)):
            self.prompts.inherit(boundary.task)
        super().on_boundary(boundary)
