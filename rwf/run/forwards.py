"""How many pictures a run sends through its backbone, and what for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from torch import Tensor

from rwf.parts.learner import Learner

PHASES = ("learning", "online", "boundaries", "evaluations", "anytime")
"""What pictures are sent for: to learn; to ask before learning, where learning does not say it; to be looked at again
where a task begins; to be tested."""


class Mark(NamedTuple):
    """A moment of the count."""

    through: int
    """Pictures through the backbone."""
    frozen: int
    """Pictures about which a network without anything trained was asked."""
    read: int
    """Of these, answers that were there already."""


class Forwards:
    """Counts the pictures that go through the backbone, or whose answers are read where they were kept."""

    def __init__(self, learner: Learner) -> None:
        self.learner, self.through = learner, 0

    def start(self) -> None:
        self._hook = self.learner.vit.timm.patch_embed.register_forward_hook(self._seen)

    def stop(self) -> None:
        self._hook.remove()

    @property
    def count(self) -> int:
        """All that was asked for; the same with a feature cache and without."""
        return self.through + self.mark().read

    def mark(self) -> Mark:
        frozen = self.learner.vit.frozen
        if frozen is None:
            return Mark(self.through, 0, 0)
        return Mark(self.through, frozen.asked, frozen.asked - frozen.computed)

    def charge(self, tally: dict[str, int], phase: str, since: Mark) -> None:
        """Adds what happened since the mark to a tally that ``no_forwards`` made."""
        now = self.mark()
        tally[phase] += now.through - since.through + now.read - since.read
        tally["frozen"] += now.frozen - since.frozen
        tally["read"] += now.read - since.read

    def _seen(self, _module: Any, inputs: tuple[Tensor, ...], _output: Any) -> None:
        self.through += inputs[0].shape[0]


def no_forwards() -> dict[str, int]:
    """An empty tally: by phase, and of all phases those of a frozen network, and those read instead of computed."""
    return dict.fromkeys((*PHASES, "frozen", "read"), 0)


def totals(tally: Mapping[str, int]) -> dict[str, int]:
    """What a result says of a tally: nothing that hangs on what a cache held."""
    return {
        **{phase: tally[phase] for phase in PHASES},
        "total": sum(tally[phase] for phase in PHASES),
        "of_frozen_network": tally["frozen"],
    }


def computed(tally: Mapping[str, int]) -> int:
    """How many of a tally's forwards were not read."""
    return sum(tally[phase] for phase in PHASES) - tally["read"]
