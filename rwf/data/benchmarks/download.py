"""One file from the web: resumed where it stopped, checked by size and hash, never taken for whole before."""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import shutil
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from email.message import Message
from pathlib import Path
from typing import IO, Any

from rwf.data.benchmarks.bar import bar, size_of
from rwf.data.benchmarks.sources import Source
from rwf.errors import UserError
from rwf.files import sync_folder, write_json, writing

TIMEOUT = 30.0  # seconds without a byte
TRIES = 3  # in a row without a new byte
WAIT = 2.0  # seconds between them
CHUNK = 1 << 20


class BrokenOffError(Exception):
    """The connection failed in a way that another try may mend."""


def download(source: Source, path: Path) -> None:
    """The source's archive at ``path``; what an earlier call left in ``path.part`` is gone on from.

    Broken connections are tried again by themselves while bytes keep coming. Every failure is one sentence and
    leaves the part where it is, except when its content is wrong.
    """
    part, tries, before = Part(path), 0, -1
    with bar(f"downloading {source.archive}", source.size, part.length) as tell:
        while True:
            try:
                _get(source, part, tell)
                break
            except BrokenOffError as error:
                tries = 1 if part.length > before >= 0 else tries + 1
                before = part.length
                if tries >= TRIES:
                    raise UserError(
                        f"{source.url}: {error}, {size_of(part.length)} are there: start again to go on from there, "
                        f"or {by_hand(source, path.parent)}."
                    ) from error
                time.sleep(WAIT)
    found = hash_file(part.path, list(source.hashes))
    try:
        check_hashes(source, found, f"what came from {source.url}")
    except UserError:
        part.remove()
        raise
    part.become(path)


def by_hand(source: Source, folder: Path) -> str:
    """What a person can do where the software cannot."""
    return f"fetch {source.archive} with a browser from {source.url} and put it into {folder}"


class Part:
    """The bytes that have come so far, and what the server called the file they are from."""

    def __init__(self, path: Path) -> None:
        self.whole = path
        self.path = path.with_name(path.name + ".part")
        self.notes = path.with_name(path.name + ".part.json")

    @property
    def length(self) -> int:
        return self.path.stat().st_size if self.path.exists() else 0

    def mark(self, url: str) -> dict[str, Any]:
        """What is known of the server's file; nothing if the notes are of another address or damaged."""
        try:
            notes = json.loads(self.notes.read_bytes())
            return notes if isinstance(notes, dict) and notes.get("url") == url else {}
        except (OSError, ValueError):
            return {}

    def begin(self, url: str, headers: Mapping[str, str]) -> None:
        """Nothing of it yet: empties the part and notes which file it will be of."""
        with writing(self.path):
            self.path.write_bytes(b"")
        etag = headers.get("ETag") or ""
        validator = etag if etag.startswith('"') else headers.get("Last-Modified")  # a weak tag proves no bytes
        write_json(self.notes, {"url": url, "validator": validator})

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)
        self.notes.unlink(missing_ok=True)

    def become(self, path: Path) -> None:
        """The part is whole: it gets its name."""
        with writing(path):
            with open(self.path, "rb") as file:
                os.fsync(file.fileno())
            self.path.replace(path)
            sync_folder(path.parent)
        self.notes.unlink(missing_ok=True)


def _get(source: Source, part: Part, tell: Callable[[int], None]) -> None:
    """One request, from where the part ends."""
    notes = part.mark(source.url)
    have = part.length if notes else 0
    if have == source.size:
        return
    headers = {"User-Agent": "rwf", "Accept-Encoding": "identity"}
    if have:
        headers["Range"] = f"bytes={have}-"
        if notes.get("validator"):
            headers["If-Range"] = notes["validator"]
    with _open(source, headers, part) as response:
        _check_size(source, _total(response.status, response.headers))
        if response.status == 206 and _first(response.headers) != have:
            part.remove()
            raise BrokenOffError("the server sent another range than asked for")
        if response.status != 206:  # the whole file, though asked for the rest: it changed, or ranges are not known
            have = 0
        if not have:
            part.begin(source.url, response.headers)
        _check_disk(source, part)
        _receive(response, part, have, source.size, tell)


def _open(source: Source, headers: dict[str, str], part: Part) -> Any:
    try:
        return _opener().open(urllib.request.Request(source.url, headers=headers), timeout=TIMEOUT)
    except urllib.error.HTTPError as error:
        raise _explain(error, source, part) from error
    except urllib.error.URLError as error:
        raise BrokenOffError(_reason(error.reason)) from error
    except (OSError, http.client.HTTPException) as error:
        raise BrokenOffError(_reason(error)) from error


