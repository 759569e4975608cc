"""Integers and colours drawn from a 32-bit seed; every parameter of a picture comes from here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from rwf.seeds import hash32

Item = TypeVar("Item")
Colour = tuple[int, int, int]


class Dice:
    """A named sequence of integers.

    Only the raw 64-bit output of PCG64 is used: numpy promises that it never changes, which it does not promise for
    the methods of its ``Generator``.
    """

    def __init__(self, *parts: int | str) -> None:
        self._bits = np.random.PCG64(hash32(*parts))

    def integer(self, low: int, high: int) -> int:
        """low <= n <= high, uniform up to 2**-32."""
        return low + ((int(self._bits.random_raw()) >> 32) * (high - low + 1) >> 32)

    def one(self, items: Sequence[Item]) -> Item:
        return items[self.integer(0, len(items) - 1)]

    def chance(self, percent: int) -> bool:
        return self.integer(0, 99) < percent

    def bytes(self, *shape: int) -> np.ndarray:
        """Uniform uint8 of that shape."""
        count = int(np.prod(shape))
        return self._bits.random_raw(-(-count // 8)).view(np.uint8)[:count].reshape(shape)

    def colour(self, dark: int = 0, light: int = 255) -> Colour:
        """A colour whose luma lies in that range (some try is bound to hit), from vivid to almost grey."""
        while True:
            vivid = self.near((128, 128, 128), 128)
            middle = luma(vivid)
            colour = mix(vivid, (middle, middle, middle), self.integer(0, 80))
            if dark <= luma(colour) <= light:
                return colour

    def pair(self, contrast: int = 80) -> tuple[Colour, Colour]:
        """Two colours whose lumas differ by at least ``contrast`` (0 to 255); either may be the lighter one."""
        while True:
            one, two = self.colour(), self.colour()
            if abs(luma(one) - luma(two)) >= contrast:
                return one, two

    def near(self, colour: Colour, by: int) -> Colour:
        """A colour that differs by at most ``by`` in each channel."""
        r, g, b = (min(255, max(0, c + self.integer(-by, by))) for c in colour)
        return r, g, b


def luma(colour: Colour) -> int:
    """Brightness as Pillow's mode L has it, 0 to 255."""
    r, g, b = colour
    return (299 * r + 587 * g + 114 * b) // 1000


def mix(one: Colour, two: Colour, percent: int) -> Colour:
    """``percent`` of the second colour in the first."""
    r, g, b = ((a * (100 - percent) + c * percent) // 100 for a, c in zip(one, two, strict=True))
    return r, g, b
