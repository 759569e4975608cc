"""The pictures of one split, by position in the sorted catalog, and where their bytes lie (the stores)."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from rwf.data.cache import SmallPictures
from rwf.data.decode import decode, read_bytes


class Store(Protocol):
    """Where the pictures of a split lie. ``sizes`` are their bytes, as stored."""

    sizes: np.ndarray  # int64 [N]

    def picture(self, i: int, name: str) -> Tensor:
        """The decoded picture, uint8 3 H W; ``name`` is for the sentence when it cannot be read."""

    def digest(self, i: int) -> bytes:
        """A hash of the stored bytes: two pictures with one digest are one picture under two names."""


class FileStore:
    """Pictures in files of their own."""

    def __init__(self, paths: Sequence[Path], sizes: np.ndarray) -> None:
        self.paths, self.sizes = paths, sizes

    def picture(self, i: int, name: str) -> Tensor:
        return decode(read_bytes(self.paths[i]), name)

    def digest(self, i: int) -> bytes:
        return hashlib.sha256(read_bytes(self.paths[i])).digest()


class ArrayStore:
    """Pictures that are already decoded: uint8 N 3 H W."""

    def __init__(self, array: np.ndarray | Tensor) -> None:
        self.array = torch.as_tensor(array)  # N 3 H W
        if self.array.dtype != torch.uint8 or self.array.ndim != 4 or self.array.shape[1] != 3:
            raise ValueError(f"pictures must be uint8 N 3 H W, not {self.array.dtype} {tuple(self.array.shape)}")
        self.sizes = np.full(len(self.array), self.array[0].numel() if len(self.array) else 0, dtype=np.int64)

    def picture(self, i: int, name: str) -> Tensor:
        return self.array[i].clone()  # whoever changes it in place changes only this copy

    def digest(self, i: int) -> bytes:
        return hashlib.sha256(np.ascontiguousarray(self.array[i].numpy()).tobytes()).digest()


class PartStore:
    """Some pictures of another store, by their positions there."""

    def __init__(self, store: Store, positions: np.ndarray) -> None:
        self.store, self.positions = store, positions
        self.sizes = store.sizes[positions]

    def picture(self, i: int, name: str) -> Tensor:
        return self.store.picture(int(self.positions[i]), name)

    def digest(self, i: int) -> bytes:
        return self.store.digest(int(self.positions[i]))


class Pictures:
    """One split: labels and names at once, pictures one by one when they are asked for."""

    def __init__(self, names: Sequence[str], labels: Sequence[int] | np.ndarray, store: Store) -> None:
        self.names = names
        self.labels = np.asarray(labels, dtype=np.int64)  # N
        self.store = store
        if not len(self.names) == len(self.labels) == len(store.sizes):
            raise ValueError(f"{len(names)} names, {len(self.labels)} labels, {len(store.sizes)} pictures")
        if any(a >= b for a, b in pairwise(names)):
            raise ValueError("names must be sorted and unique: ids are positions in that order")
        self._small = None if isinstance(store, ArrayStore) else SmallPictures(len(self.labels))

    def __len__(self) -> int:
        return len(self.labels)

    def picture(self, i: int) -> Tensor:
        """Picture ``i`` as uint8 3 H W, the caller's own copy (any strides)."""
        i = int(i)
        if not 0 <= i < len(self):
            raise IndexError(f"picture {i} of {len(self)}")
        picture = None if self._small is None else self._small.get(i)
        if picture is None:
            picture = self.store.picture(i, self.names[i])
            if self._small is not None:
                self._small.put(i, picture)
        return picture

    def part(self, positions: np.ndarray) -> tuple[list[str], np.ndarray, PartStore]:
        """Names, labels and store of the pictures at these positions (sorted): what a smaller split is made of."""
        return [self.names[i] for i in positions.tolist()], self.labels[positions], PartStore(self.store, positions)

    def manifest(self) -> bytes:
        """A hash of names, labels and sizes: changes when a picture comes, goes, moves or grows."""
        total = hashlib.sha256()
        for name, label, size in zip(self.names, self.labels.tolist(), self.store.sizes.tolist(), strict=True):
            total.update(f"{name}\0{label}\0{size}\n".encode())
        return total.digest()
