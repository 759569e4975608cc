"""Small things to test with: a learner on a small random ViT, and its stream."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from rwf.data.stream import Stream
from rwf.parts.learner import Learner
from rwf.run.check import Subject
from rwf.run.toy import toy_catalog


def toy(method: str = "linear_probe", *, seed: int = 0, batch_size: int = 16, **options: Any) -> tuple[Learner, Stream]:
    """A method on the toy stream of ten colours in two tasks, in float64."""
    return Subject(method, options).make(seed=seed, batch_size=batch_size, double=True)


def toy_folder(root: Path, train: int, test: int) -> Path:
    """The toy pictures as a person would have them, so many a class: train/CLASS/*.png and test/CLASS/*.png."""
    catalog = toy_catalog(train, test)
    for split, pictures in (("train", catalog.train), ("test", catalog.test)):
        for i, label in enumerate(pictures.labels):
            path = root / split / catalog.classes[label] / f"{i:04d}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(np.asarray(pictures.picture(i).permute(1, 2, 0))).save(path)
    return root
