"""What replay methods keep of the stream: un-augmented pictures chosen by a rule, within a budget."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from rwf.data.batch import Batch, Viewer
from rwf.errors import UserError
from rwf.seeds import generator


@dataclass(eq=False, slots=True)
class Item:
    """One kept picture. ``visits`` is the number of its train views used so far, so the next one is a new one."""

    image: Tensor  # uint8 3 H W
    label: Hashable
    id: int
    visits: int
    extras: dict[str, Tensor]  # one row each, e.g. the logits at the time; lengths may differ between items

    @property
    def nbytes(self) -> int:
        """Bytes of the picture and its extras, and of the two integers beside them."""
        return self.image.nbytes + sum(row.nbytes for row in self.extras.values()) + 16


@dataclass(frozen=True, eq=False)
class Replay(Batch):
    """A batch out of a memory, with what was stored beside the pictures."""

    extras: Mapping[str, Sequence[Tensor]] = field(default_factory=dict)

    def select(self, positions: Sequence[int]) -> Replay:
        """Some of these pictures, at the same views."""
        return Replay(
            [self.images[i] for i in positions],
            [self.labels[i] for i in positions],
            [self.ids[i] for i in positions],
            self.viewer,
            [self.visits[i] for i in positions],
            {name: [rows[i] for i in positions] for name, rows in self.extras.items()},
        )

    def padded(self, name: str, width: int) -> tuple[Tensor, Tensor]:
        """Rows of an extra as one tensor, and which entries were stored (rows may be shorter).  # B width, B width"""
        rows = self.extras[name]
        values = torch.zeros(len(rows), width, dtype=rows[0].dtype if rows else None)
        known = torch.zeros(len(rows), width, dtype=torch.bool)
        for i, row in enumerate(rows):
            values[i, : len(row)], known[i, : len(row)] = row, True
        return values, known


