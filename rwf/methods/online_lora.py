"""Online-LoRA: low-rank pairs that are frozen when the loss is flat, and held by what mattered on hard pictures.

Paper: Wei, Li, Marculescu, "Online-LoRA: Task-free Online Continual Learning via Low Rank Adaptation", WACV 2025.
Official repository: Christina200/Online-LoRA-official, no licence. Differs: a pair is folded exactly and the next one
starts as LoRA does; the hard buffer holds pictures, which together weigh as much as the stream's batch (each on its own
as much, four outweigh it); importance is a sum over pictures; all views are new ones.
``official`` restores what was published: whole batches in the buffer, importance from one answer for the hardest of
them, factors added one by one (which brings cross terms), and a pair of zeros that only Adam's momentum revives.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from rwf.data.batch import Batch
from rwf.parts.gradient import GradientLearner
from rwf.parts.memory import Replay
from rwf.parts.protocol import UNMASKED
from rwf.parts.settings import not_negative
from rwf.parts.shift import HardBuffer, PlateauDetector, RunningImportance, pseudo_label_squares
from rwf.vit.lora import LoRA


@dataclass(kw_only=True, eq=False, repr=False)
class OnlineLoRA(GradientLearner):
    """The pairs on q and v of all blocks and the head are trained."""

    lr: float = 1e-4
    """Learning rate of the pairs: higher ones cost accuracy on the embedded world (docs/defaults.md)."""
    rank: int = 4
    """Inner width of a pair."""
    strength: float = 2000.0
    """Weight of the penalty on what mattered (lambda)."""
    loss_window: int = 5
    """Steps over which the loss must be flat."""
    mean_threshold: float = 6.0
    """Flat is below this mean ..."""
    variance_threshold: float = 0.1
    """... and below this variance of the loss of stream and hard buffer."""
    hard_size: int = 4
    """Entries of the hard buffer: pictures, in all one more cross-entropy; if official batches, each one more."""
    official: bool = False
    """As published, with its defects."""

    extra_needs = frozenset({"memory"})
    forwards_proviso = "whenever the loss turns flat, the pictures of the hard buffer go through once more"
    paper_options = UNMASKED | {"lr": 0.0002, "official": True}

    def setup(self) -> None:
        not_negative(strength=self.strength)
        self.lora = LoRA(width=self.vit.width, depth=self.vit.depth, rank=self.rank, seed=self.seed)
        self.hard = HardBuffer(self.hard_size, whole_batches=self.official, viewer=self.viewer, seed=self.seed)
        self.importance = RunningImportance(official=self.official)
        self.detector = PlateauDetector(
            mean_threshold=self.mean_threshold, variance_threshold=self.variance_threshold, window=self.loss_window
        )

    @property
    def trained_before(self) -> int:
        return int(self.lora.folds)

    def features(self, x: Tensor) -> Tensor:
        return self.vit.features(x, plug=self.lora)

    def loss(self, batch: Batch, rows: Tensor) -> Tensor:
        hard = self.hard.replay()
        hard_rows = self.rows(hard.labels, new=False)
        x = torch.cat([self.cast(part.view()) for part in (batch, hard) if len(part)])
        logits = self.classify_features(self.features(x), torch.cat([rows, hard_rows]))
        self.answered = logits[: len(rows)].detach()
        losses = self.cross_entropy(logits[: len(rows)], rows, "none")
        kept = self.cross_entropy(logits[len(rows) :], hard_rows, "none")
        parts = kept.split(self.hard.lengths if self.official else [len(hard)])
        plain = losses.mean() + sum(part.mean() for part in parts if len(part))
        self._step = (hard, losses.detach(), kept.detach(), float(plain.detach()))
        return plain + self.strength / 2 * self.importance.penalty(self.lora.pairs())

    def update(self, batch: Batch, rows: Tensor) -> dict[str, float]:
        notes = super().update(batch, rows)
        hard, losses, kept, plain = self._step
        if self.detector.push(plain):
            self.consolidate(hard)
        self.hard.refresh(batch, losses, kept)
        return notes | {"folds": int(self.lora.folds)}

    def consolidate(self, hard: Replay) -> None:
        """The loss is flat: what mattered is taken down, the pair is frozen, a new one begins."""
        pairs, squares = self.lora.pairs(), None
        if self.official and len(hard):  # of the published iterators only the first entry, the hardest, has any left
            hard = hard.select(range(self.hard.lengths[0]))
        if len(hard):
            with self.autocast():
                logits = self.logits(self.cast(hard.view()))
            squares = pseudo_label_squares(logits, list(pairs.values()), official=self.official)
        self.importance.update(pairs, squares)
        self.lora.fold(official=self.official)
        if not self.official:  # momentum belonged to the pair that is now frozen
            self.adam.reset([name for name in self.trained() if name.startswith("lora.")])
