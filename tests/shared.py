"""Where the experiments' shared files lie; tests that need them skip when they are absent."""

from pathlib import Path

import pytest


def shared(*parts: str) -> Path:
    """A path in the folder ``shared`` beside the repository, or a skip that names what is missing."""
    path = Path(__file__).resolve().parents[1].parent.joinpath("shared", *parts)
    if not path.exists():
        pytest.skip(f"shared/{'/'.join(parts)} is not there")
    return path
