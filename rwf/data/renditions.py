"""split-renditions: 100 symbols in 20 styles, 64 x 64 pixels, drawn from a seed on first use; synthetic."""

from __future__ import annotations

import hashlib
import os
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import PIL
from rich.console import Console
from rich.progress import Progress
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from rwf.data.catalog import Catalog, build_catalog
from rwf.data.pictures import ArrayStore
from rwf.data.world.dice import Dice
from rwf.data.world.glyphs import font_hashes, place
from rwf.data.world.styles import STYLES, draw
from rwf.data.world.symbols import STREAM
from rwf.errors import UserError
from rwf.files import make_folder, write_bytes

SEED = 0
EDITION = 1  # counted up whenever a change to the drawing changes a pixel
SIDE = 64
TRAIN, TEST = 60, 20  # pictures a class: three of every style, and one
CLASSES = tuple(sorted(STREAM))
PIXELS = "f957b735ff6bc093f0ee3648438cef72fd52b3abcd2461fc22c27fa10353c847"
"""sha256 over all pixels, training pictures first, under the versions that constraints.txt pins."""


def renditions(data_dir: Path | None = None) -> Catalog:
    """The catalog. Its fingerprint covers every pixel, so reports can refuse to mix two drawings.

    The pictures are kept in one file, in ``data_dir``, else in the folder that RWF_CACHE names, else in ~/.cache/rwf.
    """
    pixels, digest, notices = _load_or_draw(cache_folder(data_dir))
    if digest != PIXELS:
        notices.append(
            f"split-renditions is drawn a little differently here (pixels {digest[:12]}, Pillow {PIL.__version__}) "
            f"than with the pinned versions (pixels {PIXELS[:12]}): results on the two must not be mixed."
        )
    splits = []
    for kind, each, part in (("train", TRAIN, slice(None, _count(TRAIN))), ("test", TEST, slice(_count(TRAIN), None))):
        names = [f"{kind}/{name}/{index:02d}" for name in CLASSES for index in range(each)]
        splits.append((names, np.arange(len(CLASSES)).repeat(each), ArrayStore(pixels[part])))
    source = f"synthetic: drawn by rwf (edition {EDITION}, seed {SEED}) with Pillow {PIL.__version__}, pixels {digest}"
    catalog = build_catalog("split-renditions", CLASSES, splits[0], splits[1], source=source, notices=notices)
    return replace(catalog, fingerprint=hashlib.sha256((catalog.fingerprint + digest).encode()).hexdigest())


def picture(kind: str, name: str, index: int, seed: int = SEED) -> np.ndarray:
    """One picture of a class, a pure function of its arguments. Styles take turns with the index.  # 3 SIDE SIDE"""
    dice = Dice("renditions", seed, kind, name, index)
    style = tuple(STYLES)[index % len(STYLES)]
    drawn = draw(place(STREAM[name], dice), style, dice)
    return np.ascontiguousarray(np.asarray(drawn).transpose(2, 0, 1))


def draw_class(name: str) -> np.ndarray:
    """All pictures of a class, those for training first.  # TRAIN+TEST 3 SIDE SIDE"""
    kinds = [("train", i) for i in range(TRAIN)] + [("test", i) for i in range(TEST)]
    return np.stack([picture(kind, name, index) for kind, index in kinds])


def draw_all() -> np.ndarray:
    """Everything, training pictures of all classes first; shows on stderr how it goes.  # N 3 SIDE SIDE"""
    pixels = np.empty((_count(TRAIN + TEST), 3, SIDE, SIDE), dtype=np.uint8)
    console = Console(file=sys.stderr)
    start = time.monotonic()
    with Progress(console=console, disable=not console.is_terminal) as bar:
        for i, drawn in enumerate(
            bar.track(map(draw_class, CLASSES), len(CLASSES), description="drawing split-renditions")
        ):
            pixels[i * TRAIN : (i + 1) * TRAIN] = drawn[:TRAIN]
            pixels[_count(TRAIN) + i * TEST : _count(TRAIN) + (i + 1) * TEST] = drawn[TRAIN:]
    took = time.monotonic() - start
    console.print(f"drew split-renditions: {len(pixels):,} pictures in {took:.1f} s, {len(pixels) / took:.0f}/s")
    return pixels


def _count(each: int) -> int:
    return each * len(CLASSES)


def cache_folder(data_dir: Path | None = None) -> Path:
    """Where drawn pictures are kept."""
    return data_dir or Path(os.environ.get("RWF_CACHE") or "~/.cache/rwf").expanduser()


def _recipe() -> str:
    """What the pixels depend on besides this code: a file drawn with anything else is not used."""
    fonts = ",".join(font_hashes().values())
    return hashlib.sha256(f"{EDITION} {SEED} {PIL.__version__} {fonts}".encode()).hexdigest()


def _load_or_draw(folder: Path) -> tuple[np.ndarray, str, list[str]]:
    """Pixels, their sha256, and what there is to say about the file."""
    recipe = _recipe()
    path = folder / f"split-renditions-{recipe[:12]}.safetensors"
    notices: list[str] = []
    if path.exists():
        found = _load(path)
        if found is not None:
            return *found, notices
        notices.append(f"{path} was damaged and has been drawn again.")
    pixels = draw_all()
    digest = hashlib.sha256(pixels.data).hexdigest()
    try:
        make_folder(folder)
        write_bytes(path, save({"pixels": pixels}, metadata={"sha256": digest, "recipe": recipe}))
    except UserError as error:
        notices.append(f"split-renditions will be drawn again next time, because it could not be kept: {error}")
    return pixels, digest, notices


def _load(path: Path) -> tuple[np.ndarray, str] | None:
    """Pixels and hash, or None where the file is not what was written."""
    try:
        with safe_open(path, "np") as file:
            expected = (file.metadata() or {}).get("sha256", "")
            pixels = file.get_tensor("pixels")
    except (SafetensorError, OSError):
        return None
    digest = hashlib.sha256(np.ascontiguousarray(pixels).data).hexdigest()
    return (pixels, digest) if digest == expected else None
