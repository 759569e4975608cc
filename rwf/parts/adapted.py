"""Base of the methods that train adapters with a temporary head and answer by prototypes: APER, EASE."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from rwf.data.batch import Batch, Boundary
from rwf.parts.gradient import GradientLearner
from rwf.parts.settings import not_negative
from rwf.parts.spaces import SpaceSums
from rwf.parts.tasks import Tasks
from rwf.vit.adapter import Adapters

LOW = -1e4
"""Score of a class without a prototype: below every cosine."""


@dataclass(kw_only=True, eq=False, repr=False)
class AdaptedPrototypes(GradientLearner):
    """A method fills in ``joined`` (which feature spaces) and ``judge_means`` (how prototypes are compared).

    ``strict``: prototypes are means of the train views' features as they were when each picture came, under weights
    that were still moving. ``official``: of test views under the weights at the task's end, by a second look at the
    whole task, which is taken when an evaluation is asked for and when the task ends; until then its classes have no
    prototype.
    """

    bottleneck: int | None = None
    """Inner width of the adapters; 64, or the ViT's width if less, if not given."""
    adapter_scale: float = 0.1
    """Scale of what an adapter adds."""
    passes: Literal["strict", "official"] = "strict"
    """Prototypes on the way, or by a second look at each task whose weights have moved."""

    @property
    def needs(self) -> frozenset[str]:
        return super().needs | {"boundaries"} | ({"second_look"} if self.passes == "official" else set())

    def setup(self) -> None:
        not_negative(adapter_scale=self.adapter_scale)
        self.answers_while_learning = self.passes == "strict"  # type: ignore[misc]  # of this configuration
        self.tasks = Tasks()
        self.adapters = Adapters(
            width=self.vit.width,
            depth=self.vit.depth,
            bottleneck=min(64, self.vit.width) if self.bottleneck is None else self.bottleneck,
            scale=self.adapter_scale,
            seed=self.seed,
        )
        self.prototypes = SpaceSums(self.joined_width)

    # -- what a method fills in ----------------------------------------------------------------------------------

    @property
    def joined_width(self) -> int:
        """Width of one feature space."""
        return self.vit.feature_width

    @property
    def adapting(self) -> bool:
        """Whether the running task trains its adapters."""
        return True

    def joined(self, x: Tensor, own: Tensor) -> Tensor:
        """Features in all spaces; ``own`` are those of the adapters in training.  # B 3 P P, B d -> B T d"""
        raise NotImplementedError

    def judge_means(self, features: Tensor, means: Tensor, task_of: Tensor) -> Tensor:
        """Scores of features against prototypes and the tasks of their classes.  # B T d, C T d, C -> B C"""
        raise NotImplementedError

    def end_task(self) -> None:
        """A task is over and another begins."""

    # -- the verbs -----------------------------------------------------------------------------------------------

    def features(self, x: Tensor) -> Tensor:
        return self.vit.features(x, plug=self.adapters if self.adapting else self.adapters.as_they_are())

    def update(self, batch: Batch, rows: Tensor) -> dict[str, float]:
        self.tasks.meet(len(self.classes), len(batch))
        if self.adapting:
            return super().update(batch, rows)
        with torch.no_grad(), self.autocast():
            x = self.cast(batch.view(kind="train" if self.passes == "strict" else "test"))
            self.take_in(self.joined(x, self.features(x)), rows)
        return {}

    def loss(self, batch: Batch, rows: Tensor) -> Tensor:
        x = self.cast(batch.view())
        own = self.features(x)
        if self.passes == "strict":
            with torch.no_grad():
                self.take_in(self.joined(x, own.detach()), rows)
        return self.cross_entropy(self.classify_features(own, rows), rows)

    def take_in(self, features: Tensor, rows: Tensor) -> None:
        """Answers first, where these are the features that would answer; then they join the prototypes."""
        if self.passes == "strict":
            self.answered = self.judge(features)
        self.prototypes.add(features, rows)

    def answer(self, x: Tensor) -> Tensor:
        return self.judge(self.joined(x, self.features(x)))

    def judge(self, features: Tensor) -> Tensor:
        """Scores of features over all classes.  # B T d -> B C"""
        scores = features.new_full((len(features), len(self.classes)), LOW, dtype=torch.float64)
        seen = self.prototypes.seen.nonzero().squeeze(1)
        if len(seen):
            means = self.prototypes.means[seen]
            task_of = torch.tensor(self.tasks.of, device=features.device)[seen]
            scores[:, seen] = self.judge_means(features[:, : means.shape[1]].double(), means, task_of)
        return scores

    # -- second looks --------------------------------------------------------------------------------------------

    def prepare(self) -> None:
        if self.passes == "official" and self.adapting and self.tasks.looked_at != self.picture_count:
            self.look()

    @torch.no_grad()
    def look(self) -> None:
        """Prototypes of the running task's classes, as far as they have been met, under the weights as they are."""
        found = SpaceSums(self.joined_width).to(self.device)
        for batch in self.told.second_look(self.tasks.now):
            known = [i for i, label in enumerate(batch.labels) if label in self._row_of]
            if known:
                with self.autocast():
                    x = self.cast(batch.view(kind="test"))[known]
                    features = self.joined(x, self.features(x))
                found.add(features, self.rows([batch.labels[i] for i in known]))
        self.prototypes.replace(found)
        self.tasks.looked_at = self.picture_count

    def on_boundary(self, boundary: Boundary) -> None:
        if self.tasks.pictures and boundary.task != self.tasks.now:
            self.prepare()
        if self.tasks.enter(boundary.task, len(self.classes)):
            self.end_task()
        super().on_boundary(boundary)
        self.tasks.meet(len(self.classes))
