"""What real folders hold: each case is handled or is one sentence."""

from __future__ import annotations

import hashlib
import os
import shutil
import unicodedata
from pathlib import Path

import numpy as np
import pytest
import torch

from rwf.data.catalog import Catalog, open_benchmark
from rwf.data.decode import to_picture
from rwf.errors import UserError
from tests.data.make import pixels, png, write_folder


def names_of(catalog: Catalog, split: str = "train") -> list[str]:
    return list(getattr(catalog, split).names)


@pytest.fixture
def zoo(tmp_path: Path) -> Path:
    write_folder(tmp_path / "train", {"cat": 4, "ant": 3})
    write_folder(tmp_path / "test", {"cat": 2, "ant": 1}, start=100)
    return tmp_path


def test_train_and_test_folders(zoo: Path) -> None:
    catalog = open_benchmark(f"folder:{zoo}")
    assert catalog.classes == ("ant", "cat")
    assert names_of(catalog) == [*(f"ant/000{i}.png" for i in range(3)), *(f"cat/000{i}.png" for i in range(4))]
    assert catalog.train.labels.tolist() == [0, 0, 0, 1, 1, 1, 1]
    assert catalog.test.labels.tolist() == [0, 1, 1]
    assert catalog.train.labels.dtype == np.int64
    for i, number in enumerate([4, 5, 6, 0, 1, 2, 3]):
        assert torch.equal(catalog.train.picture(i), to_picture(pixels(number)))
    assert catalog.notices == ()
    assert catalog.name == zoo.name


def test_nothing_is_decoded_at_open(zoo: Path) -> None:
    (zoo / "train" / "cat" / "0000.png").write_bytes(b"damaged")
    catalog = open_benchmark(f"folder:{zoo}")
    with pytest.raises(UserError, match=r"cat/0000\.png"):
        catalog.train.picture(3)
    assert catalog.train.picture(4).shape == (3, 8, 8)
    (zoo / "train" / "cat" / "0002.png").unlink()
    with pytest.raises(UserError, match=r"0002\.png.*No such file"):
        catalog.train.picture(5)


@pytest.mark.parametrize("name", ["val", "Validation", "valid"])
def test_a_validation_folder_stands_in_for_a_missing_test_folder(zoo: Path, name: str) -> None:
    (zoo / "test").rename(zoo / name)
    catalog = open_benchmark(f"folder:{zoo}")
    assert len(catalog.test) == 3
    assert any(f"{name.lower()}/ is the test set" in notice for notice in catalog.notices)


@pytest.mark.parametrize("inside", ["", "train"])
def test_without_a_test_folder_the_ranking_of_sha256_decides(tmp_path: Path, inside: str) -> None:
    write_folder(tmp_path / inside, {"a": 10, "b": 5, "c": 1})
    catalog = open_benchmark(f"folder:{tmp_path}")
    for name, count in (("a", 10), ("b", 5)):
        rank = sorted(
            (f"{name}/{i:04d}.png" for i in range(count)), key=lambda n: hashlib.sha256(n.encode()).hexdigest()
        )
        first = count * 8 // 10
        assert [n for n in names_of(catalog) if n.startswith(name)] == sorted(rank[:first])
        assert [n for n in names_of(catalog, "test") if n.startswith(name)] == sorted(rank[first:])
    assert any("13 training and 3 test pictures" in n for n in catalog.notices)
    assert any("class without a test picture" in n and "c" in n for n in catalog.notices)


def test_what_is_no_picture_is_left_aside_and_said(zoo: Path) -> None:
    cat = zoo / "train" / "cat"
    (cat / "notes.txt").write_text("x")
    (cat / ".hidden.png").write_bytes(b"x")
    (cat / "Thumbs.db").write_bytes(b"x")
    (zoo / "train" / ".cache").mkdir()
    (zoo / "train" / ".cache" / "x.png").write_bytes(b"x")
    (zoo / "train" / "stray.png").write_bytes(png(0))
    (zoo / "train" / "empty").mkdir()
    (zoo / "test" / "unknown").mkdir()
    (zoo / "test" / "unknown" / "0.png").write_bytes(png(50))
    os.mkfifo(cat / "pipe.png")
    os.symlink(cat / "nowhere.png", cat / "broken.png")
    catalog = open_benchmark(f"folder:{zoo}")
    assert len(catalog.train) == 7
    assert len(catalog.test) == 3
    assert catalog.classes == ("ant", "cat")
    text = " ".join(catalog.notices)
    assert "3 x file that is no picture, ignored (cat/Thumbs.db, cat/notes.txt, stray.png)" in text
    assert "1 x class folder without a picture, ignored (empty)" in text
    assert "1 x class with test pictures only, left out (unknown)" in text


