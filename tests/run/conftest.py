"""A folder of toy pictures, as a person would have it, and options for a quick run over it."""

from __future__ import annotations

from pathlib import Path

import pytest

from rwf.options import RunOptions
from rwf.run.toy import BACKBONE
from tests.toys import toy_folder


@pytest.fixture(scope="session")
def folder(tmp_path_factory) -> Path:
    """train/CLASS/*.png and test/CLASS/*.png: ten classes, ten and four pictures each."""
    return toy_folder(tmp_path_factory.mktemp("toy"), 10, 4)


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
