"""Pictures whose details are taken away: shrunk and enlarged again, so that views and tokens stay what they are."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from torch import Tensor
from torchvision.transforms.v2 import functional

from rwf.data.catalog import Catalog
from rwf.data.pictures import Pictures
from rwf.errors import UserError


def with_detail(catalog: Catalog, side: int) -> Catalog:
    """The same catalog, every picture with the details of one whose shorter side has ``side`` pixels."""
    if side < 1:
        raise UserError(f"--detail is {side}: give a number of pixels, 1 or more.")
    train, test = (Pictures(p.names, p.labels, Shrunk(p, side)) for p in (catalog.train, catalog.test))
    return replace(catalog, train=train, test=test)


def shrunk(picture: Tensor, side: int) -> Tensor:
    """A smaller picture stays as it is.  # 3 H W -> 3 H W"""
    height, width = picture.shape[-2:]
    if min(height, width) <= side:
        return picture
    small = [max(1, round(n * side / min(height, width))) for n in (height, width)]
    return functional.resize(functional.resize(picture, small, antialias=True), [height, width], antialias=True)


class Shrunk:
    """A store that hands out the pictures of a split with fewer details."""

    def __init__(self, pictures: Pictures, side: int) -> None:
        self.pictures, self.side = pictures, side
        self.sizes: np.ndarray = pictures.store.sizes

    def picture(self, i: int, name: str) -> Tensor:
        return shrunk(self.pictures.picture(i), self.side)

    def digest(self, i: int) -> bytes:
        return self.pictures.store.digest(i)
