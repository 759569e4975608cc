"""No archive, however hostile, writes outside its folder, fills the disk or leaves something half done."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import pickle
import random
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rwf.data.benchmarks import unpack as module
from rwf.data.benchmarks.pickles import read_pickle
from rwf.data.benchmarks.sums import SUMS, differing
from rwf.data.benchmarks.unpack import safe_parts, unpack
from rwf.errors import UserError
from tests.data.archives import cifar_files, tar, zipped

GOOD = {"top/a/1.txt": b"one", "top/2.txt": b"two" * 1000, "beside.txt": b"not wanted"}
LIMIT = 1 << 16


def special(name: str, kind: bytes, link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    return info


def named(name: str, size: int = 5) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.size = size
    return info


def linked_zip() -> bytes:
    buffer = io.BytesIO(zipped({}))
    with zipfile.ZipFile(buffer, "a") as archive:
        info = zipfile.ZipInfo("top/link")
        info.external_attr = 0o120777 << 16
        archive.writestr(info, "/etc/passwd")
    return buffer.getvalue()


HOSTILE = {
    "parent": tar(GOOD, extra=(named("top/../../out"),)),
    "absolute": tar(GOOD, extra=(named("/tmp/out"),)),
    "backslash": tar(GOOD, extra=(named("top\\..\\out"),)),
    "drive": tar(GOOD, extra=(named("C:/out"),)),
    "symlink": tar(GOOD, extra=(special("top/link", tarfile.SYMTYPE, "/"), named("top/link/out"))),
    "inner symlink": tar(GOOD, extra=(special("top/link", tarfile.SYMTYPE, "2.txt"),)),
    "hard link": tar(GOOD, extra=(special("top/link", tarfile.LNKTYPE, "../out"),)),
    "device": tar(GOOD, extra=(special("top/null", tarfile.CHRTYPE),)),
    "pipe": tar(GOOD, extra=(special("top/pipe", tarfile.FIFOTYPE),)),
    "twice": tar(GOOD, extra=(named("top/2.txt"),)),
    "long name": tar(GOOD, extra=(named("top/" + "x" * 300),)),
    "line break": tar(GOOD, extra=(named("top/a\nb"),)),
    "deep": tar(GOOD, extra=(named("top/" + "x/" * 60 + "y"),)),
    "file as folder": tar(GOOD, extra=(named("top/2.txt/out"),)),
    "bomb": tar(GOOD, extra=(named("top/zeros", 1 << 20),)),
    "bomb beside": tar(GOOD, extra=(named("zeros", 1 << 20),)),
    "no tar": b"no archive at all",
    "empty": b"",
    "other content": tar({"else/1.txt": b"x"}),
    "zip parent": zipped({"top/1": b"", "top/../../out": b"x"}),
    "zip absolute": zipped({"top/1": b"", "/tmp/out": b"x"}),
    "zip bomb": zipped({"top/1": bytes(1 << 20)}),
    "zip link": linked_zip(),
    "zip cut": zipped(GOOD)[:-30],
}


def entries(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_archives_are_a_sentence_and_leave_nothing(name: str, tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.mkdir()
    archive = place / ("x.zip" if name.startswith("zip") else "x.tar.gz")
    archive.write_bytes(HOSTILE[name])
    with pytest.raises(UserError) as caught:
        unpack(archive, "top", unpacked=LIMIT)
    assert "\n" not in str(caught.value)
    assert entries(tmp_path) == {"place", f"place/{archive.name}"}
    assert not Path("/tmp/out").exists()


@pytest.mark.parametrize("data", [tar(GOOD), tar(GOOD, "w"), zipped(GOOD)], ids=["tgz", "tar", "zip"])
def test_good_archives_come_out_whole(data: bytes, tmp_path: Path) -> None:
    archive = tmp_path / ("x.zip" if data[:2] == b"PK" else "x.tar")
    archive.write_bytes(data)
    assert unpack(archive, "top", unpacked=LIMIT) == tmp_path / "top"
    assert entries(tmp_path) == {archive.name, "top", "top/a", "top/a/1.txt", "top/2.txt", "top/.rwf.sha256"}
    assert (tmp_path / "top" / "2.txt").read_bytes() == b"two" * 1000
    wanted = {name.removeprefix("top/"): hashlib.sha256(GOOD[name]).hexdigest() for name in GOOD if name[:3] == "top"}
    lines = (tmp_path / "top" / SUMS).read_text().splitlines()
    assert lines == [f"{wanted[name]}  {name}" for name in sorted(wanted)]  # as sha256sum writes them


def test_what_is_gone_or_changed_since_is_found(tmp_path: Path) -> None:
    archive = tmp_path / "x.tar"
    archive.write_bytes(tar(GOOD, "w"))
    top = unpack(archive, "top", unpacked=LIMIT)
    assert differing(top) == ([], 2)
    (top / "2.txt").write_bytes(b"twO" * 1000)  # of the same length
    assert differing(top) == (["2.txt"], 2)
    (top / "a" / "1.txt").unlink()
    assert differing(top) == (["2.txt", "a/1.txt"], 2)
    (top / SUMS).unlink()
    assert differing(top) is None


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("kind", ["tar", "zip"])
def test_damaged_archives_never_come_out_half(kind: str, packed: bool, tmp_path: Path) -> None:
    rng = random.Random(0)
    good = zipped(GOOD) if kind == "zip" else tar(GOOD, "w:gz" if packed else "w")
    archive = tmp_path / f"x.{kind}"
    for round_ in range(60):
        data = bytearray(good)
        for _ in range(rng.randrange(1, 4)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        if round_ % 3 == 0:
            data = data[: rng.randrange(len(data))]
        archive.write_bytes(data)
        try:
            unpack(archive, "top", unpacked=LIMIT)
        except UserError:
            assert entries(tmp_path) == {archive.name}
        else:  # the damage hit what a tar does not check (content, names): its hash would have been refused before
            module.shutil.rmtree(tmp_path / "top")
            assert entries(tmp_path) == {archive.name}


def test_a_header_of_a_gigabyte_is_not_read(tmp_path: Path) -> None:
    header = tarfile.TarInfo("././@LongLink")
    header.type, header.size = tarfile.GNUTYPE_LONGNAME, 1 << 30
    archive = tmp_path / "x.tar.gz"
    archive.write_bytes(gzip.compress(header.tobuf(tarfile.GNU_FORMAT) + bytes(4096)))
    with pytest.raises(UserError, match="absurd length"):
        unpack(archive, "top", unpacked=LIMIT)


def test_too_many_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_FILES", 5)
    archive = tmp_path / "x.tar"
    archive.write_bytes(tar({f"top/{i}": b"" for i in range(10)}, "w"))
    with pytest.raises(UserError, match="more than 5 files"):
        unpack(archive, "top", unpacked=LIMIT)


@settings(max_examples=300)
@given(st.text(alphabet="ab./\\:\0\né ", max_size=20))
def test_a_safe_name_stays_inside(name: str) -> None:
    try:
        parts = safe_parts(name)
    except UserError:
        return
    root = Path("/root of the test")
    place = root.joinpath(*parts)
    assert place == root or root in place.parents
    assert ".." not in place.parts
    assert "\n" not in str(place)


# -- pickles -----------------------------------------------------------------------------------------------------------


class Evil:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return eval, ("1/0",)


def test_plain_pickles_are_read() -> None:
    content = read_pickle(cifar_files()["train"], "train")
    assert content[b"data"].dtype == np.uint8
    assert content[b"data"].shape == (12, 3072)
    assert content[b"fine_labels"][:5] == [0, 1, 2, 3, 0]
    now: dict[Any, Any] = {b"a": np.arange(6, dtype=np.int32).reshape(2, 3), "b": ["x", 1, 2.5, None, True, (1,)]}
    for protocol in (3, 4):  # 2 writes the bytes of Python 3 as a call, 5 wraps arrays in another one
        read = read_pickle(pickle.dumps(now, protocol=protocol), "x")
        assert read[b"a"].tolist() == [[0, 1, 2], [3, 4, 5]]
        assert read["b"] == now["b"]


@pytest.mark.parametrize(
    "data",
    [
        pickle.dumps(Evil()),
        b"cos\nsystem\n(S'true'\ntR.",
        b"cbuiltins\neval\n(S'1/0'\ntR.",
        b"cnumpy\nload\n(S'x'\ntR.",
        b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\ndtype\n(I9\ntS'b'\ntR.",
        b"P1\n.",
        b"",
        b"\x80\x02}",
        pickle.dumps(np.random.default_rng(0)),
        b"I" + b"9" * 100_000 + b"\n.",
    ],
)
def test_pickles_that_ask_for_more_are_refused(data: bytes) -> None:
    with pytest.raises(UserError, match="not the plain data") as caught:
        read_pickle(data, "some file")
    assert "\n" not in str(caught.value)


def test_damaged_pickles_are_sentences() -> None:
    rng, good = random.Random(0), cifar_files()["train"]
    for _ in range(300):
        data = bytearray(good)
        for _ in range(3):
            data[rng.randrange(500)] = rng.randrange(256)
        with contextlib.suppress(UserError):
            read_pickle(bytes(data), "some file")
