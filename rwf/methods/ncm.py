"""Nearest class mean: the mean frozen feature of each class, and the class whose mean is nearest.

Paper: Mensink, Verbeek, Perronnin, Csurka, "Distance-Based Image Classification: Generalizing to New Classes at
Near-Zero Cost", TPAMI 2013 (frozen ViT features and cosines: Zhou et al., "Revisiting Class-Incremental Learning with
Pre-Trained Models"). Official repository of the latter: zhoudw-zdw/RevisitingCIL, no licence file found.
Differs: one pass over augmented views by default; the official prototypes are of test views.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from rwf.parts.closed_form import ClosedForm
from rwf.parts.prototypes import cosine_logits
from rwf.parts.statistics import nearest_mean


@dataclass(kw_only=True, eq=False, repr=False)
class NCM(ClosedForm):
    """Nothing is trained; told nothing; a sum and a count a class."""

    metric: Literal["cosine", "distance"] = "cosine"
    """Nearest by angle, or by Euclidean distance."""

    second_moment = False

    def solve(self) -> Callable[[Tensor], Tensor]:
        means = self.statistics.means
        measure = cosine_logits if self.metric == "cosine" else nearest_mean
        return lambda features: measure(features, means)
