"""Wrong data on the command line, as a person meets it: one sentence, exit code 2, no traceback, no folder left."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rwf.cli import main
from rwf.data.benchmarks import cub, download
from rwf.data.benchmarks.sources import SOURCES
from tests.data import archives
from tests.data.make import png, write_folder, write_parquet
from tests.data.serve import Server, serving

BACKBONE = ["--backbone", "random:32x2"]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to work in; nothing of the person's own is looked at."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RWF_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(download, "WAIT", 0.0)
    monkeypatch.setattr(download, "TIMEOUT", 0.3)
    return tmp_path


def cats(**counts: int) -> Callable[[Path], None]:
    return lambda here: write_folder(here / "x", counts)


def bytes_in(name: str, data: bytes) -> Callable[[Path], None]:
    def write(here: Path) -> None:
        (here / "x").mkdir(exist_ok=True)
        (here / "x" / name).write_bytes(data)

    return write


def table(**columns: list) -> Callable[[Path], None]:
    return lambda here: pq.write_table(pa.table(columns), here / "x.parquet")


def no_pictures(here: Path) -> None:
    for name in ("cat", "dog"):
        folder = here / "x" / name
        folder.mkdir(parents=True)
        for i in range(5):
            (folder / f"{i}.png").write_bytes(b"<html>not found</html>")


def no_test(here: Path) -> None:
    write_parquet(here / "x" / "train-00000-of-00002.parquet", [0, 1])


def dark(here: Path) -> None:
    write_parquet(here / "x.parquet", [0] * 5 + [1] * 5, data=[b"damaged"] * 10)


WRONG: dict[str, tuple[Callable[[Path], object], str, str]] = {
    "no folder": (Path.exists, "folder:x", "there is no folder 'x'"),
    "no path": (Path.exists, "folder:", "names no path"),
    "a file": (bytes_in("f", b""), "folder:x/f", "there is no folder 'x/f'"),
    "an empty folder": (cats(), "folder:.", "no pictures in class folders"),
    "empty classes": (cats(cat=0, dog=0), "folder:x", "no pictures in class folders"),
    "pictures without class folders": (bytes_in("1.png", png(1)), "folder:x", "one sub-folder per class"),
    "one picture a class": (cats(cat=1, dog=1), "folder:x", "no test picture"),
    "one class": (cats(cat=9), "folder:x", "10 tasks are more than the 1 class: give at most 1"),
    "more tasks than classes": (cats(cat=9, dog=9), "folder:x", "10 tasks are more than the 2 classes"),
    "no pictures in the files": (no_pictures, "folder:x --tasks 2", "cannot be read"),
    "no picture can be read": (no_pictures, "folder:x --tasks 2 --on-bad-image skip", "nothing to evaluate"),
    "no parquet": (cats(cat=1), "parquet:x", "no parquet file"),
    "not parquet": (bytes_in("train.parquet", b"hello"), "parquet:x", "as parquet"),
    "cut parquet": (bytes_in("train.parquet", b"PAR1" + bytes(99) + b"PAR1"), "parquet:x", "as parquet"),
    "no image column": (table(text=["a"], label=[1]), "parquet:x.parquet", "no image column"),
    "no label column": (table(image=[b"a"], text=["b"]), "parquet:x.parquet", "no label column"),
    "a shard is missing": (no_test, "parquet:x", "there are 1"),
    "bytes of no picture": (dark, "parquet:x.parquet --tasks 2", "cannot be read"),
    "a bare path": (cats(cat=1), "x", "write folder:x or parquet:x"),
    "an unknown name": (Path.exists, "split-cifar10", "did you mean 'split-cifar100'"),
    "a list that is not there": (Path.exists, "split-imagenet-r --train-list x.txt", "cannot read the training list"),
    "a list that is no text": (
        bytes_in("l", b"\xff\xfe\x00"),
        "split-imagenet-r --train-list x/l",
        "cannot read the training list",
    ),
    "a list nobody asked for": (Path.exists, "split-digits --train-list x.txt", "takes no --train-list"),
    "no data folder": (Path.exists, "split-cub200 --data-dir none", "there is no folder 'none'"),
}


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("command", ["run", "doctor"])
def test_it_is_one_sentence_and_2(name, command, here, capsys):
    make, arguments, says = WRONG[name]
    if command == "doctor" and ("--t" in arguments or "--on" in arguments or "task" in says):
        pytest.skip("no option of the doctor")
    make(here)
    before = sorted(here.rglob("*"))
    started = ["run", "linear_probe", *BACKBONE] if command == "run" else ["doctor"]
    assert main([*started, "--benchmark", *arguments.split()]) == 2
    said = capsys.readouterr()
    if command == "run":
        last = said.err.strip().splitlines()[-1]
        assert last.startswith("rwf: ")
        assert last.endswith((".", "?"))
        assert says in last
        had_begun = "cannot be read" in last or "nothing to evaluate" in last
        left = [path for path in sorted(here.rglob("*")) if path not in before]
        assert had_begun or left in ([], [here / "runs"])
    else:
        found = " ".join(said.out.split())
        assert "MISSING: " in found
        assert says in found
    assert "Traceback" not in said.out + said.err


# -- a server that misbehaves -----------------------------------------------------------------------------------------


@pytest.fixture
def cub_server(monkeypatch: pytest.MonkeyPatch):
    """split-cub200 from a server on this machine."""
    source, data = archives.small_cub()
    with serving(data) as server:
        source = replace(source, url=server.url)
        monkeypatch.setitem(SOURCES, "split-cub200", source)
        monkeypatch.setattr(cub.open_cub200, "__kwdefaults__", {"data_dir": None, "source": source})
        yield server


@pytest.mark.parametrize("fault", ["stall 700", "cut 700", "corrupt", "status 404"])
def test_a_failed_download_is_a_sentence_and_the_next_call_goes_on(fault, cub_server: Server, here, capsys):
    line = ["run", "linear_probe", *BACKBONE, "--benchmark", "split-cub200", "--tasks", "3", "--batch-size", "2"]
    again = fault.split()[0] + " 0"
    cub_server.behaviour = [fault, *[again] * 5] if "700" in fault else [fault]
    assert main(line) == 2
    error = capsys.readouterr().err.strip().splitlines()
    assert [text for text in error if text.startswith("rwf: ")] == error[-1:]
    assert error[0] == f"downloading CUB_200_2011.tgz ({len(cub_server.data) / 1000:.1f} kB)"
    part, whole = here / "data" / "CUB_200_2011.tgz.part", here / "data" / "CUB_200_2011.tgz"
    assert part.exists() == ("700" in fault)
    assert not whole.exists()
    assert not (here / "data" / "CUB_200_2011").exists()
    asked = len(cub_server.asked)
    cub_server.behaviour = ["well"]
    assert main(line) == 0
    assert cub_server.asked[asked].get("range") == ("bytes=700-" if "700" in fault else None)
    assert "6 of 6 pictures seen, most visits 1" in " ".join(capsys.readouterr().out.split())
    shutil.rmtree(here / "runs")
    assert main(line) == 0  # from the disk: nothing is asked again
    assert len(cub_server.asked) == asked + 1


# -- what a newcomer sees ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["folder", "parquet"])
def test_the_lines_of_the_readme(form, here, capsys):
    if form == "folder":
        write_folder(here / "x", {"ant": 10, "bee": 10, "Käfer": 10})
    else:
        write_parquet(here / "x" / "train.parquet", np.repeat([0, 1, 2], 10).tolist(), names=["ant", "bee", "Käfer"])
    line = ["run", "linear_probe", *BACKBONE, "--benchmark", f"{form}:x", "--tasks", "3", "--batch-size", "16"]
    assert main(line) == 0
    said = capsys.readouterr()
    assert said.out.startswith("x: 3 classes, 24 training and 6 test pictures, manifest ")
    assert "There is no test set: 24 training and 6 test pictures were chosen by ranking" in said.out
    assert "24 pictures, 3 classes: mean accuracy" in said.err
    assert "24 of 24 pictures seen, most visits 1" in " ".join(said.out.split())
    assert (here / "runs" / f"linear_probe-{form}-x-s0" / "result.json").is_file()
