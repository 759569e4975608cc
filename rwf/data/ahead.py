"""Worker processes that decode and cut what the stream hands out next; views keep their bits, whoever makes them."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from rwf.data.batch import Batch
from rwf.data.view import View
from rwf.errors import UserError

AHEAD = 2
"""Batches that each worker makes before they are asked for."""

Read = Callable[[np.ndarray], tuple[list[Tensor], list[int]]]
"""Ids to decoded pictures and the ids of those that could be read."""


@dataclass(frozen=True, eq=False)
class Made(Batch):
    """A batch whose first pictures have their first view of a kind already."""

    kind: str = ""
    ready: Tensor = field(default_factory=lambda: torch.empty(0))
    """These views before normalisation.  # R 3 P P, uint8"""

    def view(self, n: int = 0, kind: str = "train") -> Tensor:
        if n or kind != self.kind or not len(self.ready):
            return super().view(n, kind)
        assert isinstance(self.viewer, View)
        made, count = self.viewer.normalized(self.ready), len(self.ready)
        if count == len(self):
            return made
        return torch.cat([made, self.viewer(self.images[count:], self.ids[count:], self.visits[count:], kind)])

    def split(self, size: int) -> Iterator[Batch]:
        for i, part in enumerate(super().split(size)):
            ready = self.ready[i * size : (i + 1) * size]
            yield Made(part.images, part.labels, part.ids, part.viewer, part.visits, self.kind, ready)

    def __add__(self, other: Batch) -> Batch:
        both = super().__add__(other)
        return Made(both.images, both.labels, both.ids, both.viewer, both.visits, self.kind, self.ready)


class Packed(NamedTuple):
    """A batch as it goes from a worker to the run: two tensors, however many pictures."""

    pixels: Tensor  # all pictures one after another
    shapes: list[tuple[int, int, bool]]  # height, width, and whether colours lie beside each other
    ids: list[int]
    ready: Tensor
    error: UserError | None


class Work(Dataset[Packed]):
    """What a worker does for batch number i."""

    def __init__(self, read: Read, view: View, ids: Sequence[np.ndarray], kind: str) -> None:
        self.read, self.view, self.ids, self.kind = read, view, ids, kind

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, i: int) -> Packed:
        try:
            images, ids = self.read(self.ids[i])
            ready = self.view.uint8(images, ids, [0] * len(ids), self.kind)
        except UserError as error:  # raised where the batch is asked for
            return Packed(torch.empty(0), [], [], torch.empty(0), error)
        beside = [image.permute(1, 2, 0).is_contiguous() for image in images]
        flat = [(x.permute(1, 2, 0) if hwc else x).flatten() for x, hwc in zip(images, beside, strict=True)]
        shapes = [(x.shape[1], x.shape[2], hwc) for x, hwc in zip(images, beside, strict=True)]
        return Packed(torch.cat([torch.empty(0, dtype=torch.uint8), *flat]), shapes, ids, ready, None)


def made_ahead(
    read: Read, view: View, ids: Sequence[np.ndarray], kind: str, workers: int
) -> Iterator[tuple[list[Tensor], list[int], Tensor]]:
    """Pictures, the ids that could be read, and their first views of this kind; a batch for each item of ``ids``."""
    if "fork" not in multiprocessing.get_all_start_methods():
        raise UserError("worker processes cannot be forked on this system: use --workers 0.")
    loader = DataLoader(
        Work(read, view, ids, kind),
        batch_size=None,
        num_workers=min(workers, len(ids)),
        prefetch_factor=AHEAD,
        collate_fn=_as_it_is,
        multiprocessing_context="fork",
        generator=torch.Generator(),  # or it would draw from the global one
    )
    for packed in loader:
        if packed.error is not None:
            raise packed.error
        sizes = [3 * height * width for height, width, _ in packed.shapes]
        images = [
            flat.view(height, width, 3).permute(2, 0, 1) if hwc else flat.view(3, height, width)
            for flat, (height, width, hwc) in zip(packed.pixels.split(sizes), packed.shapes, strict=True)
        ]
        yield images, packed.ids, packed.ready


def _as_it_is(packed: Any) -> Any:
    return packed
