"""Linear probe: a head on features of the frozen backbone. The fair zero row: all that is left without routing.

Paper: none of its own. Official repository: none, so no licence. Differs: from a probe as it is usually trained by one
pass over a stream, and by the head and mask of the other methods here. What a method with a frozen backbone reaches
beyond this, under the same mask and head, is what its prompts, adapters or low-rank terms gain.
"""

from __future__ import annotations

from dataclasses import dataclass

from rwf.parts.gradient import GradientLearner


@dataclass(kw_only=True, eq=False, repr=False)
class LinearProbe(GradientLearner):
    """Only the head is trained."""
