"""A stream that any method can learn in a second: coloured patterns, for the conformance suite and quick looks."""

from __future__ import annotations

import colorsys

import numpy as np

from rwf.data.catalog import Catalog, build_catalog
from rwf.data.pictures import ArrayStore

BACKBONE = "random:32x4"
SIZE = 32
CLASSES = 10
TASKS = 2


def toy_catalog(train_per_class: int = 32, test_per_class: int = 8, seed: int = 0) -> Catalog:
    """Ten classes, each a colour under noise; random features tell them apart, however a picture is cropped."""
    rng = np.random.default_rng(seed)
    colours = np.array([colorsys.hsv_to_rgb(c / CLASSES, 0.9, 0.9) for c in range(CLASSES)]) * 255  # C 3

    def split(per_class: int, name: str) -> tuple[list[str], np.ndarray, ArrayStore]:
        labels = np.repeat(np.arange(CLASSES), per_class)
        noise = rng.integers(-40, 41, (len(labels), 3, SIZE, SIZE))
        pictures = np.clip(colours[labels][:, :, None, None] + noise, 0, 255).astype(np.uint8)  # N 3 H W
        return [f"{name}/{i:05d}" for i in range(len(labels))], labels, ArrayStore(pictures)

    classes = [f"colour {i}" for i in range(CLASSES)]
    return build_catalog(
        "toy", classes, split(train_per_class, "train"), split(test_per_class, "test"), source="drawn from a seed"
    )
