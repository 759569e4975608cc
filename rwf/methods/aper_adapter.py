"""APER with adapters: adapt once, on the first task; then prototypes of frozen and adapted features together.

Paper: Zhou, Cai, Ye, Zhan, Liu, "Revisiting Class-Incremental Learning with Pre-Trained Models: Generalizability and
Adaptivity are All You Need", IJCV 2024. Official repository: zhoudw-zdw/RevisitingCIL, no licence file found; the same
in sun-hailong/LAMDA-PILOT (MIT). Differs: ``passes="strict"`` looks at each picture once (the published form, the
option ``official``, looks at the first task again for its prototypes); the temporary head's scale is an option and not
learned, and the adapters have no dropout.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from rwf.parts.adapted import AdaptedPrototypes
from rwf.parts.masks import MaskKind
from rwf.parts.protocol import ADAPTED
from rwf.parts.prototypes import cosine_logits


@dataclass(kw_only=True, eq=False, repr=False)
class APERAdapter(AdaptedPrototypes):
    """Adapters are trained on the first task only; it must be told where that ends."""

    lr: float = 1e-2
    """Learning rate of the adapters, the best of five on the embedded world (docs/defaults.md)."""
    mask: MaskKind = "seen"
    """Which classes compete in the temporary head."""

    paper_options = ADAPTED | {"mask": "task"}

    @property
    def joined_width(self) -> int:
        return 2 * self.vit.feature_width

    @property
    def adapting(self) -> bool:
        return self.tasks.now == 0

    def joined(self, x: Tensor, own: Tensor) -> Tensor:
        with torch.no_grad():
            return torch.cat([self.vit.features(x), own], dim=1)[:, None]  # B 1 2d

    def judge_means(self, features: Tensor, means: Tensor, task_of: Tensor) -> Tensor:
        return cosine_logits(features[:, 0], means[:, 0])
