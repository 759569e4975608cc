"""A folder of toy pictures, as a person would have it, and options for a quick run over it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from rwf.options import RunOptions
from rwf.run.toy import BACKBONE, toy_catalog


@pytest.fixture(scope="session")
def folder(tmp_path_factory) -> Path:
    """train/CLASS/*.png and test/CLASS/*.png: ten classes, ten and four pictures each."""
    root = tmp_path_factory.mktemp("toy")
    catalog = toy_catalog(10, 4)
    for split, pictures in (("train", catalog.train), ("test", catalog.test)):
        for i, label in enumerate(pictures.labels):
            path = root / split / catalog.classes[label] / f"{i:04d}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(np.asarray(pictures.picture(i).permute(1, 2, 0))).save(path)
    return root


@pytest.fixture
def quick(folder, tmp_path):
    """Options of a run of fifteen steps in five tasks, saved after every step."""

    def make(**changes) -> RunOptions:
        options = {
            "benchmark": f"folder:{folder}",
            "backbone": BACKBONE,
            "out": tmp_path / "run",
            "tasks": 5,
            "batch_size": 8,
            "threads": 1,
            "anytime": 1,
            "checkpoint_every": 0.0,
        }
        return RunOptions(**(options | changes))

    return make
