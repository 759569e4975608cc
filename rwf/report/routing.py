"""Routing maps as numbers: what a run kept of A, which queries look sharply, and how A moved over the stream."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rwf.report.folder import read_arrays

Floats = NDArray[np.floating]
START = 0  # the number of the maps from before the stream


@dataclass(frozen=True)
class Routing:
    """A of some test pictures at the start and after each evaluation."""

    ids: NDArray[np.int64]
    """Which test pictures.  # P"""
    pixels: NDArray[np.uint8]
    """How they look to the network.  # P S S 3"""
    prefix: int
    """Tokens before the patches: class and register tokens."""
    patches: int
    maps: dict[int, dict[int, Floats]]
    """By number of evaluations and by block.  # P m L"""

    @staticmethod
    def read(folder: Path) -> Routing | None:
        """What a run left, or None if it left no maps."""
        if not (folder / "pictures.npz").exists():
            return None
        about = read_arrays(folder / "pictures.npz")
        maps = {}
        for path in sorted(folder.glob("[0-9]*.npz")):
            blocks = read_arrays(path)
            maps[int(path.stem)] = {int(name.removeprefix("block ")): a for name, a in blocks.items()}
        pixels = about["pixels"].transpose(0, 2, 3, 1)
        return Routing(about["ids"], pixels, int(about["prefix"]), int(about["patches"]), maps)

    @property
    def blocks(self) -> list[int]:
        return sorted(self.maps[self.last])

    @property
    def last(self) -> int:
        return max(self.maps)

    @property
    def moments(self) -> list[int]:
        """Those to be shown: after the first task, in the middle, at the end."""
        after = [n for n in sorted(self.maps) if n != START] or [START]
        return sorted({after[0], after[(len(after) - 1) // 2], after[-1]})

    def on_patches(self, moment: int, block: int) -> Floats:
        """A without class token and kept prompts, in units of what an even spread over all tokens gives.  # P m S S"""
        a = self.maps[moment][block]
        side = int(self.patches**0.5)
        inner = a[..., self.prefix : self.prefix + self.patches] * a.shape[-1]
        return inner.reshape(*a.shape[:2], side, side)

    def prefix_share(self, moment: int, block: int) -> float:
        """The part of A that goes to class and register tokens."""
        return float(self.maps[moment][block][..., : self.prefix].sum(-1).mean())

    def kept_share(self, moment: int, block: int) -> float:
        """The part of A that goes to prompts of earlier blocks, where these were kept in the sequence."""
        return float(self.maps[moment][block][..., self.prefix + self.patches :].sum(-1).mean())

    def sharpest(self, block: int, count: int) -> list[int]:
        """The queries with the lowest entropy at the end, mean over the pictures."""
        return np.argsort(entropy(self.maps[self.last][block]).mean(0), kind="stable")[:count].tolist()

    def apart(self, moment: int, block: int) -> float:
        """Mean total variation distance between two queries on one picture: near 0 they all see the same."""
        a = self.maps[moment][block]
        m = a.shape[1]
        pairs = [total_variation(a[:, i : i + 1], a[:, i + 1 :]).sum(1).mean() for i in range(m - 1)]
        return float(sum(pairs)) / max(1, m * (m - 1) // 2)

    def moved(self, earlier: int, later: int, block: int) -> float:
        """Mean total variation distance of A between two moments, over pictures and queries: 0 the same, 1 apart."""
        return float(total_variation(self.maps[earlier][block], self.maps[later][block]).mean())


def entropy(a: Floats) -> Floats:
    """Of each row, as a part of the highest there is: 1 looks everywhere alike, 0 at one token.  # ... L -> ..."""
    a = a.astype(float)
    terms = np.where(a > 0, a * np.log(np.where(a > 0, a, 1)), 0)
    return -terms.sum(-1) / np.log(a.shape[-1])


def total_variation(a: Floats, b: Floats) -> Floats:
    """Half the summed difference of two distributions: the share that would have to be moved.  # ... L -> ..."""
    return np.abs(a.astype(float) - b.astype(float)).sum(-1) / 2
