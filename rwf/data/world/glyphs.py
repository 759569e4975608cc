"""From a character to its silhouette: finds the fonts, draws the glyph, turns, shears, sizes and places it."""

from __future__ import annotations

import hashlib
import importlib.util
import math
from functools import lru_cache
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

from rwf.data.world.dice import Dice
from rwf.data.world.ink import CANVAS, grow, shrink
from rwf.errors import UserError

FONTS = ("DejaVuSans-Bold", "DejaVuSans", "DejaVuSerif-Bold", "DejaVuSansMono-Bold")
SOURCE = 160  # side of the square that a glyph is first drawn into
INSIDE = 128  # the longer side of the glyph therein


def font_folder() -> Path:
    """Where matplotlib keeps DejaVu (a free licence); matplotlib itself is not imported."""
    spec = importlib.util.find_spec("matplotlib")
    folder = Path((spec.submodule_search_locations or [""])[0] if spec else "", "mpl-data", "fonts", "ttf")
    if not (folder / f"{FONTS[0]}.ttf").is_file():
        raise UserError(
            "the embedded world needs the DejaVu fonts that matplotlib ships, and they are not there: "
            "install matplotlib in the version that constraints.txt names."
        )
    return folder


def font_hashes() -> dict[str, str]:
    """sha256 of each font file, for the fingerprint."""
    folder = font_folder()
    return {name: hashlib.sha256((folder / f"{name}.ttf").read_bytes()).hexdigest() for name in FONTS}


@lru_cache(maxsize=len(FONTS))
def load_font(name: str) -> ImageFont.FreeTypeFont:
    """The basic layout engine: no shaping, so the result does not depend on what else is installed."""
    return ImageFont.truetype(font_folder() / f"{name}.ttf", 160, layout_engine=ImageFont.Layout.BASIC)


def _stamp(char: str, name: str) -> bytes:
    mask, offset = load_font(name).getmask2(char)
    return repr((mask.size, offset)).encode() + bytes(mask)


@lru_cache(maxsize=len(FONTS))
def _missing(name: str) -> bytes:
    return _stamp("\uffff", name)


@lru_cache(maxsize=8192)
def has(char: str, name: str) -> bool:
    """Whether the font has a glyph for it, and not only the box that stands for a missing one."""
    return _stamp(char, name) != _missing(name)


@lru_cache(maxsize=2048)
def fonts_of(char: str) -> tuple[str, ...]:
    return tuple(name for name in FONTS if has(char, name))


@lru_cache(maxsize=4096)
def silhouette(char: str, name: str) -> Image.Image:
    """The glyph, white on black, centred, its longer side INSIDE pixels; thin strokes made a little bolder.

    Bolder, because a style such as hatching needs an inside. A glyph counts as thin if less than a fifth of its ink
    is left after 5 pixels were taken off all around.
    """
    font = load_font(name)
    left, top, right, bottom = font.getbbox(char)
    raw = Image.new("L", (int(right - left), int(bottom - top)))
    ImageDraw.Draw(raw).text((-left, -top), char, fill=255, font=font)
    raw = raw.crop(raw.getbbox())
    width, height = raw.size
    longer = max(width, height)
    size = max(1, width * INSIDE // longer), max(1, height * INSIDE // longer)
    glyph = Image.new("L", (SOURCE, SOURCE))
    glyph.paste(raw.resize(size, Image.Resampling.BICUBIC), ((SOURCE - size[0]) // 2, (SOURCE - size[1]) // 2))
    if 5 * ink(shrink(glyph, 5)) < ink(glyph):
        glyph = grow(glyph, 2)
    return glyph


@lru_cache(maxsize=4096)
def halved(char: str, name: str) -> Image.Image:
    """The silhouette at half the size, for pictures drawn without oversampling."""
    return silhouette(char, name).reduce(2)


def ink(mask: Image.Image) -> int:
    """The sum of a mask's grey values."""
    return sum(value * count for value, count in enumerate(mask.histogram()))


def affine(mask: Image.Image, side: int, *, turn: int, wide: int, high: int, shear: int, x: int, y: int) -> Image.Image:
    """Turns by degrees, scales to percent, shears by percent, and puts the centre at (x, y) of a ``side`` square.

    Cosine and sine are rounded to 2**-16, so that a last bit of the platform's math library cannot matter.
    """
    cos, sin = (round(f(math.radians(turn)) * 65536) / 65536 for f in (math.cos, math.sin))
    a, b = cos * 100 / wide, sin * 100 / wide
    d, e = -sin * 100 / high, cos * 100 / high
    a, b = a - shear / 100 * d, b - shear / 100 * e
    c, f = mask.width / 2 - a * x - b * y, mask.height / 2 - d * x - e * y
    return mask.transform((side, side), Image.Transform.AFFINE, (a, b, c, d, e, f), Image.Resampling.BILINEAR)


def place(char: str, dice: Dice, *, side: int = CANVAS, vary: int = 100) -> Image.Image:
    """One placement of a symbol: font, angle, size, shear and place are drawn; the glyph stays inside the picture.

    ``vary`` is how far, in percent, the placement may be from upright, large and central.
    """
    mask = (silhouette if side == CANVAS else halved)(char, dice.one(fonts_of(char)))
    most = 20 * vary // 100
    turn, shear = dice.integer(-most, most), dice.integer(-most, most)
    longer = dice.integer(84 - 28 * vary // 100, 84) * side // 100  # the glyph's longer side before turning
    stretch = dice.integer(-most // 2, most // 2)
    scale = 100 * longer * SOURCE // (INSIDE * mask.width)
    wide, high = scale * (100 + stretch) // 100, scale * (100 - stretch) // 100
    room = (side - longer) // 2 * 70 * vary // 10000
    x, y = side // 2 + dice.integer(-room, room), side // 2 + dice.integer(-room, room)
    return affine(mask, side, turn=turn, wide=wide, high=high, shear=shear, x=x, y=y)
