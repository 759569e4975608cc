"""Plain files that survive a crash: whole or not at all, appended lines that can be cut back, one process a folder."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

from rwf.errors import UserError

TEMPORARY = ".rwf-tmp-"
"""How the names of half-written files begin; whoever lists a folder leaves these out."""

_SENTENCES = {
    errno.ENOSPC: "the disk is full: free some space and go on with `rwf resume`",
    errno.EDQUOT: "your disk quota is used up: free some space and go on with `rwf resume`",
    errno.EACCES: "permission denied: choose a folder you may write to",
    errno.EPERM: "permission denied: choose a folder you may write to",
    errno.EROFS: "the file system is read-only: choose a folder you may write to",
    errno.ENOENT: "the folder does not exist: make it or choose another one",
    errno.ENOTDIR: "a part of this path is a file, not a folder: choose another folder",
    errno.EISDIR: "this is a folder, and a file was to be written here: remove it or choose another folder",
    errno.EEXIST: "a file of that name is in the way: remove it or choose another folder",
    errno.ENAMETOOLONG: "the name is too long for this file system: choose a shorter one",
}


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turns what a user can mend about a failed write (full disk, no permission) into a sentence."""
    try:
        yield
    except OSError as error:
        sentence = _SENTENCES.get(error.errno or 0)
        if sentence is None:
            raise
        raise UserError(f"cannot write {path}: {sentence}.") from error


def make_folder(path: Path) -> Path:
    """The folder, made with its parents if it was not there."""
    with writing(path):
        path.mkdir(parents=True, exist_ok=True)
    return path


def sync_folder(path: Path) -> None:
    """Makes a rename or a new name in this folder survive a power cut."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary path beside ``path``; what was written there takes the place of ``path`` when the block ends well.

    For libraries that want to write a file by name. A reader sees the old content or the new, never a part.
    """
    with writing(path):
        handle, name = tempfile.mkstemp(prefix=TEMPORARY, suffix=path.suffix, dir=path.parent)
        os.close(handle)
        temporary = Path(name)
        try:
            yield temporary
            with open(temporary, "rb") as written:
                os.fsync(written.fileno())
            temporary.chmod(0o666 & ~_umask())
            os.replace(temporary, path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        sync_folder(path.parent)


def _umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


def write_bytes(path: Path, content: bytes) -> None:
    """Writes the whole file or leaves the old one as it was."""
    with replacing(path) as temporary:
        temporary.write_bytes(content)


def write_text(path: Path, content: str) -> None:
    """Writes the whole file (UTF-8) or leaves the old one as it was."""
    write_bytes(path, content.encode())


def write_json(path: Path, content: Any) -> None:
    """Writes indented JSON, keys in the order given. NaN and infinity are refused: they are not JSON."""
    write_text(path, json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def read_json(path: Path) -> Any:
    """What ``write_json`` wrote."""
    try:
        return json.loads(path.read_bytes())
    except FileNotFoundError:
        raise UserError(f"there is no file {path}: is this the right folder?") from None
    except ValueError as error:  # also UnicodeDecodeError
        raise UserError(f"{path} is damaged ({error}): restore it from a copy or start anew.") from error
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}.") from error


class JsonLines:
    """A file that grows by one JSON object a line; a checkpoint notes ``length``, resuming it calls ``cut_back``."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with writing(path):
            self._handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
            sync_folder(path.parent)

    @property
    def length(self) -> int:
        """Bytes written so far, this process's and earlier ones'."""
        return os.fstat(self._handle).st_size

    def append(self, row: Any) -> None:
        """Adds one line; a kill can lose it or leave a part of it, never harm an earlier one."""
        line = json.dumps(row, ensure_ascii=False, allow_nan=False).encode() + b"\n"
        before = self.length
        try:
            with writing(self.path):
                while line:  # the system may take a part only
                    line = line[os.write(self._handle, line) :]
        except BaseException:
            with contextlib.suppress(OSError):
                os.ftruncate(self._handle, before)
            raise

    def sync(self) -> int:
        """Brings all lines to the disk and gives the length, for a checkpoint."""
        with writing(self.path):
            os.fsync(self._handle)
        return self.length

    def cut_back(self, length: int) -> None:
        """Drops everything after the first ``length`` bytes: lines written after the checkpoint that is resumed."""
        if length > self.length:
            raise UserError(
                f"{self.path} is shorter ({self.length} bytes) than its checkpoint says ({length} bytes): "
                "lines are missing, so restore the file from a copy or start anew."
            )
        with writing(self.path):
            os.ftruncate(self._handle, length)
            os.fsync(self._handle)

    def close(self) -> None:
        os.close(self._handle)

    def __enter__(self) -> JsonLines:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def read_jsonl(path: Path) -> list[Any]:
    """All whole lines; a last line without an end was cut by a kill and is left out."""
    try:
        lines = path.read_bytes().split(b"\n")[:-1]
    except FileNotFoundError:
        raise UserError(f"there is no file {path}: is this the right folder?") from None
    rows = []
    for number, line in enumerate(lines, 1):
        try:
            rows.append(json.loads(line))
        except ValueError as error:
            raise UserError(f"{path}, line {number} is damaged ({error}): remove the line or start anew.") from error
    return rows


class FolderLock:
    """One process at a time works in a folder. The lock goes with its process, however that ends."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "lock"
        self._handle: int | None = None

    def __enter__(self) -> FolderLock:
        with writing(self.path):
            handle = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(handle, 32).decode(errors="replace").strip() or "unknown"
            os.close(handle)
            raise UserError(
                f"another process (pid {holder}) is at work in {self.folder}: wait for it or choose another folder."
            ) from None
        os.ftruncate(handle, 0)
        os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
        self._handle = handle
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._handle is not None:
            os.ftruncate(self._handle, 0)  # the file stays: removing it would let two processes lock two files
            os.close(self._handle)
            self._handle = None
