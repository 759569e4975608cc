"""VPT: learned tokens beside the picture's own in the first blocks. What RwF is without retrieval.

Paper: Jia, Tang, Chen, Cardie, Belongie, Hariharan, Lim, "Visual Prompt Tuning", ECCV 2022. Official repository:
KMnP/vpt (CC BY-NC 4.0). Differs: as many prompts in the same blocks as RwF, with its initial values' deviation and
dropped after the attention of their block (VPT-deep replaces them after it, which for the picture's tokens is the
same); one pass over a stream.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from rwf.parts.gradient import GradientLearner
from rwf.parts.protocol import MASKED
from rwf.vit.prompts import StaticPrompts


@dataclass(kw_only=True, eq=False, repr=False)
class VPT(GradientLearner):
    """The prompts and the head are trained."""

    blocks: int = 3
    """How many blocks have prompts."""
    placement: Literal["first", "last"] = "first"
    """Which blocks have prompts."""
    prompts: int = 30
    """Prompts in each of them."""

    paper_options = MASKED | {"lr": 0.0025}  # not a row of the paper's tables: those of its row RwF

    def setup(self) -> None:
        depth, k = self.vit.depth, self.blocks
        blocks = range(k) if self.placement == "first" else range(depth - k, depth)
        self.plug = StaticPrompts(
            width=self.vit.width, depth=depth, blocks=blocks, prompts=self.prompts, seed=self.seed
        )
