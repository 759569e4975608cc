"""The examples do what they say."""

from __future__ import annotations

import runpy
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


def test_own_pictures_are_learned():
    assert runpy.run_path(str(EXAMPLES / "own_pictures.py"))["main"]() >= 0.8


def test_a_loop_of_ones_own_trains():
    first, last = runpy.run_path(str(EXAMPLES / "own_loop.py"))["main"]()
    assert last < 0.7 * first
