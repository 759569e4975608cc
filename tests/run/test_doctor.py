"""The doctor finds what is there and says of what is missing how to get it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from rwf.data import duplicates
from rwf.data.benchmarks import cub
from rwf.data.benchmarks.bar import size_of
from rwf.data.benchmarks.sources import SOURCES
from rwf.data.benchmarks.sums import SUMS
from rwf.run import doctor
from rwf.vit.feature_cache import Shards
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


def test_it_says_what_is_kept_of_frozen_networks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RWF_FEATURE_CACHE", str(tmp_path))
    Shards(tmp_path, 1000).put("ab" * 32, torch.zeros(3))
    doctor.examine(device="cpu")
    assert f"1 files with answers of frozen networks in {tmp_path}" in " ".join(capsys.readouterr().out.split())


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


def test_every_picture_that_cannot_be_read_is_found_and_the_rest_still_said(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert doctor.examine(benchmark=f"folder:{folder}", device="cpu") == 0
    assert "all 8 pictures were read without fault" in " ".join(capsys.readouterr().out.split())
    (folder / "train" / "cat" / "train1.png").write_bytes(b"not a picture")
    (folder / "test" / "dog" / "test0.png").write_bytes(b"")
    assert doctor.examine(benchmark=f"folder:{folder}", device="cpu") == 2
    said = " ".join(capsys.readouterr().out.split())
    assert "MISSING: 2 of 8 pictures that were tried cannot be read: cat/train1.png, dog/test0.png." in said
    assert "3 training pictures a class" in said
    assert said.endswith("1 missing: mend what is marked MISSING and ask again")


def test_of_a_large_set_some_pictures_are_tried(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(doctor, "TRY_ALL", 0)
    monkeypatch.setattr(doctor, "TRY_SOME", 2)
    assert doctor.examine(benchmark=f"folder:{folder}", device="cpu") == 0
    assert "4 of 8 pictures were read without fault" in " ".join(capsys.readouterr().out.split())


def test_the_doctor_looks_for_duplicates_however_many_there_are(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(duplicates, "AT_OPEN", 0)
    (folder / "train" / "cat" / "again.png").write_bytes((folder / "train" / "dog" / "train0.png").read_bytes())
    assert doctor.examine(benchmark=f"folder:{folder}", device="cpu") == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "under several names: 1 (for example train cat/again.png = train dog/train0.png)" in said
    assert "Nobody has looked" not in said


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
    assert "MISSING: CUB_200_2011.tgz is not in" in said
    assert "the first use fetches and unpacks it" in said
    assert f"{size_of(len(small_cub))} to fetch and about 1.0 MB unpacked" in said
    assert f"http://127.0.0.1:1/nobody and put it into {tmp_path}" in said
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
    assert "unpacked by rwf, all 16 files as they came out of the archive" in said
    assert "3 classes, 6 training and 6 test pictures" in said
    assert "all 12 pictures were read without fault" in said
    picture = tmp_path / "CUB_200_2011" / "images" / "001.Bird_0" / "Bird_0_0001.jpg"
    content = picture.read_bytes()
    picture.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    code, said = ask()
    assert code == 2
    assert "1 of 16 files in" in said
    assert "gone or not what was unpacked (images/001.Bird_0/Bird_0_0001.jpg)" in said
    picture.write_bytes(content)
    (tmp_path / "CUB_200_2011" / SUMS).unlink()
    archive.unlink()
    code, said = ask()
    assert code == 0
    assert "unpacked by somebody else, its pictures are counted and not checked" in said


def test_every_published_benchmark_is_known_to_the_doctor(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, file in (
        ("split-cifar100", "cifar-100-python.tar.gz"),
        ("split-imagenet-r", "imagenet-r.tar"),
        ("split-imagenet-s", "ImageNet-Sketch.zip"),
    ):
        assert doctor.examine(benchmark=name, data_dir=tmp_path, device="cpu") == 2
        lines = capsys.readouterr().out
        said = " ".join(lines.split())
        source = next(source for source in SOURCES.values() if source.archive == file)
        assert f"{file} is not in" in said
        assert f"{size_of(source.size)} to fetch" in said
        assert source.licence in said
        assert source.url in lines  # in one piece, to be copied
        assert all(value in lines for value in source.hashes.values())
