"""The doctor finds what is there and says of what is missing how to get it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from rwf.data.benchmarks import cub
from rwf.data.benchmarks.sources import SOURCES
from rwf.run import doctor
from tests.data import archives


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two classes of noise, three training pictures and one test picture each."""
    draw = np.random.default_rng(0)
    for split, count in (("train", 3), ("test", 1)):
        for name in ("cat", "dog"):
            place = tmp_path / split / name
            place.mkdir(parents=True)
            for i in range(count):
                Image.fromarray(draw.integers(0, 256, (8, 8, 3), dtype=np.uint8)).save(place / f"{split}{i}.png")
    return tmp_path


def test_all_is_well(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert doctor.examine(backbone="random:32x2", benchmark=f"folder:{folder}", device="cpu") == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "2 blocks of width 32, pictures 32 x 32" in said
    assert "2 classes, 6 training and 2 test pictures" in said
    assert "3 training pictures a class" in said
    assert said.endswith("all is well")


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"backbone": "vit_base_patch61_224"}, "did you mean"),
        ({"benchmark": "folder:none"}, "none"),
        ({"device": "cuda:99"}, "try cpu"),
    ],
)
def test_what_is_missing_is_marked_and_the_rest_still_examined(
    asked: dict[str, str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert doctor.examine(**{"device": "cpu", **asked}) == 2  # type: ignore[arg-type]
    said = capsys.readouterr().out
    assert said.count("MISSING: ") == 1
    assert says in " ".join(said.split())
    assert "benchmark" in said


def test_a_picture_that_cannot_be_read_is_found(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "train" / "cat" / "train0.png").write_bytes(b"not a picture")
    assert doctor.examine(benchmark=f"folder:{folder}", device="cpu") == 2
    assert "train0.png" in capsys.readouterr().out.replace("\n", "")


def test_little_disk_is_said(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(doctor, "LITTLE_DISK", 1 << 70)
    assert doctor.examine(device="cpu") == 2
    assert "free some space" in capsys.readouterr().out


@pytest.fixture
def small_cub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> bytes:
    """split-cub200 as a small archive of the same form; no address that could be asked."""
    source, data = archives.small_cub()
    source = replace(source, url="http://127.0.0.1:1/nobody")
    monkeypatch.setitem(SOURCES, "split-cub200", source)
    monkeypatch.setattr(cub.open_cub200, "__kwdefaults__", {"data_dir": None, "source": source})
    return data


def test_a_published_benchmark_from_nothing_to_whole(
    small_cub: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def ask() -> tuple[int, str]:
        code = doctor.examine(benchmark="split-cub200", data_dir=tmp_path, device="cpu")
        return code, " ".join(capsys.readouterr().out.split())

    code, said = ask()
    assert code == 2
    assert "Licence: none stated" in said
    assert "the first use fetches and unpacks it" in said
    assert "put it into" in said
    assert list(tmp_path.iterdir()) == []  # the doctor only looks
    archive = tmp_path / "CUB_200_2011.tgz"
    archive.write_bytes(small_cub[:-1] + b"x")
    code, said = ask()
    assert code == 2
    assert "is not the published" in said
    archive.write_bytes(small_cub)
    code, said = ask()
    assert code == 0
    assert "as published" in said
    assert "not unpacked yet" in said
    cub.open_cub200(data_dir=tmp_path)
    code, said = ask()
    assert code == 0
    assert "unpacked by rwf" in said
    assert "3 classes, 6 training and 6 test pictures" in said


def test_every_published_benchmark_is_known_to_the_doctor(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, file in (
        ("split-cifar100", "cifar-100-python.tar.gz"),
        ("split-imagenet-r", "imagenet-r.tar"),
        ("split-imagenet-s", "ImageNet-Sketch.zip"),
    ):
        assert doctor.examine(benchmark=name, data_dir=tmp_path, device="cpu") == 2
        said = " ".join(capsys.readouterr().out.split())
        assert f"{file} is not in" in said
