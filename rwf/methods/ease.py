"""EASE: one set of adapters a task, prototypes in every set's feature space, missing ones put together.

Paper: Zhou, Sun, Ye, Zhan, "Expandable Subspace Ensemble for Pre-Trained Model-Based Class-Incremental Learning",
CVPR 2024. Official repository: sun-hailong/CVPR24-Ease, no licence file found; the same in sun-hailong/LAMDA-PILOT
(MIT). Differs: ``passes="strict"`` looks at each picture once (the published form, the option ``official``, looks at
every task again for its prototypes); the temporary head's scale is an option and not learned, and the adapters have
no dropout.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from rwf.parts.adapted import AdaptedPrototypes
from rwf.parts.gradient import Reset
from rwf.parts.masks import MaskKind
from rwf.parts.protocol import ADAPTED
from rwf.parts.prototypes import complete_prototypes, reweighted_logits
from rwf.parts.settings import not_negative


@dataclass(kw_only=True, eq=False, repr=False)
class EASE(AdaptedPrototypes):
    """A new set of adapters is trained on each task; a picture is answered in as many forwards as there are sets."""

    alpha: float = 0.1
    """Weight of the spaces other than a class's own."""
    mask: MaskKind = "task"
    """Which classes compete in the temporary head; task makes it one head a task, as published."""
    reset_optimizer: Reset = "features"
    """What is forgotten when a task begins: moments but the head's; published is all."""

    paper_options = ADAPTED | {"reset_optimizer": "all"}

    def setup(self) -> None:
        not_negative(alpha=self.alpha)
        super().setup()

    @property
    def trained_before(self) -> int:
        return self.adapters.kept_sets

    def joined(self, x: Tensor, own: Tensor) -> Tensor:
        with torch.no_grad():
            earlier = [self.vit.features(x, plug=self.adapters.kept(i)) for i in range(self.adapters.kept_sets)]
        return torch.stack([*earlier, own], dim=1)  # B T d

    def judge_means(self, features: Tensor, means: Tensor, task_of: Tensor) -> Tensor:
        return reweighted_logits(features, complete_prototypes(means, task_of), task_of, self.alpha)

    def end_task(self) -> None:
        self.adapters.keep()
