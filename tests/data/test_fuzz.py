"""Damaged image files of every format: a picture or a sentence, never a traceback, never a hang."""

from __future__ import annotations

import io
import random
import time
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from PIL import Image

from rwf.data.decode import FORMATS, BadImageError, decode
from tests.data.make import pixels

MODES = {
    "JPEG": ("RGB", "L", "CMYK"),
    "PNG": ("RGB", "RGBA", "P", "L", "LA", "I;16", "1"),
    "GIF": ("P", "RGB"),
    "BMP": ("RGB", "P"),
    "WEBP": ("RGB", "RGBA"),
    "TIFF": ("RGB", "CMYK", "I;16", "L"),
    "PPM": ("RGB", "L"),
    "JPEG2000": ("RGB",),
    "AVIF": ("RGB",),
}


def samples() -> list[tuple[str, bytes]]:
    found = []
    for kind, modes in MODES.items():
        for mode in modes if kind in FORMATS else ():
            if mode == "I;16":
                image = Image.fromarray((np.arange(24 * 20, dtype=np.uint16) * 100).reshape(24, 20))
            else:
                image = Image.fromarray(pixels(3, 24, 20)).convert(mode)
            buffer = io.BytesIO()
            options = {"exif": b"Exif\0\0MM\0*\0\0\0\x08\0\0\0\0"} if kind in ("JPEG", "PNG", "WEBP") else {}
            image.save(buffer, kind, **options)
            found.append((f"{kind} {mode}", buffer.getvalue()))
    return found


def mutations(data: bytes, count: int, seed: int) -> Iterator[bytes]:
    """Bytes changed, cut, dropped, doubled, or another file's middle put in; headers are hit most."""
    rng = random.Random(seed)
    for _ in range(count):
        new = bytearray(data)
        for _ in range(rng.choice((1, 1, 2, 4, 16))):
            place = rng.randrange(min(len(new), 80) if rng.random() < 0.6 else len(new))
            match rng.randrange(6):
                case 0 | 1:
                    new[place] = rng.randrange(256)
                case 2:
                    new[place : place + 4] = rng.choice((b"\xff" * 4, bytes(4), b"\x7f\xff\xff\xff"))
                case 3:
                    new = new[: place + 1]
                case 4:
                    del new[place : place + rng.randrange(1, 9)]
                case 5:
                    new[place:place] = rng.randbytes(rng.randrange(1, 40))
            new = new or bytearray(b"x")
        yield bytes(new)


def attempt(data: bytes, name: str) -> torch.Tensor | str:
    try:
        return decode(data, name)
    except BadImageError as error:
        return str(error)


def hammer(each: int, seed: int) -> dict[str, int]:
    outcome = {"picture": 0, "sentence": 0}
    for i, (name, data) in enumerate(samples()):
        decode(data, name)  # undamaged it is a picture
        for damaged in mutations(data, each, seed + i):
            began = time.monotonic()
            result = attempt(damaged, name)
            outcome["sentence" if isinstance(result, str) else "picture"] += 1
            if isinstance(result, str):
                assert "\n" not in result
                assert name in result
            else:
                assert result.dtype == torch.uint8
                assert result.shape[0] == result.ndim == 3
            assert time.monotonic() - began < 20, f"{name}: {damaged!r}"
    return outcome


@pytest.mark.filterwarnings("ignore")
def test_some_hundred_damaged_files() -> None:
    outcome = hammer(20, seed=0)
    assert min(outcome.values()) > 50


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_thousands_of_damaged_files() -> None:
    outcome = hammer(600, seed=1000)
    assert sum(outcome.values()) > 10_000