def test_sub_folders_links_and_loops_of_links(zoo: Path, tmp_path: Path) -> None:
    cat = zoo / "train" / "cat"
    (cat / "deep" / "er").mkdir(parents=True)
    (cat / "deep" / "er" / "x.JPEG").write_bytes(png(60))  # the suffix is only a hint, the bytes decide
    os.symlink(cat, cat / "deep" / "loop")
    os.symlink(cat / "self", cat / "self")
    elsewhere = tmp_path / "elsewhere"
    write_folder(elsewhere, {"bee": 2}, start=70)
    os.symlink(elsewhere / "bee", zoo / "train" / "bee")
    catalog = open_benchmark(f"folder:{zoo}")
    assert "cat/deep/er/x.JPEG" in names_of(catalog)
    assert catalog.classes == ("ant", "bee", "cat")
    assert len(catalog.train) == 10


def test_names_of_all_alphabets_and_of_none(tmp_path: Path) -> None:
    composed, decomposed = (unicodedata.normalize(form, "Bär") for form in ("NFC", "NFD"))
    write_folder(tmp_path, {"日本": 5, decomposed: 5, "white space": 5})
    os.mkdir(os.fsencode(tmp_path) + b"/\xff\xfe")
    shutil.copy(os.fsencode(tmp_path / "日本" / "0000.png"), os.fsencode(tmp_path) + b"/\xff\xfe/\xe9.png")
    catalog = open_benchmark(f"folder:{tmp_path}")
    assert set(catalog.classes) == {"日本", composed, "white space", "\\xff\\xfe"}
    for split in (catalog.train, catalog.test):
        for i, name in enumerate(split.names):
            name.encode("utf-8")
            assert split.picture(i).shape == (3, 8, 8)


def test_the_order_does_not_depend_on_the_file_system_but_the_fingerprint_on_the_content(tmp_path: Path) -> None:
    for copy, order in (("one", range(6)), ("two", reversed(range(6)))):
        for i in order:
            for split in ("train", "test"):
                folder = tmp_path / copy / split / f"class {i % 3}"
                folder.mkdir(parents=True, exist_ok=True)
                (folder / f"{i}.png").write_bytes(png(i + 10 * (split == "test")))
    one, two = (open_benchmark(f"folder:{tmp_path / copy}") for copy in ("one", "two"))
    assert names_of(one) == names_of(two)
    assert one.fingerprint == two.fingerprint
    (tmp_path / "two" / "train" / "class 0" / "0.png").write_bytes(png(1, 9, 9))
    assert open_benchmark(f"folder:{tmp_path / 'two'}").fingerprint != one.fingerprint
    (tmp_path / "one" / "train" / "class 0" / "0.png").rename(tmp_path / "one" / "train" / "class 0" / "00.png")
    assert open_benchmark(f"folder:{tmp_path / 'one'}").fingerprint != one.fingerprint


def test_a_class_called_train_is_a_class(tmp_path: Path) -> None:
    write_folder(tmp_path, {"bus": 5, "train": 5})
    assert open_benchmark(f"folder:{tmp_path}").classes == ("bus", "train")
    flat = tmp_path / "flat"
    write_folder(flat, {"train": 5, "test": 5})
    with pytest.raises(UserError, match="one sub-folder per class"):
        open_benchmark(f"folder:{flat}")
    write_folder(flat / "train", {"bus": 5, "train": 5}, start=20)
    write_folder(flat / "test", {"bus": 1, "train": 1}, start=40)
    assert open_benchmark(f"folder:{flat}").classes == ("bus", "train")


def test_wrong_folders_are_sentences(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="there is no folder"):
        open_benchmark(f"folder:{tmp_path / 'nowhere'}")
    with pytest.raises(UserError, match="sub-folder per class"):
        open_benchmark(f"folder:{tmp_path}")
    (tmp_path / "a.png").write_bytes(png(0))
    with pytest.raises(UserError, match="sub-folder per class"):
        open_benchmark(f"folder:{tmp_path}")
    with pytest.raises(UserError, match="there is no folder"):
        open_benchmark(f"folder:{tmp_path / 'a.png'}")
    write_folder(tmp_path, {"only": 1})
    with pytest.raises(UserError, match="no test picture"):
        open_benchmark(f"folder:{tmp_path}")
