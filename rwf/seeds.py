"""Named randomness: every draw is a function of a seed, a purpose and a counter, so nothing has to be saved."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def hash32(*parts: int | str) -> int:
    """A 32-bit hash of its arguments, the same on every machine and in every process.

    32 bits, because only the low 32 bits of a seed count for a CPU generator of torch.
    """
    text = "\x1f".join(f"{type(part).__name__}:{part}" for part in parts)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=4).digest(), "little")


def generator(seed: int, purpose: str, counter: int = 0) -> torch.Generator:
    """The generator of one named draw."""
    import torch

    return torch.Generator().manual_seed(hash32(seed, purpose, counter))
