"""L2P: prompts out of a pool, chosen for each picture by its frozen feature, join the sequence before the first block.

Paper: Wang et al., "Learning to Prompt for Continual Learning", CVPR 2022. Official repository: google-research/l2p
(Apache-2.0); the PyTorch form is JH-LEE-KR/l2p-pytorch (Apache-2.0). Differs: a test picture's prompts are always its
own choice (the published batch-wise choice lets test batches of one task tell that task), and in training too unless
``batchwise`` is set; the class mask needs no boundaries by default, and the optimiser is not made anew at them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from rwf.data.batch import Batch
from rwf.parts.gradient import GradientLearner
from rwf.parts.protocol import MASKED
from rwf.parts.query import frozen_query
from rwf.parts.settings import not_negative
from rwf.vit.forward import Read
from rwf.vit.prompts import Choice, JoiningTokens, PromptPool


@dataclass(kw_only=True, eq=False, repr=False)
class L2P(GradientLearner):
    """The pool, its keys and the head are trained; a second, frozen forward makes the query."""

    pool: int = 10
    """Prompts in the pool."""
    length: int = 5
    """Tokens of a prompt."""
    top_k: int = 5
    """Prompts chosen for a picture."""
    pull: float = 0.1
    """Weight of the term that draws chosen keys to their queries."""
    prompt_start: float = 1.0
    """Prompts begin between minus and plus this: 1 as published for PyTorch, less for tokens that are small."""
    read: Literal["prompts", "picture"] = "prompts"
    """What the head reads: the mean of the prompts' rows, as published, or what it reads without prompts."""
    batchwise: bool = False
    """Train all pictures of a batch with the prompts that most of them choose."""

    paper_options = MASKED | {"lr": 0.0075, "reset_optimizer": "all", "batchwise": True}

    def setup(self) -> None:
        not_negative(pull=self.pull, prompt_start=self.prompt_start)
        self.answers_while_learning = not self.batchwise  # type: ignore[misc]  # of this configuration
        self.prompts = PromptPool(
            width=self.vit.width,
            pool=self.pool,
            length=self.length,
            top_k=self.top_k,
            bound=self.prompt_start,
            seed=self.seed,
        )

    def choose(self, x: Tensor, *, batchwise: bool = False) -> Choice:
        """The prompts of each picture, by what the frozen ViT makes of it.  # B 3 P P"""
        return self.prompts.keys.choose(frozen_query(self.vit, x), batchwise=batchwise)

    def prompted(self, x: Tensor, choice: Choice) -> Tensor:
        """What the head reads once the chosen prompts have joined.  # B 3 P P -> B d"""
        tokens = self.prompts.tokens(choice.ids, self._position())  # B top_k*length d
        read: Read = slice(-tokens.shape[1], None) if self.read == "prompts" else "native"
        return self.vit.features(x, JoiningTokens(tokens), read=read)

    def features(self, x: Tensor) -> Tensor:
        return self.prompted(x, self.choose(x))

    def loss(self, batch: Batch, rows: Tensor) -> Tensor:
        x = self.cast(batch.view())
        choice = self.choose(x, batchwise=self.batchwise)
        logits = self.classify_features(self.prompted(x, choice), rows)
        self.answered = logits.detach()
        return self.cross_entropy(logits, rows) - self.pull * choice.pull

    def _position(self) -> Tensor | None:
        """What the class token gets as its position: the prompts stand beside it."""
        model = self.vit.timm
        if model.pos_embed is None or not model.has_class_token or model.no_embed_class:
            return None
        position: Tensor = model.pos_embed[0, 0]
        return position
