"""The command `rwf doctor`."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path


@dataclass
class Doctor:
    """what rwf finds on this machine and what is missing"""

    usage = "doctor"
    backbone: str | None = None
    """A ViT to try to load."""
    benchmark: str | None = None
    """A benchmark to try to open."""
    data_dir: Path | None = None
    """Where benchmarks with a name of their own lie."""
    device: str = "auto"
    """The device to try."""
    threads: int | None = None
    """Threads of torch."""

    def __call__(self) -> int:
        from rwf.run.doctor import examine

        return examine(**dataclasses.asdict(self))