class Memory:
    """Base of all memories: ``offer`` and ``shrink`` are the rule by which pictures stay.

    Every draw is named (seed, purpose, counter), so a memory that was restored goes on as if nothing had happened.
    """

    def __init__(self, size: int, *, viewer: Viewer, seed: int = 0, max_bytes: int | None = None) -> None:
        if size < 1:
            raise UserError(f"a memory of {size} pictures cannot be replayed; give a memory of 1 or more.")
        if max_bytes is not None and max_bytes < 1:
            raise UserError(f"a memory of {max_bytes} bytes holds no picture; give more, or no bound in bytes.")
        self.size, self.viewer, self.seed, self.max_bytes = size, viewer, seed, max_bytes
        self.items: list[Item] = []
        self.seen = 0
        """Pictures offered so far."""
        self.replays = 0
        """Pictures handed out so far."""
        self.evictions = 0
        """Counts the draws that throw a picture out."""
        self.capacity = size
        """Pictures there is room for; less than ``size`` once the bound in bytes has been met."""

    # -- the rule ----------------------------------------------------------------------------------------------

    def offer(self, item: Item) -> None:
        """Keeps the item, or not, and never more than ``size`` of them."""
        raise NotImplementedError

    def shrink(self) -> None:
        """Throws one picture out, because there are too many bytes."""
        raise NotImplementedError

    def rule_state(self) -> Any:
        """What the rule must remember besides the items, as JSON can hold it."""
        return None

    def restore_rule(self, extra: Any) -> None:
        """Puts ``rule_state`` back; the items are there already."""

    # -- what methods use --------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self.items)

    @property
    def nbytes(self) -> int:
        return sum(item.nbytes for item in self.items)

    def add(self, batch: Batch, *, views: int = 1, **extras: Sequence[Any] | Tensor) -> None:
        """Offers each picture of the batch, of which ``views`` train views have been used; extras by picture."""
        for i, item in enumerate(self.made_of(batch, views, **extras)):
            if self.max_bytes is not None and item.nbytes > self.max_bytes:
                height, width = item.image.shape[1:]
                raise UserError(
                    f"a picture of {width} x {height} takes {item.nbytes} bytes, the memory has room for "
                    f"{self.max_bytes} in all (picture {i} of this batch): give it more bytes."
                )
            self.seen += 1
            self.offer(item)
            while self.max_bytes is not None and self.nbytes > self.max_bytes:
                self.shrink()

    def made_of(self, batch: Batch, views: int, **extras: Sequence[Any] | Tensor) -> list[Item]:
        """The batch as items that own their tensors (a slice would keep all of its storage alive)."""
        rows = {name: [torch.as_tensor(v).detach().cpu() for v in values] for name, values in extras.items()}
        return [
            Item(
                batch.images[i].cpu().clone(),
                batch.labels[i],
                int(batch.ids[i]),
                batch.visits[i] + views,
                {name: row[i].reshape(-1).clone() for name, row in rows.items()},
            )
            for i in range(len(batch))
        ]

    def draw(self, n: int, step: int, *, name: str = "draw", views: int = 1) -> Replay:
        """Up to ``n`` different pictures at random; two draws in one step need two names."""
        return self.hand_out(self.sample(n, step, name=name), views=views)

    def sample(self, n: int, step: int, *, name: str = "draw") -> list[int]:
        """The slots that ``draw`` would hand out; nothing is counted."""
        order = torch.randperm(len(self.items), generator=generator(self.seed, f"memory {name}", step))
        slots: list[int] = order[:n].tolist()
        return slots

    def hand_out(self, slots: Sequence[int], *, views: int = 1) -> Replay:
        """The pictures in these slots, at train views that were not used before (``views`` of them each)."""
        replay = self.look(slots)
        for slot in slots:
            self.items[slot].visits += views
        self.replays += len(slots)
        return replay

    def look(self, slots: Sequence[int]) -> Replay:
        """The pictures in these slots, without counting it (for what must leave the memory as it is)."""
        items = [self.items[slot] for slot in slots]
        return Replay(
            [item.image for item in items],
            [item.label for item in items],
            [item.id for item in items],
            self.viewer,
            [item.visits for item in items],
            {name: [item.extras[name] for item in items] for name in (items[0].extras if items else ())},
        )

    def pick(self, purpose: str, counter: int, high: int) -> int:
        """One named draw out of 0..high-1."""
        return int(torch.randint(high, (1,), generator=generator(self.seed, f"memory {purpose}", counter)))

    def evict(self, slots: Sequence[int]) -> Item:
        """Throws out one of these slots at random."""
        item = self.items.pop(slots[self.pick("evict", self.evictions, len(slots))])
        self.evictions += 1
        return item

    # -- what survives -----------------------------------------------------------------------------------------

    def state(self) -> tuple[dict[str, Tensor], Any]:
        items = self.items
        tensors = {
            "shapes": torch.tensor([item.image.shape for item in items], dtype=torch.long).reshape(-1, 3),
            "pixels": torch.cat([item.image.flatten() for item in items] or [torch.empty(0, dtype=torch.uint8)]),
            "ids": torch.tensor([item.id for item in items], dtype=torch.long),
            "visits": torch.tensor([item.visits for item in items], dtype=torch.long),
        }
        for name in items[0].extras if items else ():
            tensors[f"extra/{name}"] = torch.cat([item.extras[name] for item in items])
            tensors[f"length/{name}"] = torch.tensor([len(item.extras[name]) for item in items])
        extra = {
            "labels": [item.label for item in items],
            "counters": [self.seen, self.replays, self.evictions, self.capacity],
            "rule": self.rule_state(),
        }
        return tensors, extra

    def restore(self, tensors: Mapping[str, Tensor], extra: Any) -> None:
        """Puts ``state()`` back; what is handed out later does not depend on the break."""
        names = [key.removeprefix("extra/") for key in tensors if key.startswith("extra/")]
        rows = {name: tensors[f"extra/{name}"].split(tensors[f"length/{name}"].tolist()) for name in names}
        shapes = tensors["shapes"].tolist()
        pixels = tensors["pixels"].split([c * h * w for c, h, w in shapes])
        self.items = [
            Item(
                pixels[i].reshape(shapes[i]).clone(),
                label,
                int(tensors["ids"][i]),
                int(tensors["visits"][i]),
                {name: rows[name][i].clone() for name in names},
            )
            for i, label in enumerate(extra["labels"])
        ]
        self.seen, self.replays, self.evictions, self.capacity = extra["counters"]
        self.restore_rule(extra["rule"])


class Reservoir(Memory):
    """A uniform sample of all pictures offered: picture number n draws a slot out of 0..n-1."""

    def offer(self, item: Item) -> None:
        if len(self.items) < self.capacity:
            self.items.append(item)
            return
        slot = self.pick("slot", self.seen, self.seen)
        if slot < self.capacity:
            self.items[slot] = item

    def shrink(self) -> None:
        """A random picture goes and its slot with it: what is left is still a uniform sample, a smaller one."""
        self.evict(range(len(self.items)))
        self.capacity = len(self.items)
