"""The hub's image layout in its many forms, and the sentences for what is not it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import rwf.data.rows as rows
from rwf.data.catalog import Catalog, open_benchmark
from rwf.data.decode import to_picture
from rwf.data.rows import open_rows
from rwf.errors import UserError
from tests.data.make import pixels, png, write_parquet

NAMES = ["cat", "ant", "bee"]


def opened(path: Path) -> Catalog:
    return open_benchmark(f"parquet:{path}")


def check_pictures(catalog: Catalog, split: str, numbers: list[int]) -> None:
    """The split holds exactly the pictures of these numbers, in this order."""
    side = getattr(catalog, split)
    assert len(side) == len(numbers)
    for i, number in enumerate(numbers):
        assert torch.equal(side.picture(i), to_picture(pixels(number)))


def test_names_paths_and_order(tmp_path: Path) -> None:
    write_parquet(tmp_path / "train.parquet", [2, 0, 1, 0], names=NAMES, paths=["d", "b", "a", "c"])
    write_parquet(tmp_path / "test.parquet", [1, 0, 2], names=NAMES, paths=["x", "y", "z"], start=50)
    catalog = opened(tmp_path)
    assert catalog.classes == ("cat", "ant", "bee")  # the set's own numbering
    assert list(catalog.train.names) == ["a", "b", "c", "d"]
    assert catalog.train.labels.tolist() == [1, 0, 0, 2]
    check_pictures(catalog, "train", [2, 1, 3, 0])
    check_pictures(catalog, "test", [50, 51, 52])
    assert catalog.notices == ()
    assert catalog.name == tmp_path.name


@pytest.mark.parametrize("paths", [None, ["a", "a", "b", "c"], ["a", None, "b", "c"]])
def test_without_unique_paths_the_rows_are_the_order(tmp_path: Path, paths: list[str | None] | None) -> None:
    write_parquet(tmp_path / "train.parquet", [1, 0, 1, 0], paths=paths)
    write_parquet(tmp_path / "test.parquet", [1, 0], start=50)
    catalog = opened(tmp_path)
    check_pictures(catalog, "train", [0, 1, 2, 3])
    assert catalog.classes == ("0", "1")
    assert len(set(catalog.train.names)) == 4


def test_numbers_without_names_stand_in_numeric_order(tmp_path: Path) -> None:
    write_parquet(tmp_path / "train.parquet", [10, 9, 100])
    write_parquet(tmp_path / "test.parquet", [100, 10, 9], start=50)
    catalog = opened(tmp_path)
    assert catalog.classes == ("9", "10", "100")
    assert catalog.train.labels.tolist() == [1, 0, 2]


@pytest.mark.parametrize(
    "files",
    [
        ["train.parquet", "test.parquet"],
        ["data/train-00000-of-00001.parquet", "data/test-00000-of-00001.parquet"],
        ["plain_text/train/0000.parquet", "plain_text/test/0000.parquet"],
        ["cifar_train.parquet", "train.parquet", "test-00000-of-00001-abcdef.parquet"],
    ],
)
def test_where_the_hub_puts_its_files(tmp_path: Path, files: list[str]) -> None:
    for file in files:
        write_parquet(tmp_path / file, [0, 1], start=50 if "test" in file else 0)
    check_pictures(opened(tmp_path), "train", [0, 1])
    check_pictures(opened(tmp_path), "test", [50, 51])


def test_shards_are_read_in_order_and_none_may_be_missing(tmp_path: Path) -> None:
    for i in range(3):
        write_parquet(tmp_path / f"train-0000{i}-of-00003.parquet", [0, 1, 0, 1, 0], names=NAMES[:2], start=5 * i)
    write_parquet(tmp_path / "test.parquet", [0, 1], names=NAMES[:2], start=50)
    check_pictures(opened(tmp_path), "train", list(range(15)))
    write_parquet(tmp_path / "train.parquet", [0, 1], names=NAMES[:2])
    with pytest.raises(UserError, match="there are 4, but their names say 3"):
        opened(tmp_path)
    (tmp_path / "train.parquet").unlink()
    (tmp_path / "train-00001-of-00003.parquet").unlink()
    with pytest.raises(UserError, match="there are 2, but their names say 3"):
        opened(tmp_path)


def test_two_sets_in_one_folder_are_not_mixed(tmp_path: Path) -> None:
    for part in ("a", "b"):
        write_parquet(tmp_path / part / "train.parquet", [0, 1])
    with pytest.raises(UserError, match="several sets"):
        opened(tmp_path)


@pytest.mark.parametrize("name", ["validation", "val", "valid"])
def test_validation_stands_in_for_test_and_is_announced(tmp_path: Path, name: str) -> None:
    write_parquet(tmp_path / "train.parquet", [0, 1])
    write_parquet(tmp_path / f"{name}-00000-of-00001.parquet", [0, 1], start=50)
    assert any("validation file is the test set" in n for n in opened(tmp_path).notices)
    write_parquet(tmp_path / "test.parquet", [-1, -1], start=70)  # as competitions give them out
    assert any("no test file with labels" in n for n in opened(tmp_path).notices)
    check_pictures(opened(tmp_path), "test", [50, 51])
    write_parquet(tmp_path / "test.parquet", [0, 1], start=70)
    check_pictures(opened(tmp_path), "test", [70, 71])
    assert opened(tmp_path).notices == ()


def test_one_file_is_split_by_rank_within_each_class(tmp_path: Path) -> None:
    write_parquet(tmp_path / "all.parquet", [0] * 10 + [1] * 5, paths=[f"{i:02d}" for i in range(15)])
    for spec in (tmp_path, tmp_path / "all.parquet", tmp_path / "*.parquet"):
        catalog = opened(spec)
        assert np.bincount(catalog.train.labels).tolist() == [8, 4]
        assert np.bincount(catalog.test.labels).tolist() == [2, 1]
        assert any("12 training and 3 test" in n for n in catalog.notices)
        numbers = [int(name) for name in catalog.train.names]
        check_pictures(catalog, "train", numbers)


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({"label": "fine_label", "extra": "coarse_label"}, True),
        ({"label": "label", "extra": "id"}, True),
        ({"label": "a", "extra": "b"}, False),
    ],
)
def test_of_several_integer_columns_the_known_name_wins(
    tmp_path: Path, columns: dict[str, str], expected: bool
) -> None:
    for file in ("train", "test"):
        write_parquet(
            tmp_path / f"{file}.parquet", [1, 0], label=columns["label"], image="img", extra={columns["extra"]: [7, 7]}
        )
    if expected:
        assert opened(tmp_path).train.labels.tolist() == [1, 0]
    else:
        with pytest.raises(UserError, match=r"several.*a, b.*rename"):
            opened(tmp_path)


def test_labels_that_are_words(tmp_path: Path) -> None:
    write_parquet(tmp_path / "train.parquet", ["zebra", "ant", "zebra"])
    write_parquet(tmp_path / "test.parquet", ["ant", "zebra"], start=50)
    assert opened(tmp_path).classes == ("ant", "zebra")
    assert opened(tmp_path).train.labels.tolist() == [1, 0, 1]


def test_plain_bytes_for_pictures_and_old_forms_of_names(tmp_path: Path) -> None:
    for file, start in (("train", 0), ("test", 50)):
        table = pa.table({"picture": [png(start), png(start + 1)], "label": pa.array([1, 0], pa.int32())})
        meta = '{"info": {"features": {"label": {"names": {"1": "one", "0": "zero"}}}}}'
        pq.write_table(table.replace_schema_metadata({"huggingface": meta}), tmp_path / f"{file}.parquet")
    assert opened(tmp_path).classes == ("zero", "one")
    check_pictures(opened(tmp_path), "test", [50, 51])


def test_two_classes_of_one_name_stay_two(tmp_path: Path) -> None:
    write_parquet(tmp_path / "train.parquet", [0, 1, 2], names=["crane", "cat", "crane"])
    write_parquet(tmp_path / "test.parquet", [0, 1, 2], names=["crane", "cat", "crane"], start=50)
    assert opened(tmp_path).classes == ("crane (0)", "cat", "crane (2)")


def test_classes_without_pictures_are_left_out_and_said(tmp_path: Path) -> None:
    write_parquet(tmp_path / "train.parquet", [0, 2, 2], names=NAMES)
    write_parquet(tmp_path / "test.parquet", [0, 1], names=NAMES, start=50)
    catalog = opened(tmp_path)
    assert catalog.classes == ("cat", "bee")
    assert catalog.train.labels.tolist() == [0, 1, 1]
    check_pictures(catalog, "test", [50])
    text = " ".join(catalog.notices)
    assert "1 x class without a training picture, left out" in text
    assert "1 x test picture of a class without training pictures, left out" in text
    assert "1 x class without a test picture, never tested" in text


def table(**columns: Any) -> pa.Table:
    return pa.table(columns)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (table(image=[png(0)]), "no label column"),
        (table(label=[1]), "no image column"),
        (table(image=[png(0)], label=[-1]), "negative"),
        (table(image=[png(0)], label=pa.array([None], pa.int64())), "1 rows without label"),
        (table(image=[png(0)], label=[0.5]), "no label column"),
        (table(image=[{"bytes": None, "path": "a"}], label=[1]), "no image column|paths instead of the bytes"),
        (table(a=[png(0)], b=[png(0)], label=[1]), "several.*a, b"),
        (table(image=pa.array([], pa.binary()), label=pa.array([], pa.int64())), "no rows"),
    ],
)
def test_what_is_not_the_layout_is_a_sentence(tmp_path: Path, content: pa.Table, says: str) -> None:
    for file in ("train", "test"):
        pq.write_table(content, tmp_path / f"{file}.parquet")
    with pytest.raises(UserError, match=says):
        opened(tmp_path)


def test_foreign_and_damaged_files_are_sentences(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no parquet file"):
        opened(tmp_path)
    with pytest.raises(UserError, match="no parquet file"):
        opened(tmp_path / "nowhere")
    (tmp_path / "train.parquet").write_bytes(b"PAR1 no, not really PAR1")
    with pytest.raises(UserError, match=r"train\.parquet"):
        opened(tmp_path)
    write_parquet(tmp_path / "train.parquet", [5, 0], names=NAMES)
    write_parquet(tmp_path / "test.parquet", [0, 1], names=NAMES)
    with pytest.raises(UserError, match="label 5, but names only 3"):
        opened(tmp_path)
    write_parquet(tmp_path / "train.parquet", [2, 2], names=NAMES)
    with pytest.raises(UserError, match="are they one set"):
        opened(tmp_path)
    write_parquet(tmp_path / "train.parquet", [0, 1], names=["x", "y"])
    with pytest.raises(UserError, match="name different classes"):
        opened(tmp_path)
    (tmp_path / "train.parquet").rename(tmp_path / "foo.parquet")
    with pytest.raises(UserError, match="no train"):
        opened(tmp_path)


def test_damage_inside_is_found_when_the_picture_is_read(tmp_path: Path) -> None:
    data = [png(0), b"damaged", None, png(3)]
    write_parquet(tmp_path / "train.parquet", [0, 1, 0, 1], data=data, paths=["a", "b", "c", "d"])
    write_parquet(tmp_path / "test.parquet", [0, 1], start=50)
    catalog = opened(tmp_path)
    for i, name in ((1, "b"), (2, "c")):
        with pytest.raises(UserError, match=f"'{name}'"):
            catalog.train.picture(i)
    assert torch.equal(catalog.train.picture(3), to_picture(pixels(3)))


@settings(max_examples=60)
@given(at=st.integers(0, 10**6), value=st.integers(0, 255))
def test_a_changed_byte_anywhere_is_a_catalog_or_a_sentence(tmp_path_factory: Any, at: int, value: int) -> None:
    folder = tmp_path_factory.mktemp("parquet")
    write_parquet(folder / "train.parquet", [0, 1, 0], names=["a", "b"])
    content = bytearray((folder / "train.parquet").read_bytes())
    content[at % len(content)] = value
    (folder / "train.parquet").write_bytes(bytes(content))
    try:
        catalog = opened(folder)
        for i in range(len(catalog.train)):
            catalog.train.picture(i)
    except UserError:
        pass


def test_a_large_set_is_unpacked_once_and_mapped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RWF_CACHE", str(tmp_path / "cache"))
    files = []
    for i in range(2):
        files.append(tmp_path / f"train-0000{i}-of-00002.parquet")
        write_parquet(files[-1], [0] * 9, start=9 * i)
    small, large = open_rows(files, "image"), open_rows(files, "image", in_memory=0)
    assert [small.read(i) for i in range(18)] == [large.read(i) for i in range(18)] == [png(i) for i in range(18)]
    assert small.sizes.tolist() == large.sizes.tolist()
    cached = list((tmp_path / "cache" / "rows").iterdir())
    assert [file.suffix for file in cached] == [".arrow"]  # whole, and nothing half-written beside it
    monkeypatch.setattr(rows, "_unpack", lambda *_: pytest.fail("unpacked a second time"))
    assert open_rows(files, "image", in_memory=0).read(17) == png(17)
    cached[0].write_bytes(b"damaged")
    with pytest.raises(UserError, match="damaged: remove it"):
        open_rows(files, "image", in_memory=0)


def test_no_space_for_the_unpacked_rows_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_parquet(tmp_path / "train.parquet", [0] * 9)
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("RWF_CACHE", str(tmp_path / "file"))
    with pytest.raises(UserError):
        open_rows([tmp_path / "train.parquet"], "image", in_memory=0)
