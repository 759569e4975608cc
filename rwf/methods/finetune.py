"""Finetune: the whole network follows the stream, with nothing against forgetting. The lower bound of the tables.

Paper: the row "Finetune" of Routing without Forgetting, Table 1 (full fine-tuning, Adam 1e-4, weight decay 1e-4,
cross-entropy over all classes). Official repository: none was found; these settings are those of
Christina200/online-continual-learning (a fork of RaptorMai/online-continual-learning, no licence). Differs: without
being told anything else the mask is the boundary-free default of this package, and the head's rate is set apart;
``--protocol paper`` restores the row.
"""

from __future__ import annotations

from dataclasses import dataclass

from rwf.parts.gradient import GradientLearner
from rwf.parts.protocol import UNMASKED


@dataclass(kw_only=True, eq=False, repr=False)
class Finetune(GradientLearner):
    """Every weight is trained."""

    lr: float = 1e-4
    """Learning rate of the backbone."""
    weight_decay: float = 0.0
    """L2 decay of the trained weights."""

    paper_options = UNMASKED | {"lr": 0.0001, "weight_decay": 0.0001}

    def setup(self) -> None:
        self.vit.requires_grad_(True)
