"""Pictures as PNG, and as addresses that carry their own bytes."""

from __future__ import annotations

import struct
import zlib
from base64 import b64encode

import numpy as np


def png(pixels: np.ndarray) -> bytes:
    """The file of a picture.  # uint8 H W 3"""
    if pixels.dtype != np.uint8 or pixels.ndim != 3 or pixels.shape[2] != 3 or not pixels.size:
        raise ValueError(f"a picture is uint8 H W 3, not {pixels.dtype} {pixels.shape}")
    height, width, _ = pixels.shape
    rows = np.zeros((height, 1 + 3 * width), np.uint8)  # each row begins with its filter, 0: none
    rows[:, 1:] = pixels.reshape(height, -1)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)  # 8 bits, RGB
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes(), 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(*chunk) for chunk in chunks)


def _chunk(name: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))


def data_url(pixels: np.ndarray, times: int = 1) -> str:
    """The picture as an address, each pixel repeated ``times`` times.  # uint8 H W 3"""
    large = pixels.repeat(times, axis=0).repeat(times, axis=1)
    return "data:image/png;base64," + b64encode(png(large)).decode()
