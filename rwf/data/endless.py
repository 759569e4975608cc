"""A person's own stream, of any length: pictures and labels from an iterable, as batches with ids of their own."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rwf.data.batch import Batch, Viewer
from rwf.data.decode import BadImageError, to_picture
from rwf.errors import UserError


class Endless:
    """Batches from an iterable of (image, label). What was seen is a cursor, not a set: memory stays the same.

    "Once" holds because an id is the number of its item and the cursor only goes forward. To go on after a
    stop, give the iterable from where it stood and call ``restore`` first.
    """

    def __init__(self, items: Iterable[Any], viewer: Viewer, batch_size: int, on_bad_image: str = "stop") -> None:
        if batch_size < 1:
            raise UserError(f"the batch size is {batch_size}: give at least 1.")
        if on_bad_image not in ("stop", "skip"):
            raise UserError(f"on_bad_image is {on_bad_image!r}: there are stop and skip.")
        self._items, self.viewer, self.batch_size, self.on_bad_image = items, viewer, batch_size, on_bad_image
        self.cursor = 0  # items that are done with = number of the next one
        self.skipped = 0

    def __iter__(self) -> Iterator[Batch]:
        images: list[Tensor] = []
        labels: list[Hashable] = []
        ids: list[int] = []
        for number, item in enumerate(self._items, self.cursor):
            try:
                image, label = item
            except (TypeError, ValueError) as error:
                raise UserError(f"item {number} of the stream is not a pair (image, label).") from error
            try:
                images.append(to_picture(image, f"image {number}"))
            except BadImageError:
                if self.on_bad_image == "stop":
                    raise
                self.skipped += 1
            else:
                labels.append(to_label(label, f"label {number}"))
                ids.append(number)
            if len(ids) == self.batch_size:
                self.cursor = number + 1
                yield Batch(images, labels, ids, self.viewer)
                images, labels, ids = [], [], []
            elif not ids:  # nothing waits for its batch
                self.cursor = number + 1
        if ids:
            self.cursor = number + 1
            yield Batch(images, labels, ids, self.viewer)

    def certificate(self) -> dict[str, int]:
        """The certificate of the guard, from the cursor alone."""
        seen = self.cursor - self.skipped
        return {
            "images_in_stream": self.cursor,
            "seen": seen,
            "most_visits": min(seen, 1),
            "second_looks": 0,
            "skipped": self.skipped,
        }

    def state(self) -> dict[str, Tensor]:
        """Two numbers for a checkpoint, to be taken between batches."""
        return {"cursor": torch.tensor(self.cursor), "skipped": torch.tensor(self.skipped)}

    def restore(self, state: dict[str, Tensor]) -> None:
        """Back to a checkpoint; the iterable must begin with item number ``cursor``."""
        self.cursor, self.skipped = int(state["cursor"]), int(state["skipped"])


def from_iterable(items: Iterable[Any], viewer: Viewer, batch_size: int = 1, on_bad_image: str = "stop") -> Endless:
    """Iterate it for Batches; ``certificate()``, ``state()`` and ``restore()`` at any time."""
    return Endless(items, viewer, batch_size, on_bad_image)


def to_label(label: Any, name: str = "label") -> Hashable:
    """A label that is equal to itself next time: numbers out of arrays and tensors become Python's own."""
    if isinstance(label, (Tensor, np.ndarray, np.generic)):
        if label.size != 1 if isinstance(label, (np.ndarray, np.generic)) else label.numel() != 1:
            raise UserError(f"{name} has the shape {tuple(label.shape)}: give one label per picture, not a vector.")
        label = label.item()
    try:
        hash(label)
    except TypeError as error:
        raise UserError(f"{name} is of the type {type(label).__name__}: give a string or a number.") from error
    if label != label:
        raise UserError(f"{name} is not a number (NaN): give a string or a number.")
    return label


def to_labels(labels: Any) -> list[Hashable]:
    """The labels of a batch: any iterable, array or tensor of one axis, or a single label."""
    if isinstance(labels, (Tensor, np.ndarray)):
        if labels.ndim > 1:
            raise UserError(f"labels have the shape {tuple(labels.shape)}: give one label per picture.")
        return [to_label(labels)] if labels.ndim == 0 else [to_label(x, f"labels[{i}]") for i, x in enumerate(labels)]
    if isinstance(labels, str) or not isinstance(labels, Iterable):
        return [to_label(labels)]
    return [to_label(x, f"labels[{i}]") for i, x in enumerate(labels)]
