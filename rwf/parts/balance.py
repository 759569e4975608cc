"""Memories that look at labels: class-balanced reservoir, GDumb's greedy balancer, a ring for each class."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Literal

from rwf.data.batch import Viewer
from rwf.errors import UserError
from rwf.parts.memory import Item, Memory, Reservoir

MemoryRule = Literal["reservoir", "balanced", "greedy", "ring"]


class _ByClass(Memory):
    """Counts pictures by class; too many bytes cost the largest class a picture."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.counts: dict[Hashable, int] = {}
        """Pictures kept by class, in the order in which the classes came in."""

    def put(self, item: Item) -> None:
        self.items.append(item)
        self.counts[item.label] = self.counts.get(item.label, 0) + 1

    def slots(self, label: Hashable) -> list[int]:
        """Where the pictures of a class are, oldest first."""
        return [slot for slot, item in enumerate(self.items) if item.label == label]

    def largest(self) -> Hashable:
        """The class with the most pictures; of several the one that came in first."""
        return max(self.counts, key=lambda label: self.counts[label])

    def forget(self, label: Hashable) -> None:
        """A picture of this class has gone."""
        self.counts[label] -= 1
        if not self.counts[label]:
            del self.counts[label]

    def shrink(self) -> None:
        self.forget(self.evict(self.slots(self.largest())).label)
        self.capacity = len(self.items)

    def rule_state(self) -> Any:
        return {"counts": list(self.counts.items())}

    def restore_rule(self, extra: Any) -> None:
        self.counts = dict(extra["counts"])


class ClassBalanced(_ByClass):
    """Class-balancing reservoir (Chrysakis and Moens 2020): classes that were never the largest enter always.

    A class that is or was the largest is full; its pictures replace each other as in a reservoir of its own.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.met: dict[Hashable, int] = {}
        """Pictures offered by class."""
        self.full: list[Hashable] = []

    def offer(self, item: Item) -> None:
        label = item.label
        self.met[label] = self.met.get(label, 0) + 1
        if len(self.items) < self.capacity:
            self.put(item)
            return
        most = max(self.counts.values())
        largest = {name for name, count in self.counts.items() if count == most}
        self.full = [name for name in self.counts if name in largest or name in self.full]
        if label not in self.full:
            self.forget(self.evict([s for s, kept in enumerate(self.items) if kept.label in largest]).label)
            self.put(item)
            return
        own = self.slots(label)
        slot = self.pick("slot", self.seen, self.met[label])
        if slot < len(own):
            self.items[own[slot]] = item

    def rule_state(self) -> Any:
        return super().rule_state() | {"met": list(self.met.items()), "full": self.full}

    def restore_rule(self, extra: Any) -> None:
        super().restore_rule(extra)
        self.met, self.full = dict(extra["met"]), list(extra["full"])


class GreedyBalanced(_ByClass):
    """GDumb's greedy sampler: a class may hold size // classes pictures, room is taken from the largest class.

    Two guards keep it alive with more classes than room: a class may always hold one picture, and a class that lost
    its last picture counts as new again. ``guards=False`` is the published code, where such a class never returns.
    """

    def __init__(self, *args: Any, guards: bool = True, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.guards = guards

    def forget(self, label: Hashable) -> None:
        if self.guards:
            super().forget(label)
        else:
            self.counts[label] -= 1

    def offer(self, item: Item) -> None:
        quota = max(self.capacity // max(len(self.counts), 1), 1 if self.guards else 0)
        if item.label in self.counts and self.counts[item.label] >= quota:
            return
        if len(self.items) >= self.capacity:
            self.forget(self.evict(self.slots(self.largest())).label)
        self.put(item)


class Ring(_ByClass):
    """The last size // classes pictures of each class met so far (with known classes: A-GEM's first memory)."""

    def offer(self, item: Item) -> None:
        self.put(item)
        quota = max(1, self.capacity // len(self.counts))
        while len(self.items) > self.capacity or self.counts[self.largest()] > quota:
            self.drop_oldest()

    def shrink(self) -> None:
        self.drop_oldest()
        self.capacity = len(self.items)

    def drop_oldest(self) -> None:
        """The largest class loses its oldest picture."""
        label = self.largest()
        del self.items[self.slots(label)[0]]
        self.forget(label)


RULES: dict[str, type[Memory]] = {
    "reservoir": Reservoir,
    "balanced": ClassBalanced,
    "greedy": GreedyBalanced,
    "ring": Ring,
}


def open_memory(rule: MemoryRule, size: int, *, viewer: Viewer, seed: int = 0, max_bytes: int | None = None) -> Memory:
    """An empty memory with this rule."""
    if rule not in RULES:
        raise UserError(f"there is no memory rule {rule!r}; choose one of {', '.join(RULES)}.")
    return RULES[rule](size, viewer=viewer, seed=seed, max_bytes=max_bytes)
