"""EMA(DER++): DER++ learns, an exponential moving average of its weights answers.

Paper: Soutif-Cormerais, Carta, van de Weijer, "Improving Online Continual Learning Performance and Stability with
Temporal Ensembles". Official repository: AlbinSou/online_ema (MIT).  Differs: DER++ is ours, strictly online and with
one step a batch (there scores are stored and the memory is filled from the whole task when it ends, and each batch is
learned three times), on the published average: rate 0.9 for ``average_warmup`` batches (there those of a task) and the
one step after them, then 0.99. New rows of the head enter the average with their first value. The average itself is
``rwf.parts.averages.Averaged``, which goes before any method that learns by gradient.
"""

from __future__ import annotations

from dataclasses import dataclass

from rwf.methods.der_pp import DERpp
from rwf.parts.averages import Averaged


@dataclass(kw_only=True, eq=False, repr=False)
class EMADERpp(Averaged, DERpp):
    """DER++ with averaged weights."""

    alpha: float = 0.1
    """Weight of the distance to the stored scores."""
    shared_draw: bool = True
    """One draw serves both replay terms, as published."""

    paper_options = {**DERpp.paper_options, "alpha": 0.1, "average_start": 0.9, "average_end": 0.99}
