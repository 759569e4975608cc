"""split-digits: 1,797 real handwritten digits of 8 x 8 pixels, shipped with the package; for tests and a quick look."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from importlib import resources
from pathlib import Path

import numpy as np
from PIL import Image

from rwf.data.catalog import Catalog, build_catalog
from rwf.data.pictures import ArrayStore
from rwf.errors import UserError
from rwf.seeds import hash32

CLASSES = tuple("0123456789")
SOURCE = (
    "Optical Recognition of Handwritten Digits (E. Alpaydin, C. Kaynak 1998), UCI Machine Learning Repository, "
    "doi 10.24432/C50P49, CC BY 4.0: its test set, as in scikit-learn's load_digits"
)
SHA256 = "6ebb3d2fee246a4e99363262ddf8a00a3c41bee6014c373ed9d9216ba7f651b8"
SIDE = 32  # what the 8 x 8 pixels are enlarged to: strokes, not squares, for a network that knows strokes


def digits(data_dir: Path | None = None) -> Catalog:
    """The catalog: 10 classes in numeric order, four fifths of each for training, by a fixed draw.

    The data are a 265 kB CSV in the package, because scikit-learn would bring scipy and about 45 MB of wheels for them.
    """
    pixels, labels = read()
    test = np.zeros(len(labels), dtype=bool)
    for label in range(len(CLASSES)):
        mine = np.flatnonzero(labels == label)
        order = sorted(mine.tolist(), key=lambda i: (hash32("digits", i), i))
        test[order[: (len(mine) + 2) // 5]] = True
    splits = []
    for chosen in (~test, test):
        where = np.flatnonzero(chosen)
        names = [f"{labels[i]}/{i:04d}" for i in where]
        order = sorted(range(len(where)), key=names.__getitem__)
        splits.append(([names[j] for j in order], labels[where[order]], ArrayStore(pixels[where[order]])))
    catalog = build_catalog("split-digits", CLASSES, splits[0], splits[1], source=SOURCE)
    content = hashlib.sha256(catalog.fingerprint.encode() + SHA256.encode()).hexdigest()
    return replace(catalog, fingerprint=content)


def read() -> tuple[np.ndarray, np.ndarray]:
    """All pictures, uint8 N 3 SIDE SIDE, and their digits, int64 N, in the order of the file."""
    content = resources.files("rwf.data.world").joinpath("digits.csv").read_bytes()
    if hashlib.sha256(content).hexdigest() != SHA256:
        raise UserError("the digits that ship with rwf are damaged: install the package again.")
    table = np.array([line.split(b",") for line in content.split()], dtype=np.int64)  # N 65
    grey = (table[:, :-1] * 255 // 16).astype(np.uint8).reshape(-1, 8, 8)  # 0..16 -> 0..255
    large = [np.asarray(Image.fromarray(g).resize((SIDE, SIDE), Image.Resampling.BICUBIC)) for g in grey]
    return np.stack(large)[:, None].repeat(3, 1), table[:, -1]
