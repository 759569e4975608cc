"""Archives from elsewhere, unpacked so that nothing leaves the folder, nothing fills the disk, nothing is half done."""

from __future__ import annotations

import gzip
import hashlib
import shutil
import stat
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from rwf.data.benchmarks.bar import bar, size_of
from rwf.data.benchmarks.sums import write_sums
from rwf.errors import UserError
from rwf.files import TEMPORARY, sync_folder, writing

MOST_FILES = 500_000
LONGEST_HEADER = 1 << 20  # bytes; a longer one is no header of a data set
CHUNK = 1 << 20


class UnsafeError(UserError):
    """An archive holds what no data set needs."""


def unpack(archive: Path, top: str, *, unpacked: int) -> Path:
    """The folder ``top`` of the archive, beside the archive; nothing else in it is written.

    ``unpacked`` is how many bytes to expect: twice as many are refused before they are written. Everything goes
    into a temporary folder first and gets its name when all of it is there.
    """
    free = shutil.disk_usage(archive.parent).free
    if free < unpacked:
        raise UserError(
            f"unpacking {archive.name} takes about {size_of(unpacked)} and {archive.parent} has {size_of(free)}: free "
            "some space, or move the archive to a larger disk and name it with --data-dir."
        )
    for stale in archive.parent.glob(TEMPORARY + "*"):  # of a process that was killed: the caller holds the lock
        shutil.rmtree(stale, ignore_errors=True)
    with writing(archive.parent):
        place = Path(tempfile.mkdtemp(prefix=TEMPORARY, dir=archive.parent))
    try:
        with _readable(archive), bar(f"unpacking {archive.name}", unpacked) as tell:
            members = _zip(archive) if archive.suffix == ".zip" else _tar(archive, 2 * unpacked)
            sums = _write(members, place, top, 2 * unpacked, tell)
        if not sums:
            raise UserError(
                f"{archive.name} holds no folder {top!r}: it is another file, remove it and fetch it again."
            )
        write_sums(place / top, sums)
        with writing(archive.parent / top):
            (place / top).chmod(0o755)
            (place / top).rename(archive.parent / top)
            sync_folder(archive.parent)
    finally:
        shutil.rmtree(place, ignore_errors=True)
    return archive.parent / top


Member = tuple[str, bool, int, Callable[[], IO[bytes]]]
"""Name, whether it is a folder, bytes, and how to open it."""


def _write(members: Iterator[Member], place: Path, top: str, most: int, tell: Callable[[int], None]) -> dict[str, str]:
    """Writes the files under ``top``; the sha256 of each by its path inside ``top``."""
    sums: dict[str, str] = {}
    total = number = 0
    for name, is_folder, size, opened in members:
        parts = safe_parts(name)
        number += 1
        total += size
        if number > MOST_FILES or total > most:
            raise UnsafeError(
                f"the archive holds more than {MOST_FILES} files or {size_of(most)}, which no copy of this data set "
                "does: it was not unpacked; fetch it again from its source."
            )
        if not parts or parts[0] != top:
            continue
        path = place.joinpath(*parts)
        with writing(path):
            (path if is_folder else path.parent).mkdir(parents=True, exist_ok=True)
            if not is_folder:
                if path.exists():
                    raise UnsafeError(f"the archive holds {name[:100]!r} twice: fetch it again from its source.")
                sums["/".join(parts[1:])] = _copy(opened(), path, size)
        tell(total)
    return sums


def _copy(source: IO[bytes], path: Path, size: int) -> str:
    content = hashlib.sha256()
    with source, open(path, "xb") as file:
        left = size
        while data := source.read(min(CHUNK, left + 1)):
            left -= len(data)
            if left < 0:
                raise UnsafeError(f"{path.name} in the archive is longer than announced: fetch it again.")
            file.write(data)
            content.update(data)
    if left:
        raise EOFError(f"{path.name} is cut short")
    return content.hexdigest()


def safe_parts(name: str) -> list[str]:
    """The folders and the file of a member's name; refuses every name that could mean another place."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    elsewhere = name.startswith("/") or "\\" in name or ".." in parts or ":" in name.partition("/")[0]
    too_long = len(parts) > 32 or any(len(part.encode("utf-8", "surrogateescape")) > 255 for part in parts)
    if elsewhere or too_long or any(ord(c) < 32 for c in name):
        raise UnsafeError(
            f"the archive holds the name {name[:100]!r}, which leads out of its folder or is no file name: it was not "
            "unpacked; fetch it again from its source."
        )
    return parts


# -- tar ---------------------------------------------------------------------------------------------------------------


class _Bounded:
    """Reads an archive's bytes, but no header of a gigabyte and not more in all than there can be."""

    def __init__(self, file: Any, most: int) -> None:
        self.file, self.left = file, most

    def read(self, size: int = -1) -> bytes:
        if size > LONGEST_HEADER + CHUNK or size < 0:
            raise UnsafeError("the archive has a header of absurd length: fetch it again from its source.")
        data: bytes = self.file.read(size)
        self.left -= len(data)
        if self.left < 0:
            raise UnsafeError("the archive unpacks to far more than this data set: fetch it again from its source.")
        return data

    def tell(self) -> int:
        return int(self.file.tell())

    def seek(self, offset: int, whence: int = 0) -> int:
        return int(self.file.seek(offset, whence))


def _tar(path: Path, most: int) -> Iterator[Member]:
    with open(path, "rb") as raw:
        packed = raw.read(2) == b"\x1f\x8b"
        raw.seek(0)
        bounded = _Bounded(gzip.GzipFile(fileobj=raw) if packed else raw, most + 2048 * MOST_FILES)
        with tarfile.open(fileobj=bounded, mode="r:") as tar:  # type: ignore[call-overload]
            for member in tar:
                safe_parts(member.name)
                if not (member.isreg() or member.isdir()) or member.issparse():
                    raise UnsafeError(
                        f"the archive holds {member.name[:100]!r}, which is a link or a device and no file: it was not "
                        "unpacked; fetch it again from its source."
                    )
                tarfile.data_filter(member, str(path.parent))  # the library's own refusals, besides these
                yield member.name, member.isdir(), member.size, lambda m=member: tar.extractfile(m)  # type: ignore


# -- zip ---------------------------------------------------------------------------------------------------------------


def _zip(path: Path) -> Iterator[Member]:
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            mode = info.external_attr >> 16
            if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR) or info.flag_bits & 1:
                raise UnsafeError(
                    f"the archive holds {info.filename[:100]!r}, which is a link, a device or encrypted: it was not "
                    "unpacked; fetch it again from its source."
                )
            yield info.orig_filename, info.is_dir(), info.file_size, lambda i=info: archive.open(i)  # type: ignore


@contextmanager
def _readable(archive: Path) -> Iterator[None]:
    """What the libraries make of a damaged archive, as a sentence."""
    damaged = (tarfile.TarError, zipfile.BadZipFile, gzip.BadGzipFile, zlib.error, EOFError, NotImplementedError)
    try:
        yield
    except (*damaged, ValueError, RuntimeError) as error:
        reason = " ".join(str(error).split())[:120]
        raise UserError(
            f"{archive} is damaged or no archive ({type(error).__name__}: {reason}): remove it and fetch it again."
        ) from error
