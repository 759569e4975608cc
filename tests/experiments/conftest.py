"""A folder of toy pictures, and an experiment over it that takes a second a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from rwf.experiments.asked import Asked
from tests.toys import toy_folder


@pytest.fixture(scope="session")
def folder(tmp_path_factory) -> Path:
    """train/CLASS/*.png and test/CLASS/*.png: ten classes, eight and two pictures each."""
    return toy_folder(tmp_path_factory.mktemp("toy"), 8, 2)


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
