"""Base of the methods that learn by gradient: plug, growing head, masked loss, one optimiser for the stream."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import Any, Literal

import torch
from torch import Tensor

from rwf.data.batch import Batch, Boundary
from rwf.errors import UserError
from rwf.parts.head import Head, HeadKind, HeadStart
from rwf.parts.learner import Learner
from rwf.parts.masks import ClassMask, MaskKind, masked_cross_entropy
from rwf.parts.optim import NamedOptimizer, OptimizerKind
from rwf.parts.settings import not_negative
from rwf.vit.sockets import Plug

Reset = Literal["none", "features", "all"]


def is_head(name: str) -> bool:
    """Whether a trained parameter of this name belongs to the head."""
    return name.startswith("classifier.")


@dataclass(kw_only=True, eq=False, repr=False)
class GradientLearner(Learner):
    """Most methods override only ``setup`` (which plug) or ``loss``."""

    lr: float = 1e-3
    """Learning rate of everything but the head."""
    head_lr: float | None = 1.5e-3
    """Learning rate of the head; the same as lr if not given."""
    mask: MaskKind = "window"
    """Which classes compete in the loss."""
    window: int = 1024
    """Pictures that the window mask looks back."""
    head: HeadKind = "cosine"
    """Scores by dot product (linear) or by scaled cosine."""
    head_scale: float = 8.0
    """Scale of the cosine head."""
    head_start: HeadStart = "imprint"
    """First value of a row of the cosine head: the first features of its label, or random."""
    head_bias: bool = True
    """Bias of the linear head."""
    optimizer: OptimizerKind = "adam"
    """Adam, or SGD with momentum."""
    weight_decay: float = 0.0
    """L2 decay of the trained weights."""
    clip: float = 1.0
    """Bound of the gradient's joint norm; 0 for none."""
    reset_optimizer: Reset = "none"
    """Moments that the optimiser forgets when a task begins (then needs boundaries): all but the head's, or all."""

    answers_while_learning = True

    @property
    def needs(self) -> frozenset[str]:
        needs = set(super().needs)
        if self.mask == "task":
            needs |= {"boundaries", "task_classes"}
        if self.mask == "none":
            needs.add("class_count")
        if self.reset_optimizer != "none":
            needs.add("boundaries")
        return frozenset(needs)

    def bind(self, *args: Any, **kwargs: Any) -> GradientLearner:
        self._check_numbers()
        self.plug: Plug | None = None
        self.classifier: Head | None = None
        self.class_mask = ClassMask(self.mask, self.window)
        self.adam = NamedOptimizer(self.optimizer, weight_decay=self.weight_decay)
        super().bind(*args, **kwargs)
        if self.classifier is None:
            self.classifier = self.make_head().to(self.device, self.vit_dtype)
        if self.mask == "none":
            self.classifier.grow(self.told.class_count)
        self.adopt()
        return self

    def _check_numbers(self) -> None:
        not_negative(
            lr=self.lr,
            head_lr=0.0 if self.head_lr is None else self.head_lr,
            clip=self.clip,
            weight_decay=self.weight_decay,
        )
        if not 0 < self.head_scale < float("inf"):
            raise UserError(f"head_scale is {self.head_scale}: scores are multiplied by it; give a number above 0.")
        if self.window < 1:
            raise UserError(f"window is {self.window}; give a number of pictures, 1 or more.")

    @property
    def gradient_steps(self) -> int:
        return self.adam.steps

    # -- what a method may replace -------------------------------------------------------------------------------

    def make_head(self) -> Head:
        return Head(
            self.vit.feature_width,
            kind=self.head,
            bias=self.head_bias,
            start=self.head_start,
            scale=self.head_scale,
            seed=self.seed,
        )

    def features(self, x: Tensor) -> Tensor:
        """What the head reads.  # B 3 P P -> B d"""
        return self.vit.features(x, plug=self.plug)

    def loss(self, batch: Batch, rows: Tensor) -> Tensor:
        """The loss of one batch; leaves in ``self.answered`` the scores that prediction would have given."""
        logits = self.logits(self.cast(batch.view()), rows)
        self.answered = logits.detach()
        return self.cross_entropy(logits, rows)

    def rate_of(self, name: str) -> float:
        """The learning rate of a trained parameter, by its name."""
        return self.head_lr if is_head(name) and self.head_lr is not None else self.lr

    # -- what methods use ----------------------------------------------------------------------------------------

    def classify_features(self, features: Tensor, rows: Tensor | None = None) -> Tensor:
        """Scores of features, in full precision whatever the backbone computes in.  # B d -> B rows

        While learning give the labels' ``rows`` too: those met for the first time then get their beginning.
        """
        assert self.classifier is not None
        with torch.autocast(self.device.type, enabled=False):
            features = features.to(self.classifier.weight.dtype)
            if rows is not None:
                self.classifier.begin(features, rows)
            return self.classifier(features)

    def cross_entropy(self, logits: Tensor, rows: Tensor, reduction: str = "mean") -> Tensor:
        """Cross-entropy under the method's mask, for a term with these labels."""
        allowed = self.class_mask.allowed(rows, logits.shape[1], len(self.classes))
        return masked_cross_entropy(logits, rows, allowed, reduction)

    def backward(self, batch: Batch, rows: Tensor) -> Tensor:
        """Leaves the gradients of one batch in ``.grad`` and gives the value of its loss."""
        with self.autocast():
            loss = self.loss(batch, rows)
        if loss.requires_grad:
            loss.backward()
        return loss.detach()

    def step(self) -> None:
        """One step of the optimiser along the gradients there are."""
        self.adam.step(self.clip)

    def update(self, batch: Batch, rows: Tensor) -> dict[str, float]:
        self.class_mask.watch(rows.tolist())
        return self.learn_once(batch, rows)

    def learn_once(self, batch: Batch, rows: Tensor) -> dict[str, float]:
        """Gradients of one batch and one step along them."""
        value = float(self.backward(batch, rows))
        if not isfinite(value):
            raise UserError(
                f"the loss became {value} at step {self.step_count}; lower the learning rate (lr={self.lr})."
            )
        if any(p.grad is not None for p in self.adam.parameters.values()):
            self.step()
        return {"loss": value}

    def logits(self, x: Tensor, rows: Tensor | None = None) -> Tensor:
        """Scores under the weights as they are being trained; ``rows`` as below.  # B 3 P P -> B rows"""
        return self.classify_features(self.features(x), rows)

    def answer(self, x: Tensor) -> Tensor:
        return self.logits(x)

    def on_boundary(self, boundary: Boundary) -> None:
        if self.mask == "task":
            self.class_mask.enter(self.rows(boundary.classes).tolist())
        if self.reset_optimizer != "none":
            everything = self.reset_optimizer == "all"
            self.adam.reset(name for name in self.trained() if everything or not is_head(name))

    def on_new_classes(self) -> None:
        if self.classifier is not None and self.classifier.grow(len(self.classes)):
            self.adopt()

    def adopt(self) -> None:
        """Hands the optimiser the trained parameters as they are now (after the head grew, or a plug was added)."""
        trained = self.trained()
        self.adam.adopt(trained, {name: self.rate_of(name) for name in trained})