def _receive(response: Any, part: Part, have: int, total: int, tell: Callable[[int], None]) -> None:
    """The rest of the file, up to ``total``, whether or not the server said how much it would send."""
    with writing(part.path), open(part.path, "ab") as file:
        while True:
            try:
                data = response.read1(CHUNK)
            except (OSError, http.client.HTTPException) as error:
                raise BrokenOffError(_reason(error)) from error
            if not data:
                break
            have += len(data)
            if have > total:
                part.remove()
                raise BrokenOffError("the server sent more than the file should have")
            file.write(data)
            tell(have)
    if have < total:
        raise BrokenOffError(f"the connection ended after {size_of(have)} of {size_of(total)}")


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects, but never from an encrypted connection to an open one."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        if req.type == "https" and not newurl.lower().startswith("https:"):
            raise UserError(f"{req.full_url} leads to {newurl}, which is not encrypted: fetch the file by hand.")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _opener() -> urllib.request.OpenerDirector:
    return urllib.request.build_opener(_Redirects())


def _total(status: int, headers: Message) -> int | None:
    """How long the server says the whole file is."""
    text = headers.get("Content-Range", "").rpartition("/")[2] if status == 206 else headers.get("Content-Length", "")
    return int(text) if text.strip().isdigit() else None


def _first(headers: Message) -> int | None:
    """Where the bytes of a 206 answer begin."""
    text = headers.get("Content-Range", "").removeprefix("bytes").strip().partition("-")[0]
    return int(text) if text.isdigit() else None


def _check_size(source: Source, total: int | None) -> None:
    if total is not None and total != source.size:
        raise UserError(
            f"{source.url} is {total} bytes long and {source.archive} should have {source.size}: this is another file; "
            f"look for the published one ({words(source.hashes)})."
        )


def _check_disk(source: Source, part: Part) -> None:
    need = max(0, source.size - part.length) + source.unpacked
    free = shutil.disk_usage(part.path.parent).free
    if free < need:
        raise UserError(
            f"{source.archive} needs {size_of(need)} more (with room to unpack it) and {part.path.parent} has "
            f"{size_of(free)}: free some space, or choose another folder with --data-dir."
        )


def _explain(error: urllib.error.HTTPError, source: Source, part: Part) -> Exception:
    """What an answer that is no file means; too many requests and faults of the server may pass."""
    error.close()
    if error.code == 416:  # nothing beyond what is there: the part is of another file, or too long
        part.remove()
        return BrokenOffError("the server has no bytes beyond those that are there, so they were dropped")
    if error.code in (408, 429) or error.code >= 500:
        return BrokenOffError(f"the server answers {error.code} ({error.reason})")
    reason = " ".join(str(error.reason).split())[:80]
    return UserError(
        f"{source.url} cannot be fetched, the server answers {error.code} ({reason}): "
        f"{by_hand(source, part.path.parent)}, or from wherever it lies now."
    )


def _reason(error: object) -> str:
    if isinstance(error, TimeoutError):
        return f"no byte came for {TIMEOUT:g} seconds"
    if isinstance(error, ConnectionRefusedError):
        return "the connection was refused"
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return f"the connection failed ({' '.join(str(text).split())[:120]})"


# -- hashes ------------------------------------------------------------------------------------------------------------


def words(hashes: Mapping[str, str]) -> str:
    """Hashes as a sentence holds them."""
    return ", ".join(f"{name} {value}" for name, value in hashes.items())


def hash_file(path: Path, algorithms: list[str], title: str = "checking") -> dict[str, str]:
    """The hashes of a file, read once."""
    sums = {name: hashlib.new(name, usedforsecurity=False) for name in algorithms}
    try:
        with open(path, "rb") as file, bar(f"{title} {path.name}", path.stat().st_size) as tell:
            while data := file.read(CHUNK):
                for one in sums.values():
                    one.update(data)
                tell(file.tell())
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}.") from error
    return {name: one.hexdigest() for name, one in sums.items()}


def check_hashes(source: Source, found: Mapping[str, str], name: str) -> None:
    """Refuses content that is not the published one."""
    for algorithm, value in source.hashes.items():
        if found[algorithm] != value:
            raise UserError(
                f"{name} is not the published {source.archive} ({algorithm} {found[algorithm]} instead of {value}), it "
                f"was damaged or is another file: start again without it, or fetch it by hand from {source.url}."
            )
