"""Files are whole or not there, lines can be cut back, and a folder belongs to one process."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rwf import files
from rwf.errors import UserError

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def child(code: str, *arguments: object) -> subprocess.Popen[str]:
    """A second process that can import rwf."""
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[1],
    )


@given(JSON)
def test_json_comes_back_as_it_was(tmp_path_factory: pytest.TempPathFactory, content: object) -> None:
    path = tmp_path_factory.getbasetemp() / "some.json"
    files.write_json(path, content)
    assert files.read_json(path) == content


def test_nan_is_not_json_and_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    files.write_json(path, {"x": 1})
    with pytest.raises(ValueError, match="not JSON compliant"):
        files.write_json(path, {"x": float("nan")})
    assert files.read_json(path) == {"x": 1}


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe{}", b"[1,"])
def test_damaged_json_is_said(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(UserError, match="is damaged"):
        files.read_json(tmp_path / "a.json")
    with pytest.raises(UserError, match="there is no file"):
        files.read_json(tmp_path / "b.json")


def test_a_failing_writer_leaves_old_content_and_no_litter(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    files.write_text(path, "old")

    def broken() -> None:
        with files.replacing(path) as temporary:
            temporary.write_text("half")
            raise RuntimeError("in the middle")

    with pytest.raises(RuntimeError):
        broken()
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]


def test_a_kill_in_the_middle_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    files.write_json(path, "old")
    code = (
        "import sys, time, pathlib; from rwf import files\n"
        "with files.replacing(pathlib.Path(sys.argv[1])) as t:\n"
        "    t.write_text('half'); print('now', flush=True); time.sleep(60)"
    )
    process = child(code, path)
    assert process.stdout is not None
    assert process.stdout.readline() == "now\n"
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert files.read_json(path) == "old"
    left = [p.name for p in tmp_path.iterdir() if p != path]
    assert left
    assert all(name.startswith(files.TEMPORARY) for name in left)
    files.write_json(path, "new")
    assert files.read_json(path) == "new"


def test_the_new_file_has_ordinary_rights(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("")
    files.write_text(tmp_path / "ours", "")
    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "plain").stat().st_mode


def failing(code: int) -> Callable[..., Any]:
    def fail(*_: object, **__: object) -> Any:
        raise OSError(code, os.strerror(code))

    return fail


@pytest.mark.parametrize(
    ("code", "says"),
    [(errno.ENOSPC, "disk is full"), (errno.EACCES, "permission denied"), (errno.EROFS, "read-only")],
)
def test_full_disk_and_missing_rights_are_sentences(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, says: str
) -> None:
    path = tmp_path / "a.json"
    files.write_json(path, "old")
    rows = files.JsonLines(tmp_path / "rows.jsonl")
    rows.append(1)
    before = rows.length
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", failing(code))
        with pytest.raises(UserError, match=rf"cannot write .*a\.json: .*{says}"):
            files.write_json(path, "new")
    assert files.read_json(path) == "old"
    assert not [p for p in tmp_path.iterdir() if p.name.startswith(files.TEMPORARY)]

    real, calls = os.write, iter([3])

    def a_part_then_full(handle: int, content: bytes) -> int:
        return real(handle, content[: next(calls, 0)]) if len(content) > 10 else failing(code)()

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", a_part_then_full)
        with pytest.raises(UserError, match=says):
            rows.append("123456789")
    assert rows.length == before
    rows.append(2)
    assert files.read_jsonl(rows.path) == [1, 2]


def test_a_really_full_disk(tmp_path: Path) -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("this system has no /dev/full")
    with pytest.raises(UserError, match="disk is full"), files.writing(full):
        full.write_text("x")


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot write .*choose another folder"):
        files.make_folder(tmp_path / "file" / "below")
    with pytest.raises(UserError, match="is in the way"):
        files.make_folder(tmp_path / "file")


@given(st.lists(JSON, max_size=6), st.integers(0, 6))
def test_lines_are_cut_back_to_where_they_were(
    tmp_path_factory: pytest.TempPathFactory, rows: list[object], keep: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "rows.jsonl"
    path.unlink(missing_ok=True)
    keep = min(keep, len(rows))
    lengths = [0]
    with files.JsonLines(path) as log:
        for row in rows:
            log.append(row)
            lengths.append(log.sync())
    with files.JsonLines(path) as log:  # a new process goes on
        assert log.length == lengths[-1]
        log.cut_back(lengths[keep])
        log.append("after")
    assert files.read_jsonl(path) == [*rows[:keep], "after"]


def test_a_half_last_line_is_left_out_and_a_damaged_one_said(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'{"a": 1}\n{"a": 2')
    assert files.read_jsonl(path) == [{"a": 1}]
    path.write_bytes(b'{"a": 1}\n{"a": \n{"a": 3}\n')
    with pytest.raises(UserError, match="line 2 is damaged"):
        files.read_jsonl(path)
    with pytest.raises(UserError, match="there is no file"):
        files.read_jsonl(tmp_path / "none.jsonl")


def test_missing_lines_are_said(tmp_path: Path) -> None:
    with files.JsonLines(tmp_path / "rows.jsonl") as log:
        log.append(1)
        with pytest.raises(UserError, match="shorter .* than its checkpoint says"):
            log.cut_back(100)


def test_one_process_a_folder(tmp_path: Path) -> None:
    code = (
        "import sys, time, pathlib; from rwf.files import FolderLock\n"
        "with FolderLock(pathlib.Path(sys.argv[1])): print('mine', flush=True); time.sleep(60)"
    )
    process = child(code, tmp_path)
    assert process.stdout is not None
    assert process.stdout.readline() == "mine\n"
    with pytest.raises(UserError, match=rf"another process \(pid {process.pid}\)"):
        files.FolderLock(tmp_path).__enter__()
    process.send_signal(signal.SIGKILL)
    process.wait()
    with files.FolderLock(tmp_path), pytest.raises(UserError, match=f"pid {os.getpid()}"):
        files.FolderLock(tmp_path).__enter__()  # a killed process holds nothing, this one does
    with files.FolderLock(tmp_path):
        pass


def test_the_lock_tells_that_the_folder_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot write"):
        files.FolderLock(tmp_path / "none").__enter__()


def test_rows_are_plain_json_lines(tmp_path: Path) -> None:
    with files.JsonLines(tmp_path / "rows.jsonl") as log:
        log.append({"straße": 1.5})
    assert [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()] == [{"straße": 1.5}]
