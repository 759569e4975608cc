"""RanPAC: ridge regression on random nonlinear features of the frozen backbone, from sums.

Paper: McDonnell, Gong, Parvaneh, Abbasnejad, van den Hengel, "RanPAC: Random Projections and Pre-trained Models for
Continual Learning", NeurIPS 2023. Official repository: RanPAC/RanPAC (MIT). Differs: no training of adapters on the
first task; the strength of the ridge is not chosen task by task from stored features but from two sets of sums (every
fifth picture is held out of the choice, and is in the weights), whenever the number of pictures has doubled, so it
needs no boundaries; 2000 features by default (10000 there), because solving costs their cube; sums in float64.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from rwf.errors import UserError
from rwf.parts.closed_form import ClosedForm
from rwf.parts.statistics import FeatureStatistics, RandomFeatures, choose_ridge, ridge

STRENGTHS = tuple(10.0**k for k in range(-8, 9))
FIRST_CHOICE = 64
"""Pictures after which the strength is chosen for the first time."""
HELD_OUT = 5
"""One picture in so many is held out of the choice."""


@dataclass(kw_only=True, eq=False, repr=False)
class RanPAC(ClosedForm):
    """Nothing is trained; told nothing; two matrices as wide as the random features."""

    random_features: int = 2000
    """How many random features there are."""
    ridge: float | None = None
    """Strength of the ridge; chosen on held-out pictures of the stream if not given."""

    toy_options = {"random_features": 200}

    def setup(self) -> None:
        if self.ridge is not None and not 0 < self.ridge < float("inf"):
            raise UserError(f"ridge is {self.ridge}; give a finite number above 0, or none to have it chosen.")
        self.project = RandomFeatures(self.vit.feature_width, self.random_features, self.seed)
        super().setup()
        if self.ridge is None:
            self.held_out = self.make_statistics()
        self.chosen = nn.Module()
        self.chosen.register_buffer("strength", torch.tensor(self.ridge or 1.0, dtype=torch.float64))

    @property
    def strength(self) -> Tensor:
        """The ridge in use; a buffer, because which one was chosen last is part of the state."""
        return self.chosen.get_buffer("strength")

    def make_statistics(self) -> FeatureStatistics:
        return FeatureStatistics(self.random_features, second_moment=True)

    def features(self, x: Tensor) -> Tensor:
        return self.project(super().features(x))

    def take_in(self, features: Tensor, rows: Tensor) -> None:
        if self.ridge is not None:
            self.statistics.add(features, rows)
            return
        number = self.picture_count + torch.arange(len(rows), device=rows.device)  # of each picture, from 0
        start = 0
        for stop in [i + 1 for i, n in enumerate(number.tolist()) if _is_choice(n + 1)] + [len(rows)]:
            part, out = slice(start, stop), number[start:stop] % HELD_OUT == HELD_OUT - 1
            self.statistics.add(features[part][~out], rows[part][~out])
            self.held_out.add(features[part][out], rows[part][out])
            if stop > start and _is_choice(int(number[stop - 1]) + 1):
                self.strength.fill_(choose_ridge(self.statistics, self.held_out, STRENGTHS))
            start = stop

    def solve(self) -> Callable[[Tensor], Tensor]:
        everything = self.statistics if self.ridge is not None else self.statistics + self.held_out
        weights = ridge(everything, float(self.strength))
        return lambda features: features @ weights.T


def _is_choice(pictures: int) -> bool:
    """Whether this number is the first one, doubled any number of times."""
    times, rest = divmod(pictures, FIRST_CHOICE)
    return rest == 0 and times > 0 and times & (times - 1) == 0
