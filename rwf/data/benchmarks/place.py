"""From a source to its unpacked folder: found where a person has it, else unpacked, else downloaded first."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from rwf.data.benchmarks.download import check_hashes, download, hash_file
from rwf.data.benchmarks.sources import Source
from rwf.data.benchmarks.unpack import unpack
from rwf.data.rows import cache_folder
from rwf.errors import UserError
from rwf.files import FolderLock, make_folder

Looks = Callable[[Path], bool]
"""Whether a folder has the form of the unpacked data set."""


def data_folder(data_dir: Path | None) -> Path:
    """``--data-dir``, else the environment's RWF_DATA, else a folder in the user's cache."""
    if data_dir is not None:
        folder = Path(os.path.expanduser(data_dir))
        if not folder.is_dir():
            raise UserError(
                f"there is no folder {str(data_dir)!r}: make it, or name with --data-dir where the data lie."
            )
        return folder
    named = os.environ.get("RWF_DATA")
    return Path(os.path.expanduser(named)) if named else cache_folder() / "data"


def obtain(source: Source, data_dir: Path | None, looks: Looks) -> Path:
    """The unpacked folder; whatever has to be made for it is made by one process at a time."""
    folder = data_folder(data_dir)
    found = unpacked_in(source, folder, looks)
    if found:
        return found
    make_folder(folder)
    with FolderLock(folder):
        found = unpacked_in(source, folder, looks)  # another process may just have made it
        if found:
            return found
        archive = folder / source.archive
        if (folder / source.top).exists():
            raise UserError(
                f"{folder / source.top} is there but does not hold {source.title.partition(' (')[0]}: move it away, or "
                "choose another folder with --data-dir."
            )
        if archive.exists():
            verify(source, archive)
        else:
            download(source, archive)
        place = unpack(archive, source.top, unpacked=source.unpacked)
    if not looks(place):
        raise UserError(f"{archive} does not hold the files of {source.title}: remove it and {place} and start again.")
    return place


def unpacked_in(source: Source, folder: Path, looks: Looks) -> Path | None:
    """``folder/TOP``, or the folder itself if a person named the data set's own."""
    return next((place for place in (folder / source.top, folder) if place.is_dir() and looks(place)), None)


def verify(source: Source, archive: Path) -> dict[str, str]:
    """The archive's hashes, held to the published ones."""
    if archive.stat().st_size != source.size:
        raise UserError(
            f"{archive} has {archive.stat().st_size} bytes and should have {source.size}: it is not whole or another "
            "file; remove it and start again."
        )
    found = hash_file(archive, list(source.hashes))
    check_hashes(source, found, str(archive))
    return found
