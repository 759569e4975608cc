"""ER-ACE, asymmetric cross-entropy: new pictures do not push the classes of old ones down, replayed ones compete fully.

Paper: Caccia, Aljundi, Asadi, Tuytelaars, Pineau, Belilovsky, "New Insights on Reducing Abrupt Representation Change
in Online Continual Learning". Official repository: pclucas14/AML (no licence).  Differs: classes not met yet compete
in neither term (there in both, which needs the number of classes); the rest is ER's.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor

from rwf.data.batch import Batch
from rwf.methods.er import ER
from rwf.parts.losses import asymmetric_cross_entropy
from rwf.parts.masks import MaskKind


@dataclass(kw_only=True, eq=False, repr=False)
class ERACE(ER):
    """Each of the two terms has a mask of its own, so there is no option for one."""

    mask: MaskKind = field(default="seen", init=False)
    window: int = field(default=1, init=False)

    paper_options = {name: value for name, value in ER.paper_options.items() if name != "mask"}

    def loss(self, batch: Batch, rows: Tensor) -> Tensor:
        replayed = self.memory.draw(self.replay, self.step_count)
        logits, again = self.logits_of(batch, rows, replayed)
        return asymmetric_cross_entropy(logits, rows, again, self.rows(replayed.labels), len(self.classes))
