"""The decode cache: small pictures of one size stay in memory decoded, so that no picture is unpacked twice."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

SIDE = 64  # larger pictures are not kept
LIMIT = 1 << 30  # bytes of decoded pictures a split may take


class SmallPictures:
    """Filled lazily. The first small picture decides the size; pictures of another size are not kept."""

    def __init__(self, count: int, *, side: int = SIDE, limit: int = LIMIT) -> None:
        self.count, self.side, self.limit = count, side, limit
        self._pixels: Tensor | None = None  # N H W 3: the order resizing reads fastest
        self._filled = bytearray(count)

    def get(self, i: int) -> Tensor | None:
        """A copy of picture ``i``, or None if it is not kept."""
        if self._pixels is None or not self._filled[i]:
            return None
        return self._pixels[i].clone().permute(2, 0, 1)  # 3 H W; a copy, the caller may write into it

    def put(self, i: int, picture: Tensor) -> None:
        height, width = picture.shape[-2:]
        if self._pixels is None:
            if max(height, width) > self.side or self.count * picture.numel() > self.limit:
                return
            # Not filled (torch.empty is in deterministic mode): a page takes memory once a picture is written into it.
            self._pixels = torch.from_numpy(np.empty((self.count, height, width, 3), dtype=np.uint8))
        if self._pixels.shape[1:3] == (height, width):
            self._pixels[i] = picture.permute(1, 2, 0)
            self._filled[i] = 1  # last, so that another thread never reads a half-written picture
