"""PCR, proxy-based contrastive replay: each picture is contrasted with the class proxies of its own batch.

Paper: Lin, Zhang, Feng, Li, Ye, "PCR: Proxy-based Contrastive Replay for Online Class-Incremental Continual
Learning". Official repository: FelixHuiweiLin/PCR (no licence).  Differs: both views are train views of this package
(there: the picture as it is, and an augmented one); the first batch, before which the memory is empty, is contrasted
with itself (there it is skipped); cosines divide by norms without adding 1e-6.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from rwf.data.batch import Batch
from rwf.errors import UserError
from rwf.methods.er import ER
from rwf.parts.head import HeadKind
from rwf.parts.losses import proxy_contrast
from rwf.parts.masks import MaskKind


@dataclass(kw_only=True, eq=False, repr=False)
class PCR(ER):
    """The rows of a cosine head are the proxies; classes without a picture in the batch do not compete."""

    temperature: float = 0.09
    """Divides the cosines."""
    views: int = 2
    """Views of each picture, of the stream's and of the replayed ones."""

    mask: MaskKind = field(default="batch", init=False)
    window: int = field(default=1, init=False)
    head: HeadKind = field(default="cosine", init=False)
    head_scale: float = field(default=1.0, init=False)
    head_bias: bool = field(default=False, init=False)

    paper_options = {
        **{name: value for name, value in ER.paper_options.items() if name not in ("mask", "head")},
        "temperature": 0.09,
        "views": 2,
        "head_start": "random",
    }

    def _check_numbers(self) -> None:
        super()._check_numbers()
        if not 0 < self.temperature < float("inf"):
            raise UserError(f"temperature is {self.temperature}: cosines are divided by it; give a number above 0.")
        if self.views < 1:
            raise UserError(f"views is {self.views}: each picture needs a view; give 1 or more.")
        self.head_scale = 1 / self.temperature

    def loss(self, batch: Batch, rows: Tensor) -> Tensor:
        replayed = self.memory.draw(self.replay, self.step_count, views=self.views)
        both = batch + replayed
        labels = torch.cat([rows, self.rows(replayed.labels)]).repeat(self.views)
        logits = self.logits(self.cast(torch.cat([both.view(n) for n in range(self.views)])), labels)
        self.answered = logits[: len(batch)].detach()
        return proxy_contrast(logits, labels)

    def remember(self, batch: Batch) -> None:
        self.memory.add(batch, views=self.views)
