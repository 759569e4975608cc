"""What the styles share: masks grown and moved, patterns, noise and fills, on small squares of mode L or RGB."""

from __future__ import annotations

import math

import numpy as np
from PIL import Image, ImageChops, ImageFilter

from rwf.data.world.dice import Colour, Dice

CANVAS = 128  # side of the square that styles draw on; the picture is half of that

Mask = Image.Image  # mode L, CANVAS x CANVAS
Picture = Image.Image  # mode RGB, CANVAS x CANVAS


def flat(colour: Colour) -> Picture:
    return Image.new("RGB", (CANVAS, CANVAS), colour)


def over(picture: Picture, top: Picture | Colour, mask: Mask) -> Picture:
    """``top`` laid on the picture where the mask is white; the picture itself changes."""
    picture.paste(top, (0, 0, CANVAS, CANVAS), mask)
    return picture


def grow(mask: Mask, by: int) -> Mask:
    """What Pillow's MaxFilter(2 * by + 1) gives, in a thirtieth of its time."""
    here = np.asarray(mask)
    for _ in "xy":
        most = here.copy()
        for step in range(1, by + 1):
            np.maximum(most[step:], here[:-step], out=most[step:])
            np.maximum(most[:-step], here[step:], out=most[:-step])
        here = most.T  # turned, so that the second round works on the other axis and turns it back
    return Image.fromarray(np.ascontiguousarray(here))


def shrink(mask: Mask, by: int) -> Mask:
    """The dark parts grown."""
    return ImageChops.invert(grow(ImageChops.invert(mask), by))


def rim(mask: Mask, outside: int, inside: int) -> Mask:
    """The band around the contour."""
    return ImageChops.subtract(grow(mask, outside), shrink(mask, inside))


def blur(mask: Image.Image, radius: int) -> Image.Image:
    return mask.filter(ImageFilter.GaussianBlur(radius))


def shift(mask: Mask, right: int, down: int) -> Mask:
    """Moved, with black coming in."""
    moved = Image.new(mask.mode, mask.size)
    moved.paste(mask, (right, down))
    return moved


def both(one: Mask, two: Mask) -> Mask:
    return ImageChops.multiply(one, two)


def without(one: Mask, two: Mask) -> Mask:
    return ImageChops.multiply(one, ImageChops.invert(two))


def grid() -> tuple[np.ndarray, np.ndarray]:
    """x and y of every pixel, int32."""
    y, x = np.mgrid[0:CANVAS, 0:CANVAS].astype(np.int32)
    return x, y


def along(degrees: int) -> np.ndarray:
    """The pixel's coordinate in a direction, in 1/64 pixel, so that patterns stay whole numbers."""
    x, y = grid()
    return x * round(64 * math.cos(math.radians(degrees))) + y * round(64 * math.sin(math.radians(degrees)))


def mask_of(where: np.ndarray) -> Mask:
    """White where the array is true."""
    return Image.fromarray(where.astype(np.uint8) * 255)


def stripes(degrees: int, period: int, width: int, phase: int = 0) -> Mask:
    """Parallel lines ``width`` of every ``period`` pixels wide."""
    return mask_of((along(degrees) + 64 * phase) % (64 * period) < 64 * width)


def noise(dice: Dice, cell: int) -> Mask:
    """Cloudy uniform noise with blobs of about ``cell`` pixels (1: grain)."""
    n = -(-CANVAS // cell)
    field = Image.fromarray(dice.bytes(n, n))
    return field if cell == 1 else field.resize((CANVAS, CANVAS), Image.Resampling.BICUBIC)


def blend(mask: Mask, percent: int) -> Mask:
    """A fainter mask."""
    return mask.point([v * percent // 100 for v in range(256)])


def threshold(mask: Mask, level: int) -> Mask:
    return mask.point([255 * (v >= level) for v in range(256)])


def ramp(dice: Dice, one: Colour, two: Colour) -> Picture:
    """From one colour to the other in a drawn direction."""
    t = along(dice.integer(0, 359))
    t = (t - t.min()) * 255 // max(1, int(t.max() - t.min()))
    return Image.composite(flat(two), flat(one), Image.fromarray(t.astype(np.uint8)))


def grain(picture: Picture, dice: Dice, by: int) -> Picture:
    """The same grey noise of at most ``by`` added to all channels."""
    field = dice.bytes(CANVAS, CANVAS, 1).astype(np.int16) * (2 * by + 1) // 256 - by
    return Image.fromarray(np.clip(np.asarray(picture, dtype=np.int16) + field, 0, 255).astype(np.uint8))


def nearest(dice: Dice, count: int) -> np.ndarray:
    """For every pixel the number of the nearest of ``count`` drawn points: cells of a mosaic.  # H W"""
    points = dice.bytes(count, 2).astype(np.int32) * CANVAS // 256
    x, y = grid()
    return ((x[..., None] - points[:, 0]) ** 2 + (y[..., None] - points[:, 1]) ** 2).argmin(-1)


def borders(cells: np.ndarray) -> Mask:
    """Where the cell number changes to the right or downwards."""
    edge = np.zeros(cells.shape, dtype=bool)
    edge[:, :-1] |= cells[:, :-1] != cells[:, 1:]
    edge[:-1] |= cells[:-1] != cells[1:]
    return mask_of(edge)
