"""`rwf bench --input`: pictures a second and core from stored bytes to network input, beside Pillow and torchvision."""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np
import torch
from PIL import Image
from torchvision.transforms import v2

from rwf.data.cache import SIDE
from rwf.data.decode import decode
from rwf.data.view import View
from rwf.errors import UserError

Act = Callable[[], object]
HALF = [0.5, 0.5, 0.5]
SIZE = 224
BATCH = 32
"""Pictures of one measurement; they are cut one by one and normalised together, as a batch of a run is."""
STORED = ((500, 375, "JPEG"), (256, 256, "JPEG"), (32, 32, "PNG"))
"""What is stored: about ImageNet's photographs, the same made smaller, and CIFAR's pictures."""


@dataclass(frozen=True)
class Rates:
    """Pictures a second on one core; None where a step is not there."""

    stored: str
    decode: float
    """From bytes to pixels."""
    train_view: float
    """From pixels to a crop, flipped and normalised."""
    test_view: float
    """From pixels to the middle, normalised."""
    first: float
    """From bytes to a train view."""
    again: float
    """From the second time on: small pictures are kept decoded."""
    pillow: float
    """From bytes to a train view with Pillow's pictures and torchvision's transforms."""

    @property
    def gain(self) -> float:
        """How many times faster than Pillow and torchvision, from the second time on."""
        return self.again / self.pillow


def input_rates(rounds: int) -> list[Rates]:
    """Everything in turn, so many rounds; medians. On one thread."""
    if rounds < 1:
        raise UserError(f"--rounds is {rounds}: give 1 or more.")
    with one_thread():
        return [_rates(width, height, form, rounds) for width, height, form in STORED]


@contextmanager
def one_thread() -> Iterator[None]:
    """Within it torch uses one core."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def picture_bytes(width: int, height: int, form: str) -> bytes:
    """A smooth picture that takes about as many bytes as a photograph of its size."""
    rng = np.random.default_rng(0)
    smooth = Image.fromarray(rng.integers(0, 256, (12, 16, 3), dtype=np.uint8))
    file = io.BytesIO()
    options = {"quality": 90} if form == "JPEG" else {}
    smooth.resize((width, height), Image.Resampling.BICUBIC).save(file, form, **options)
    return file.getvalue()


def ways(data: bytes) -> dict[str, Act]:
    """What is timed, each with a batch of this picture."""
    view = View(seed=0, size=SIZE, mean=HALF, std=HALF)
    theirs = pillow_transform()
    ids, visits = list(range(BATCH)), [0] * BATCH
    decoded = [decode(data, "picture") for _ in ids]
    return {
        "decode": lambda: [decode(data, "picture") for _ in ids],
        "train_view": lambda: view(decoded, ids, visits, "train"),
        "test_view": lambda: view(decoded, ids, visits, "test"),
        "first": lambda: view([decode(data, "picture") for _ in ids], ids, visits, "train"),
        "pillow": lambda: torch.stack([theirs(Image.open(io.BytesIO(data)).convert("RGB")) for _ in ids]),
    }


def pillow_transform() -> Any:
    """The published augmentation as torchvision has it for Pillow's pictures."""
    return v2.Compose(
        [
            v2.RandomResizedCrop(SIZE, scale=(0.05, 1.0)),
            v2.RandomHorizontalFlip(),
            v2.ToImage(),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize(HALF, HALF),
        ]
    )


def _rates(width: int, height: int, form: str, rounds: int) -> Rates:
    acts = ways(picture_bytes(width, height, form))
    taken: dict[str, list[float]] = {name: [] for name in acts}
    for _ in range(rounds + 1):
        for name, act in acts.items():
            began = time.perf_counter()
            act()
            taken[name].append(time.perf_counter() - began)
    rate = {name: BATCH / median(times[1:]) for name, times in taken.items()}
    again = rate["train_view"] if max(width, height) <= SIDE else rate["first"]
    return Rates(f"{width} x {height} {form}", again=again, **rate)


def input_markdown(rows: Sequence[Rates]) -> str:
    """The rates as a table."""
    titles = "stored | decode | train view | test view | bytes to view | again | Pillow and torchvision | gain"
    lines = [f"| {titles} |", "|---" + "|---:" * 7 + "|"]
    for row in rows:
        rates = (row.decode, row.train_view, row.test_view, row.first, row.again, row.pillow)
        lines.append(f"| {row.stored} | {' | '.join(f'{rate:,.0f}' for rate in rates)} | {row.gain:.2f} |")
    return "\n".join(lines)
