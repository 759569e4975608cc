"""Streaming linear discriminant analysis: class means and one covariance of frozen features.

Paper: Hayes and Kanan, "Lifelong Machine Learning with Deep Streaming Linear Discriminant Analysis", CVPR workshops
2020. Official repository: tyler-hayes/Deep_SLDA, no licence. Differs: the covariance around the final means is read
off sums, so neither order nor batching matters (the official one is a running update around the means of the time,
a picture at a time), there is no base phase, and the picture is an augmented view by default.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from rwf.errors import UserError
from rwf.parts.closed_form import ClosedForm
from rwf.parts.statistics import discriminant


@dataclass(kw_only=True, eq=False, repr=False)
class SLDA(ClosedForm):
    """Nothing is trained; told nothing; means and one matrix."""

    shrinkage: float = 1e-4
    """How far the covariance is drawn towards the identity before it is inverted."""

    def setup(self) -> None:
        if not 0 < self.shrinkage <= 1:
            raise UserError(f"shrinkage is {self.shrinkage}; give a number above 0, at most 1.")
        super().setup()

    def solve(self) -> Callable[[Tensor], Tensor]:
        weights, biases = discriminant(self.statistics, self.shrinkage)
        return lambda features: features @ weights.T + biases
