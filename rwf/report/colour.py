"""Colours that remain apart for every kind of colour vision: of lines, and of numbers from little to much."""

from __future__ import annotations

import numpy as np

LINES = 6
"""Lines that have a colour of their own; more begin again, with other dashes."""
DASHES = ("", "7 4", "2 4", "10 4 2 4")
MARKS = ("circle", "square", "triangle", "diamond", "cross", "ring")

# From dark violet over teal to yellow, in equal steps of lightness: brighter is more, in grey print too.
_STOPS = np.array(
    [
        [68, 1, 84],
        [71, 44, 122],
        [59, 81, 139],
        [44, 113, 142],
        [33, 144, 141],
        [39, 173, 129],
        [92, 200, 99],
        [170, 220, 50],
        [253, 231, 37],
    ],
    float,
)


def scale(values: np.ndarray) -> np.ndarray:
    """Colours of numbers from 0 to 1; what is outside is as at the end.  # ... -> uint8 ... 3"""
    places = np.clip(np.nan_to_num(values), 0, 1) * (len(_STOPS) - 1)
    low = np.minimum(places.astype(int), len(_STOPS) - 2)
    part = (places - low)[..., None]
    return (_STOPS[low] * (1 - part) + _STOPS[low + 1] * part).round().astype(np.uint8)


def name(colour: np.ndarray) -> str:
    """A colour as pages write it.  # 3"""
    return "#" + "".join(f"{int(c):02x}" for c in colour)


def ink(colour: np.ndarray) -> str:
    """Black or white, whichever is read more easily on a colour (relative luminance as WCAG has it).  # 3"""
    linear = np.where(colour / 255 <= 0.04045, colour / 255 / 12.92, ((colour / 255 + 0.055) / 1.055) ** 2.4)
    luminance = float(linear @ np.array([0.2126, 0.7152, 0.0722]))
    return "#000" if (luminance + 0.05) / 0.05 > 1.05 / (luminance + 0.05) else "#fff"
