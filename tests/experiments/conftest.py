"""A folder of toy pictures, and an experiment over it that takes a second a run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from rwf.experiments.asked import Asked
from rwf.run.toy import toy_catalog


@pytest.fixture(scope="session")
def folder(tmp_path_factory) -> Path:
    """train/CLASS/*.png and test/CLASS/*.png: ten classes, eight and two pictures each."""
    root = tmp_path_factory.mktemp("toy")
    catalog = toy_catalog(8, 2)
    for split, pictures in (("train", catalog.train), ("test", catalog.test)):
        for i, label in enumerate(pictures.labels):
            path = root / split / catalog.classes[label] / f"{i:04d}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(np.asarray(pictures.picture(i).permute(1, 2, 0))).save(path)
    return root


@pytest.fixture
def asked(folder, tmp_path):
    """What is asked of an experiment on the toy stream: two tasks, one seed."""

    def make(**changes) -> Asked:
        options = {
            "benchmark": f"folder:{folder}",
            "backbone": "random:32x4",
            "seeds": (0,),
            "tasks": 2,
            "batch_size": 8,
            "threads": 1,
            "anytime": 0,
            "out": tmp_path / "out",
        }
        return Asked(**(options | changes))

    return make
