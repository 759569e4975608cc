"""What there is of a benchmark on this machine, checked; nothing is fetched or unpacked."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rwf.data.benchmarks import cifar, cub, imagenet
from rwf.data.benchmarks.bar import size_of
from rwf.data.benchmarks.download import by_hand
from rwf.data.benchmarks.place import Looks, data_folder, unpacked_in, verify
from rwf.data.benchmarks.sources import SOURCES, Source
from rwf.data.benchmarks.unpack import SEAL

LOOKS: dict[str, Looks] = {
    "split-cifar100": cifar.looks,
    "split-imagenet-r": imagenet.looks,
    "split-imagenet-sketch": imagenet.looks,
    "split-cub200": cub.looks,
}


@dataclass(frozen=True)
class Standing:
    """``folder``: unpacked; ``archive``: whole and right, not yet unpacked; ``nothing``: to be fetched."""

    state: Literal["folder", "archive", "nothing"]
    lines: list[str]


def standing(name: str, data_dir: Path | None, source: Source | None = None) -> Standing:
    """By the registered name; a damaged archive is a sentence."""
    source = source or SOURCES[name]
    folder = data_folder(data_dir)
    lines = [f"{source.title}. Licence: {source.licence}."]
    archive, part = folder / source.archive, folder / f"{source.archive}.part"
    if archive.exists():
        hashes = verify(source, archive)
        checked = "as published" if source.hashes else "no hash is published"
        lines.append(f"{archive}: {size_of(archive.stat().st_size)}, {_words(hashes)}, {checked}")
    place = unpacked_in(source, folder, LOOKS[name])
    if place:
        by = "unpacked by rwf" if (place / SEAL).exists() else "unpacked by somebody else"
        used = sum(path.lstat().st_size for path in place.rglob("*"))
        return Standing("folder", [*lines, f"{place}: {by}, {size_of(used)}"])
    if archive.exists():
        return Standing("archive", [*lines, f"not unpacked yet: the first use does it, {_room(source, folder, False)}"])
    have = f"; {size_of(part.stat().st_size)} are there and will be gone on from" if part.exists() else ""
    hashes_known = _words(source.hashes) or "no hash is published"
    lines.append(
        f"{source.archive} is not in {folder}{have}: the first use fetches and unpacks it, "
        f"{_room(source, folder, True)}; or {by_hand(source, folder)} ({hashes_known})."
    )
    return Standing("nothing", lines)


def _room(source: Source, folder: Path, fetch: bool) -> str:
    parts = [f"about {size_of(source.unpacked)} unpacked"]
    if fetch:
        parts.insert(0, f"{size_of(source.size)} to fetch")
    above = next(path for path in (folder, *folder.parents) if path.exists())
    return f"{' and '.join(parts)} ({size_of(shutil.disk_usage(above).free)} free)"


def _words(hashes: dict[str, str]) -> str:
    return ", ".join(f"{name} {value}" for name, value in hashes.items())
