"""Views: what the network sees of a picture, a pure function of (seed, image id, visit number, kind)."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor
from torchvision.transforms import InterpolationMode, v2
from torchvision.transforms.v2 import functional as F

from rwf.errors import UserError
from rwf.seeds import hash32

Transform = Callable[[Tensor], Tensor]
RATIO = (3 / 4, 4 / 3)
LOG_RATIO = torch.log(torch.tensor(RATIO)).tolist()  # in float32, as torchvision draws it
LONGEST = 8  # a picture longer than this many times its short side is cut to its middle before it is resized


class View:
    """Stored pictures to network input. Neither worker, order, neighbours nor method can change a view.

    ``train`` and ``test`` are names (``crop``: random resized crop and flip; ``pad``: resize, random crop with 4
    pixels of padding, flip; ``center``: resize and centre crop, but small square pictures whole; ``cut``: the same
    without that exception, as published codes do) or any transform of torchvision.transforms.v2 on
    uint8. A transform draws its random numbers from the global generators; they are seeded for each picture and
    put back afterwards, so call a view with a transform of your own from one thread only. ``crop`` and ``center``
    touch no global state. Interpolation: bilinear with antialias for ``crop``, bicubic with antialias for
    ``center`` (the settings of the published protocol), on uint8.
    """

    def __init__(
        self,
        *,
        seed: int,
        size: int,
        mean: Sequence[float] | None = None,
        std: Sequence[float] | None = None,
        train: str | Transform = "crop",
        test: str | Transform = "center",
        scale: tuple[float, float] = (0.05, 1.0),
    ) -> None:
        if size < 1:
            raise UserError(f"the image size is {size}: give at least 1 pixel.")
        if (mean is None) != (std is None):
            raise UserError("normalisation needs both mean and std, or neither.")
        if not 0 < scale[0] <= scale[1] <= 1:
            raise UserError(f"the crop scale is {scale}: give two shares of the area, 0 < smallest <= largest <= 1.")
        self.seed, self.size, self.scale = int(seed), int(size), (float(scale[0]), float(scale[1]))
        self.mean = None if mean is None else [float(m) for m in mean]
        self.std = None if std is None else [float(s) for s in std]
        self.transforms = {"train": self._named(train), "test": self._named(test)}

    def _named(self, transform: str | Transform) -> str | Transform:
        if transform == "pad":
            resize = v2.Resize((self.size, self.size))
            return v2.Compose([resize, v2.RandomCrop(self.size, padding=4), v2.RandomHorizontalFlip()])
        if isinstance(transform, str) and transform not in ("crop", "center", "cut"):
            raise UserError(f"unknown transform {transform!r}: there are crop, pad, center and cut.")
        return transform

    def __call__(self, images: Sequence[Tensor], ids: Sequence[int], visits: Sequence[int], kind: str) -> Tensor:
        """float32 in [0, 1], normalised if mean and std were given.  # B 3 P P"""
        return self.normalized(self.uint8(images, ids, visits, kind))

    def normalized(self, views: Tensor) -> Tensor:
        """Network input of what ``uint8`` gave.  # B 3 P P"""
        x = F.to_dtype_image(views, torch.float32, scale=True)
        if self.mean is not None and self.std is not None:
            x = F.normalize_image(x, self.mean, self.std, inplace=True)
        return x

    def uint8(self, images: Sequence[Tensor], ids: Sequence[int], visits: Sequence[int], kind: str) -> Tensor:
        """The views before normalisation: a quarter of the memory, for caches.  # B 3 P P"""
        if kind not in self.transforms:
            raise ValueError(f"kind is {kind!r}, not 'train' or 'test'")
        transform = self.transforms[kind]
        # A picture has one test view, however often it was seen.
        seeds = [
            hash32(self.seed, int(i), int(visit) if kind == "train" else 0, kind)
            for i, visit in zip(ids, visits, strict=True)
        ]
        out = torch.empty(len(images), 3, self.size, self.size, dtype=torch.uint8)  # B 3 P P
        if transform in ("center", "cut"):
            for row, image in zip(out, images, strict=True):
                row.copy_(center(image, self.size, whole=transform == "center"))
        elif transform == "crop":
            draws = torch.Generator()
            for row, image, seed in zip(out, images, seeds, strict=True):
                row.copy_(crop_and_flip(image, self.size, self.scale, draws.manual_seed(seed)))
        else:
            assert callable(transform)
            with borrowed_randomness() as reseed:
                for row, image, seed in zip(out, images, seeds, strict=True):
                    reseed(seed)
                    row.copy_(self._checked(transform(image)))
        return out

    def _checked(self, view: Tensor) -> Tensor:
        if not isinstance(view, Tensor) or view.dtype != torch.uint8 or view.shape != (3, self.size, self.size):
            got = f"{view.dtype} {tuple(view.shape)}" if isinstance(view, Tensor) else type(view).__name__
            raise UserError(
                f"the transform returned {got} instead of uint8 (3, {self.size}, {self.size}): it gets a uint8 picture "
                "and must return one of the image size; normalisation comes afterwards."
            )
        return view


def crop_and_flip(image: Tensor, size: int, scale: tuple[float, float], draws: torch.Generator) -> Tensor:
    """RandomResizedCrop and RandomHorizontalFlip with the draws taken from ``draws``.

    The same numbers in the same order as the two transforms of torchvision take from the global generator (a
    test holds both equal, bit for bit), without what calling them costs: up to twice as fast.
    """
    height, width = image.shape[-2:]
    for _ in range(10):
        area = height * width * torch.empty(1).uniform_(*scale, generator=draws).item()
        ratio = torch.exp(torch.empty(1).uniform_(*LOG_RATIO, generator=draws)).item()
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            top = int(torch.randint(0, height - h + 1, (1,), generator=draws).item())
            left = int(torch.randint(0, width - w + 1, (1,), generator=draws).item())
            break
    else:  # no such rectangle fits (a long, thin picture): the largest one in the middle
        w = min(width, round(height * RATIO[1])) if width / height > RATIO[1] else width
        h = min(height, round(width / RATIO[0])) if width / height < RATIO[0] else height
        top, left = (height - h) // 2, (width - w) // 2
    view = F.resized_crop_image(image, top, left, h, w, size=[size, size])
    return view.flip(-1) if torch.rand(1, generator=draws).item() < 0.5 else view


def center(image: Tensor, size: int, *, whole: bool = True) -> Tensor:
    """Resize the short side to size * 256 / 224, cut the middle; a small square picture stays ``whole``."""
    height, width = image.shape[-2:]
    if whole and height == width <= size:
        return F.resize_image(image, [size, size], interpolation=InterpolationMode.BICUBIC)
    longest = LONGEST * min(height, width)
    if max(height, width) > longest:  # what lies far outside the middle is never seen, but would cost gigabytes
        image = F.center_crop_image(image, [min(height, longest), min(width, longest)])
    image = F.resize_image(image, [round(size * 256 / 224)], interpolation=InterpolationMode.BICUBIC)
    return F.center_crop_image(image, [size, size])


@contextmanager
def borrowed_randomness() -> Iterator[Callable[[int], None]]:
    """Lend the global generators (torch's on the CPU, numpy's, Python's) and put their states back at the end."""

    def reseed(seed: int) -> None:
        torch.default_generator.manual_seed(seed)
        np.random.seed(seed)
        random.seed(seed)

    numpy_state, python_state = np.random.get_state(), random.getstate()
    try:
        with torch.random.fork_rng(devices=[]):
            yield reseed
    finally:
        np.random.set_state(numpy_state)
        random.setstate(python_state)
