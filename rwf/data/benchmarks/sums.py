"""The hash of every file that was unpacked: written beside the files, held against them by the doctor."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from rwf.data.benchmarks.bar import bar
from rwf.files import write_bytes

SUMS = ".rwf.sha256"
"""In the form of sha256sum, so that `sha256sum -c` reads it too."""


def write_sums(folder: Path, sums: Mapping[str, str]) -> None:
    """``sums`` are the sha256 of files by their path inside the folder."""
    lines = [f"{value}  {name}\n" for name, value in sorted(sums.items())]
    write_bytes(folder / SUMS, "".join(lines).encode("utf-8", "surrogateescape"))


def differing(folder: Path) -> tuple[list[str], int] | None:
    """The files that are gone or not what was unpacked, and how many there should be; None if nobody wrote it down."""
    try:
        lines = (folder / SUMS).read_bytes().decode("utf-8", "surrogateescape").split("\n")[:-1]
    except OSError:
        return None
    wanted = {name: value for value, _, name in (line.partition("  ") for line in lines)}
    wrong, done = [], 0
    with bar(f"checking the files in {folder}", sum(map(_size, (folder / name for name in wanted)))) as tell:
        for name, value in wanted.items():
            if _sha256(folder / name) != value:
                wrong.append(name)
            done += _size(folder / name)
            tell(done)
    return wrong, len(wanted)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _sha256(path: Path) -> str:
    """Nothing if the file cannot be read."""
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""
