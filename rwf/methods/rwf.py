"""Routing without Forgetting: in the first blocks, learned queries retrieve prompts from the picture's own tokens.

Paper: Masano, Bellitto, Goswami, van de Weijer, Spampinato, "Routing without Forgetting". Official repository: none
was found, so no licence. Differs: what the paper leaves open is a named option here (docs/routing.md says which reading
is the default, and why); mask, head and rates are those that need no boundaries, ``--protocol paper`` restores the row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from rwf.parts.gradient import GradientLearner
from rwf.parts.protocol import MASKED
from rwf.vit.routing import Routing


@dataclass(kw_only=True, eq=False, repr=False)
class RwF(GradientLearner):
    """Queries, one projection a routed block, and the head are trained."""

    blocks: int = 3
    """How many blocks are routed (k)."""
    placement: Literal["first", "last"] = "first"
    """Which blocks are routed."""
    prompts: int = 30
    """Prompts retrieved in each routed block (m)."""
    reading: Literal["hopfield_pooling", "equations"] = "hopfield_pooling"
    """The library layer that the paper says it used, or its formulas."""
    beta: float | None = None
    """Inverse temperature of the retrieval; 1/sqrt(width) if not given."""
    kv: Literal["identity", "random", "backbone"] = "identity"
    """The untrained projections W_K and W_V: none, random, or the block's own."""
    norm: Literal["none", "plain", "norm1"] | None = None
    """LayerNorm on the tokens before retrieval; as the reading says if not given."""
    train: Literal["q", "out", "direct", "none"] = "q"
    """What is trained: queries and W_Q, queries and an output projection, queries alone, nothing."""
    uniform: bool = False
    """Retrieve the mean token m times instead (with train none; a control)."""
    steps: Literal[1, 2, 3] = 1
    """Retrieval steps."""
    keep: bool = False
    """Keep the prompts in the sequence after the block instead of dropping them."""
    train_kv: Literal["none", "k", "v", "both"] = "none"
    """Train W_K or W_V too (the paper does not)."""
    weigh_as_one: bool = False
    """Take log m off the prompts' attention scores: m equal prompts weigh as one (a control)."""

    paper_options = MASKED | {"lr": 0.0025}

    def setup(self) -> None:
        self.plug = Routing(
            width=self.vit.width,
            depth=self.vit.depth,
            blocks=self.blocks,
            placement=self.placement,
            prompts=self.prompts,
            reading=self.reading,
            beta=self.beta,
            kv=self.kv,
            norm=self.norm,
            train=self.train,
            uniform=self.uniform,
            steps=self.steps,
            keep=self.keep,
            train_kv=self.train_kv,
            weigh_as_one=self.weigh_as_one,
            seed=self.seed,
            backbone=self.vit.timm.blocks,
        )
