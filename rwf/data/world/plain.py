"""The pictures a backbone is pre-trained on: other symbols, placed alike, in plain styles only (two flat colours)."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from rwf.data.world.dice import Colour, Dice
from rwf.data.world.glyphs import SOURCE, fonts_of, place, silhouette
from rwf.data.world.symbols import PRETRAIN

SIDE = 64
STYLES = ("ink", "slate", "tint")
SHAPE = 16  # side of the coarse picture of a symbol
PAIRS = 3072  # colour pairs, a third of each style


@lru_cache(maxsize=1)
def palette() -> np.ndarray:
    """Ground and symbol colours: dark grey on light, light grey on dark, any colour on any other.  # PAIRS 2 3"""
    dice = Dice("plain palette")

    def grey(low: int, high: int) -> Colour:
        level = dice.integer(low, high)
        return level, level, level

    pairs: list[tuple[Colour, Colour]] = []
    for _ in range(PAIRS // len(STYLES)):
        pairs += [(grey(190, 255), grey(0, 90)), (grey(0, 65), grey(160, 255)), dice.pair(80)]
    return np.array(pairs, dtype=np.int16)


def picture(label: int, index: int, seed: int, kind: str = "train", vary: int = 100) -> tuple[np.ndarray, np.ndarray]:
    """One picture of a pre-training class and where its ink is, a pure function of the arguments.

    # 3 SIDE SIDE and SHAPE*SHAPE
    """
    dice = Dice("plain", seed, kind, label, index)
    placed = place(PRETRAIN[label], dice, side=SIDE, vary=vary)
    mask = np.asarray(placed, dtype=np.int16)
    colours = dice.integer(0, PAIRS - 1)
    if not dice.chance(vary):
        colours -= colours % len(STYLES)  # the pair in the first style that is nearest
    ground, symbol = palette()[colours][:, :, None, None]
    pixels = (ground + (symbol - ground) * (mask + (mask >> 7)) // 256).astype(np.uint8)
    return pixels, np.asarray(placed.reduce(SIDE // SHAPE)).ravel()


@lru_cache(maxsize=1)
def shapes() -> np.ndarray:
    """Every class's symbol upright and coarse, 0 to 255: what a network may be asked to redraw.  # classes 256"""
    looks = [silhouette(char, fonts_of(char)[0]).reduce(SOURCE // SHAPE) for char in PRETRAIN]
    return np.stack([np.asarray(look).ravel() for look in looks])


def batch(step: int, size: int, seed: int, vary: int = 100) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The pictures of a training step, each drawn for it alone; their labels; where their ink is.

    # size 3 SIDE SIDE; size; size SHAPE*SHAPE
    """
    first = step * size
    dice = Dice("plain labels", seed, step)
    labels = [dice.integer(0, len(PRETRAIN) - 1) for _ in range(size)]
    pixels, places = zip(*(picture(y, first + i, seed, vary=vary) for i, y in enumerate(labels)), strict=True)
    return np.stack(pixels), np.array(labels), np.stack(places)


def held_out(each: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Pictures of every class that no training step draws, and their labels."""
    labels = np.arange(len(PRETRAIN)).repeat(each)
    return np.stack([picture(int(y), i, seed, "test")[0] for i, y in enumerate(labels)]), labels
