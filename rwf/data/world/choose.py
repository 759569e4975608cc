"""How the symbols were chosen: a measure of how alike two silhouettes are, and the rule that used it.

``python -m rwf.data.world.choose`` prints the pre-training list that symbols.py holds (some minutes).
"""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Iterable, Sequence

import numpy as np
from PIL import Image, ImageFilter

from rwf.data.world.glyphs import FONTS, affine, fonts_of, has, ink, load_font, silhouette
from rwf.data.world.symbols import STREAM

STREAM_LIMIT = 78  # no two stream symbols are more alike than this (percent)
LIMIT = 72  # nor a pre-training symbol and anything else
TURNS = (-30, -20, -10, 0, 10, 20, 30)  # the difference of two placements; most differ by less
SIDE = 24

# Fine patterns, presentation forms, boxes, dice-like series; and emblems of creeds and states (2625-262d).
EXCLUDED = (
    (0x2460, 0x2500), (0x2500, 0x25A0), (0x2625, 0x262E), (0x2630, 0x2638), (0x268A, 0x2690), (0x2776, 0x2794),
    (0x2800, 0x2900), (0x4DC0, 0x4E00), (0xFB00, 0xFE00), (0xFE70, 0xFF00), (0x1D300, 0x1D360), (0x1EE00, 0x1EF00),
    (0x1F030, 0x1F100),
)  # fmt: skip


def _look(mask: Image.Image) -> np.ndarray:
    """A band of spatial frequencies (strokes, not areas), small, with norm 1.  # SIDE*SIDE"""
    fine, coarse = (
        np.asarray(
            mask.filter(ImageFilter.GaussianBlur(r)).resize((SIDE, SIDE), Image.Resampling.BOX), dtype=np.float32
        )
        for r in (1.5, 4)
    )
    band = fine - coarse
    band -= band.mean()
    return band / np.linalg.norm(band)


def likeness(chars: Sequence[str], font: str | None = None) -> np.ndarray:
    """How alike each two are: the greatest normalised correlation over turns, sizes, stretches and small shifts.

    A plain correlation of blurred glyphs calls a heart and a yen sign alike, because both are dark in the middle;
    the band that ``_look`` keeps ranks pairs as a person does (O and theta .92, E and F .87, 3 and 8 .78, heart and
    spade .24).  # N N
    """
    sources = [
        silhouette(c, font if font and has(c, font) else fonts_of(c)[0]).resize((88, 88), Image.Resampling.BOX)
        for c in chars
    ]
    still = np.stack([_look(affine(s, 64, turn=0, wide=63, high=63, shear=0, x=32, y=32)) for s in sources])
    still = still.reshape(len(chars), -1)
    alike = np.full((len(chars), len(chars)), -1, dtype=np.float32)
    for turn in TURNS:
        for size in (55, 63, 71):
            for stretch in (90, 100, 111):
                wide, high = size * stretch // 100, size * 100 // stretch
                looks = [_look(affine(s, 64, turn=turn, wide=wide, high=high, shear=0, x=32, y=32)) for s in sources]
                for step in ((0, 0), (0, 1), (1, 0), (0, -1), (-1, 0)):
                    moved = np.stack([np.roll(look, step, (0, 1)).ravel() for look in looks])
                    np.maximum(alike, moved @ still.T, out=alike)
    return np.maximum(alike, alike.T)


KIN = frozenset(
    "AIRPLANE ANCHOR BALLOT BIOHAZARD CHECK DIE ENVELOPE FEMALE FLAG FLORETTE GEAR HEART HOUSE KNIGHT MALE NOTE NOTES "
    "PEACE PENCIL QUEEN QUOTATION RADIOACTIVE RECYCLING ROOK SCISSORS SHAMROCK SKULL SNOWFLAKE SPADE STAR SUN TAURUS "
    "TELEPHONE UMBRELLA WHEELCHAIR YANG".split()
)
"""Words in the Unicode names of the stream's pictograms: whatever shows the same thing otherwise is left out."""


def candidates() -> list[str]:
    """Characters of DejaVu Sans Bold that have a name, no decomposition, and neither too little nor too much ink."""
    found = []
    for code in range(0x21, 0x1F700):
        char = chr(code)
        if unicodedata.category(char) not in {"Lu", "Ll", "Lo", "Nd", "Nl", "Sm", "So", "Sc", "Po"}:
            continue
        if unicodedata.normalize("NFKD", char) != char or any(a <= code < b for a, b in EXCLUDED):
            continue
        if KIN & set(unicodedata.name(char, "").split()):
            continue
        if has(char, FONTS[0]) and load_font(FONTS[0]).getmask(char).getbbox() and _fair(char):
            found.append(char)
    return found


def _fair(char: str) -> bool:
    mask = silhouette(char, FONTS[0])
    left, top, right, bottom = mask.getbbox() or (0, 0, 1, 1)
    wide, high = right - left, bottom - top
    return 8 <= 100 * ink(mask) // (255 * 128 * 128) <= 80 and 2 * wide < 5 * high and 2 * high < 5 * wide


def choose() -> list[str]:
    """Candidates in code point order, each kept if it is unlike the stream's symbols and all kept before."""
    stream = list(STREAM.values())
    rest = [char for char in candidates() if char not in stream]
    alike = likeness(stream + rest)
    kept: list[int] = []
    for i in range(len(stream), len(alike)):
        if (100 * alike[i, [*range(len(stream)), *kept]]).max() < LIMIT:
            kept.append(i)
    return [(stream + rest)[i] for i in kept]


def worst(chars: Sequence[str], alike: np.ndarray, count: int = 10) -> Iterable[tuple[str, str, int]]:
    """The most alike pairs."""
    order = np.argsort(-np.triu(alike, 1), axis=None)[:count]
    return [(chars[i // len(chars)], chars[i % len(chars)], int(100 * alike.flat[i])) for i in order]


if __name__ == "__main__":
    sys.stdout.write(" ".join(f"{ord(char):x}" for char in choose()) + "\n")
