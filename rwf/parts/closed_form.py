"""Base of the methods without gradient: sums of frozen features, and a classifier solved from them when asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from rwf.data.batch import Batch
from rwf.parts.learner import Learner
from rwf.parts.statistics import FeatureStatistics


@dataclass(kw_only=True, eq=False, repr=False)
class ClosedForm(Learner):
    """A method fills in ``solve``. The sums are the whole state; what was solved from them is kept beside it."""

    view: Literal["train", "test"] = "train"
    """Which view of a picture is learned: the augmented one, or the one that test pictures get."""

    second_moment: ClassVar[bool] = True
    """Whether the sum of x x^T is needed."""

    def setup(self) -> None:
        self.answers_while_learning = self.view == "train"  # type: ignore[misc]  # of this configuration
        self.statistics = self.make_statistics()
        self._solved: Callable[[Tensor], Tensor] | None = None

    @torch.no_grad()
    def update(self, batch: Batch, rows: Tensor) -> dict[str, float]:
        with self.autocast():
            features = self.features(self.cast(batch.view(kind=self.view)))
        if self.answers_while_learning:
            self.answered = self.judge(features)
        self.take_in(features, rows)
        self._solved = None
        return {}

    def on_new_classes(self) -> None:
        self.statistics.grow(len(self.classes))

    def answer(self, x: Tensor) -> Tensor:
        return self.judge(self.features(x))

    def judge(self, features: Tensor) -> Tensor:
        """Scores of features; solves first if there is something new.  # B F -> B C"""
        if self._solved is None:
            self._solved = self.solve()
        with torch.autocast(self.device.type, enabled=False):
            return self._solved(features.to(self.statistics.sums))

    def restore(self, tensors: dict[str, Tensor], extra: Mapping[str, Any]) -> None:
        super().restore(tensors, extra)
        self._solved = None

    # -- what a method fills in ----------------------------------------------------------------------------------

    def make_statistics(self) -> FeatureStatistics:
        """Empty sums, as wide as the features."""
        return FeatureStatistics(self.vit.feature_width, second_moment=self.second_moment)

    def features(self, x: Tensor) -> Tensor:
        """What the sums are of.  # B 3 P P -> B F"""
        return self.vit.features(x)

    def take_in(self, features: Tensor, rows: Tensor) -> None:
        """Adds features with their classes' rows to the sums.  # B F, B"""
        self.statistics.add(features, rows)

    def solve(self) -> Callable[[Tensor], Tensor]:
        """The classifier of float64 features that follows from the sums; must not change them."""
        raise NotImplementedError(f"{type(self).__name__} has no solve()")
