"""What there is of a benchmark on this machine, checked; nothing is fetched or unpacked."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rwf.data.benchmarks import cifar, cub, imagenet
from rwf.data.benchmarks.bar import size_of
from rwf.data.benchmarks.download import by_hand, words
from rwf.data.benchmarks.place import Looks, data_folder, unpacked_in, verify
from rwf.data.benchmarks.sources import SOURCES, Source
from rwf.data.benchmarks.sums import differing
from rwf.errors import UserError

LOOKS: dict[str, Looks] = {
    "split-cifar100": cifar.looks,
    "split-imagenet-r": imagenet.looks,
    "split-imagenet-sketch": imagenet.looks,
    "split-cub200": cub.looks,
}


@dataclass(frozen=True)
class Standing:
    """``folder``: unpacked; ``archive``: whole and right, not yet unpacked; ``nothing``: the last line says how to get
    it."""

    state: Literal["folder", "archive", "nothing"]
    lines: list[str]


def standing(name: str, data_dir: Path | None, source: Source | None = None) -> Standing:
    """By the registered name; a damaged archive is a sentence."""
    source = source or SOURCES[name]
    folder = data_folder(data_dir)
    lines = [f"{source.title}. Licence: {source.licence}.", f"{source.facts[0].upper()}{source.facts[1:]}."]
    archive, part = folder / source.archive, folder / f"{source.archive}.part"
    if archive.exists():
        hashes = verify(source, archive)
        lines.append(f"{archive}: {size_of(archive.stat().st_size)}, {words(hashes)}, as published")
    place = unpacked_in(source, folder, LOOKS[name])
    if place:
        used = sum(path.lstat().st_size for path in place.rglob("*"))
        return Standing("folder", [*lines, f"{place}: {_unpacked(source, place)}, {size_of(used)}"])
    if archive.exists():
        return Standing("archive", [*lines, f"not unpacked yet: the first use does it, {_room(source, folder, False)}"])
    have = f"; {size_of(part.stat().st_size)} are there and will be gone on from" if part.exists() else ""
    lines.append(
        f"{source.archive} is not in {folder}{have}: the first use fetches and unpacks it, "
        f"{_room(source, folder, True)}; or {by_hand(source, folder)} ({words(source.hashes)})."
    )
    return Standing("nothing", lines)


def _unpacked(source: Source, place: Path) -> str:
    """By whom, and whether all files are still what came out of the archive; a sentence if not."""
    found = differing(place)
    if found is None:
        known = (
            "those of its files that have a published hash are" if source.files else "its pictures are counted and not"
        )
        return f"unpacked by somebody else, {known} checked"
    wrong, count = found
    if wrong:
        some = f"{', '.join(wrong[:3])}{', ...' if len(wrong) > 3 else ''}"
        raise UserError(
            f"{len(wrong)} of {count} files in {place} are gone or not what was unpacked ({some}): move the folder "
            "away and start again."
        )
    return f"unpacked by rwf, all {count} files as they came out of the archive"


def _room(source: Source, folder: Path, fetch: bool) -> str:
    parts = [f"about {size_of(source.unpacked)} unpacked"]
    if fetch:
        parts.insert(0, f"{size_of(source.size)} to fetch")
    above = next(path for path in (folder, *folder.parents) if path.exists())
    return f"{' and '.join(parts)} ({size_of(shutil.disk_usage(above).free)} free)"
