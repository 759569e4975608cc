"""Online-LoRA's parts: a detector of loss plateaus, a buffer of the hardest pictures, importance from few of them."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from rwf.data.batch import Batch
from rwf.errors import UserError
from rwf.parts.memory import Item, Memory, Replay
from rwf.parts.settings import not_negative
from rwf.parts.shadow import follow


class PlateauDetector:
    """Fires when the loss has come down and is flat, once for each rise of the loss.

    It does not wait for a full window: a first loss below the threshold fires at once.
    """

    def __init__(self, *, mean_threshold: float, variance_threshold: float, window: int = 5) -> None:
        if window < 1:
            raise UserError(f"a loss window of {window} holds nothing; give 1 or more.")
        not_negative(mean_threshold=mean_threshold, variance_threshold=variance_threshold)
        self.mean_threshold, self.variance_threshold = mean_threshold, variance_threshold
        self.losses: deque[float] = deque(maxlen=window)
        self.mean, self.variance = 0.0, 0.0
        self.last_mean, self.last_variance = 0.0, 0.0
        """Of the window when it fired last."""
        self.new_peak = True

    def push(self, loss: float) -> bool:
        """Takes in one step's loss; True where it fires."""
        self.losses.append(loss)
        self.mean = sum(self.losses) / len(self.losses)
        self.variance = sum((value - self.mean) ** 2 for value in self.losses) / len(self.losses)
        if self.mean > self.last_mean + math.sqrt(self.last_variance):
            self.new_peak = True
        if not self.new_peak or self.mean >= self.mean_threshold or self.variance >= self.variance_threshold:
            return False
        self.new_peak = False
        self.last_mean, self.last_variance = self.mean, self.variance
        return True

    def state(self) -> tuple[dict[str, Tensor], Any]:
        return {}, {
            "losses": list(self.losses),
            "last": [self.last_mean, self.last_variance],
            "new_peak": self.new_peak,
        }

    def restore(self, tensors: Mapping[str, Tensor], extra: Any) -> None:
        self.losses.clear()
        self.losses.extend(extra["losses"])
        self.last_mean, self.last_variance = extra["last"]
        self.new_peak = extra["new_peak"]


class HardBuffer(Memory):
    """The entries with the highest loss at their last turn, highest first.

    An entry is one picture, or (as in the published code) a whole batch; ``size`` counts entries.
    """

    def __init__(self, size: int, *, whole_batches: bool = False, **kwargs: Any) -> None:
        super().__init__(size, **kwargs)
        self.whole_batches = whole_batches
        self.lengths: list[int] = []
        """Pictures in each entry."""

    def replay(self, *, views: int = 1) -> Replay:
        """All of it."""
        return self.hand_out(range(len(self.items)), views=views)

    def refresh(self, batch: Batch, losses: Tensor, kept_losses: Tensor) -> None:
        """Keeps the hardest of this batch and of what is here, by the losses of this step, one for each picture."""
        new = self.made_of(batch, 1)
        self.seen += len(new)
        lengths = [len(new)] if self.whole_batches else [1] * len(new)
        lengths += self.lengths
        scores = [float(part.mean()) for part in torch.cat([losses, kept_losses]).detach().cpu().split(lengths)]
        entries = _split([*new, *self.items], lengths)
        best = sorted(range(len(entries)), key=lambda i: -scores[i])[: self.size]
        self.lengths = [lengths[i] for i in best]
        self.items = [item for i in best for item in entries[i]]
        while self.max_bytes is not None and self.nbytes > self.max_bytes and self.lengths:
            del self.items[len(self.items) - self.lengths.pop() :]

    def rule_state(self) -> Any:
        return self.lengths

    def restore_rule(self, extra: Any) -> None:
        self.lengths = list(extra)


def _split(items: Sequence[Item], lengths: Sequence[int]) -> list[list[Item]]:
    rest = iter(items)
    return [[next(rest) for _ in range(length)] for length in lengths]


class RunningImportance:
    """How much each weight matters to the model's own answers on hard pictures, averaged over consolidations.

    ``official``: a consolidation without hard pictures counts too and dilutes the later ones.
    """

    def __init__(self, *, official: bool = False) -> None:
        self.official = official
        self.importance: dict[str, Tensor] = {}
        self.consolidations = 0

    def update(self, parameters: Mapping[str, Tensor], squares: Sequence[Tensor] | None) -> None:
        """Takes in ``pseudo_label_squares`` of these parameters, or None where there was no hard picture."""
        if squares is None and not self.official:
            return
        self.consolidations += 1
        kept = follow(self.importance, parameters, "zeros")
        torch._foreach_mul_(kept, 1 - 1 / self.consolidations)
        if squares is not None:
            torch._foreach_add_(kept, list(squares), alpha=1 / self.consolidations)

    def penalty(self, parameters: Mapping[str, Tensor]) -> Tensor:
        """Sum of importance * w^2 (a term of the loss; LoRA pairs are small)."""
        kept = follow(self.importance, parameters, "zeros")
        return torch.stack([(k * p.square()).sum() for k, p in zip(kept, parameters.values(), strict=True)]).sum()

    def state(self) -> tuple[dict[str, Tensor], Any]:
        return dict(self.importance), {"consolidations": self.consolidations}

    def restore(self, tensors: Mapping[str, Tensor], extra: Any) -> None:
        self.importance = {name: tensor.clone() for name, tensor in tensors.items()}
        self.consolidations = extra["consolidations"]


def pseudo_label_squares(logits: Tensor, parameters: Sequence[Tensor], *, official: bool = False) -> list[Tensor]:
    """Squared gradients of the log-likelihood of the model's own answers, summed over pictures.  # n C

    ``official``: all logits of the batch as one row with one answer, so one gradient in all.
    """
    if official:
        logits = logits.reshape(1, -1)
    total = [torch.zeros_like(p) for p in parameters]
    for i, row in enumerate(logits):
        loss = functional.cross_entropy(row[None], row.detach().argmax()[None])
        last = i + 1 == len(logits)
        grads = torch.autograd.grad(loss, list(parameters), retain_graph=not last, allow_unused=True)
        for kept, grad in zip(total, grads, strict=True):
            if grad is not None:
                kept.addcmul_(grad, grad)
    return total
