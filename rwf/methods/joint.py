"""Joint: fine-tuning on the same pictures in random order, once. The upper bound of the tables.

Paper: the row "Joint" of Routing without Forgetting, Table 1. Official repository: none was found, so no licence.
Differs: perhaps not at all. The paper does not say whether its row is single-pass; its standard deviation of 0.04 and
its value beside RwF's speak for it, and ours is: every picture is seen once.
"""

from __future__ import annotations

from dataclasses import dataclass

from rwf.methods.finetune import Finetune


@dataclass(kw_only=True, eq=False, repr=False)
class Joint(Finetune):
    """Every weight is trained, on a stream without tasks."""

    stream_order = "iid"
