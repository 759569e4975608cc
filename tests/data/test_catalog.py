"""Names lead to catalogs or to sentences; pictures, cache and duplicates behave."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from rwf.data import duplicates as module
from rwf.data import pictures
from rwf.data.cache import SmallPictures
from rwf.data.catalog import Catalog, build_catalog, open_benchmark
from rwf.data.decode import BadImageError, to_picture
from rwf.data.duplicates import duplicate_notice, find_duplicates
from rwf.data.pictures import ArrayStore, Pictures
from rwf.errors import UserError
from rwf.registry import BENCHMARKS, Entry
from tests.data.make import pixels, png, world, write_folder


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("split-cifr", "no benchmark 'split-cifr'"),
        ("", "no benchmark"),
        ("folder:", "folder:PATH"),
        ("parquet:", "parquet:PATH"),
        ("tar:/x", "no benchmark"),
    ],
)
def test_unknown_names_are_sentences(spec: str, says: str) -> None:
    with pytest.raises(UserError, match=says):
        open_benchmark(spec)


def test_a_bare_path_is_told_its_prefix(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=f"write folder:{tmp_path} or parquet:"):
        open_benchmark(str(tmp_path))


def small_world(data_dir: Path | None) -> Catalog:
    assert data_dir == Path("where")
    return world([2, 2])


def test_registered_names_and_aliases_open_lazily(monkeypatch: pytest.MonkeyPatch) -> None:
    import rwf.registry

    monkeypatch.setitem(BENCHMARKS, "small", Entry("somewhere:small_world", "for a test"))
    monkeypatch.setitem(BENCHMARKS, "tiny", Entry("", "for a test", alias_of="small"))
    monkeypatch.setattr(rwf.registry, "load_object", {"somewhere:small_world": small_world}.__getitem__)
    for name in ("small", "tiny"):
        assert open_benchmark(name, data_dir=Path("where")).classes == ("class 000", "class 001")


def test_a_catalog_refuses_what_would_make_ids_ambiguous() -> None:
    store = ArrayStore(np.zeros((2, 3, 4, 4), np.uint8))
    for names, labels, says in (
        (["b", "a"], [0, 0], "sorted"),
        (["a", "a"], [0, 0], "unique"),
        (["a"], [0], "1 names"),
    ):
        with pytest.raises(ValueError, match=says):
            Pictures(names, labels, store)
    good = (["a", "b"], [0, 1], store)
    with pytest.raises(ValueError, match="outside the classes"):
        build_catalog("x", ["one"], good, good, source="")
    with pytest.raises(ValueError, match="no training picture"):
        build_catalog("x", ["one", "two", "three"], good, good, source="")
    with pytest.raises(ValueError, match="uint8"):
        ArrayStore(np.zeros((2, 3, 4, 4), np.float32))


def test_pictures_are_the_callers_own(tmp_path: Path) -> None:
    write_folder(tmp_path, {"a": 4, "b": 4})
    for catalog in (open_benchmark(f"folder:{tmp_path}"), world([2])):
        first = catalog.train.picture(1).clone()
        for _ in range(3):  # decoded, then from the cache
            picture = catalog.train.picture(1)
            assert torch.equal(picture, first)
            picture.zero_()
            picture += 9
        for outside in (-1, len(catalog.train)):
            with pytest.raises(IndexError):
                catalog.train.picture(outside)


def test_the_cache_reads_each_small_file_once_and_large_ones_every_time(tmp_path: Path) -> None:
    write_folder(tmp_path, {"a": 4})
    (tmp_path / "a" / "0000.png").write_bytes(png(0, 8, 9))  # another size: never kept, never wrong
    (tmp_path / "a" / "large.png").write_bytes(png(5, 80, 80))
    catalog = open_benchmark(f"folder:{tmp_path}")
    train = catalog.train
    expected = {"a/0000.png": (0, 8, 9), "a/large.png": (5, 80, 80)} | {f"a/000{i}.png": (i, 8, 8) for i in (1, 2, 3)}
    for _ in range(2):
        for i, name in enumerate(train.names):
            assert torch.equal(train.picture(i), to_picture(pixels(*expected[name])))
    for path in (tmp_path / "a").iterdir():
        path.unlink()
    kept = []
    for i, name in enumerate(train.names):
        try:
            assert torch.equal(train.picture(i), to_picture(pixels(*expected[name])))
            kept.append(expected[name][1:])
        except UserError:
            pass
    assert kept
    assert len(set(kept)) == 1
    assert (80, 80) not in kept


def test_the_cache_has_a_limit() -> None:
    picture = to_picture(pixels(1))
    cache = SmallPictures(10, limit=10 * picture.numel() - 1)
    cache.put(0, picture)
    assert cache.get(0) is None
    cache = SmallPictures(10, limit=10 * picture.numel())
    cache.put(0, picture)
    got = cache.get(0)
    assert got is not None
    assert torch.equal(got, picture)
    assert cache.get(1) is None


def test_duplicates_are_found_and_said(tmp_path: Path) -> None:
    write_folder(tmp_path / "train", {"a": 3, "b": 3})
    write_folder(tmp_path / "test", {"a": 2, "b": 2}, start=100)
    assert open_benchmark(f"folder:{tmp_path}").notices == ()
    (tmp_path / "train" / "b" / "again.png").write_bytes(png(0))
    (tmp_path / "train" / "b" / "and again.png").write_bytes(png(0))
    (tmp_path / "test" / "b" / "leak.png").write_bytes(png(5))
    catalog = open_benchmark(f"folder:{tmp_path}")
    groups = find_duplicates(catalog.train, catalog.test)
    names = {"train": catalog.train.names, "test": catalog.test.names}
    assert sorted(sorted(f"{split}/{names[split][i]}" for split, i in group) for group in groups) == [
        ["test/b/leak.png", "train/b/0002.png"],
        ["train/a/0000.png", "train/b/again.png", "train/b/and again.png"],
    ]
    assert catalog.notices == (duplicate_notice(catalog.train, catalog.test),)
    assert "under several names: 2 (for example" in catalog.notices[0]
    assert "shows it twice: 2; in training and in test: 1." in catalog.notices[0]


def test_who_did_not_look_for_duplicates_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_folder(tmp_path / "train", {"a": 3})
    write_folder(tmp_path / "test", {"a": 2}, start=100)
    (tmp_path / "train" / "a" / "again.png").write_bytes(png(0))
    sizes = [path.stat().st_size for path in tmp_path.rglob("*.png")]
    to_read = sum(size for size in sizes if sizes.count(size) > 1)
    monkeypatch.setattr(module, "AT_OPEN", to_read)
    assert "under several names: 1" in open_benchmark(f"folder:{tmp_path}").notices[0]
    assert open_benchmark(f"folder:{tmp_path}", duplicates=False).notices == ()
    monkeypatch.setattr(module, "AT_OPEN", to_read - 1)
    (notice,) = open_benchmark(f"folder:{tmp_path}").notices
    assert "Nobody has looked" in notice
    assert f"rwf doctor --benchmark folder:{tmp_path}" in notice


def test_a_file_that_cannot_be_read_does_not_end_the_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_folder(tmp_path / "train", {"a": 3})
    write_folder(tmp_path / "test", {"a": 1}, start=100)
    for name in ("again.png", "locked.png"):
        (tmp_path / "train" / "a" / name).write_bytes(png(0))
    read = pictures.read_bytes

    def refused(path: Path) -> bytes:
        if path.name == "locked.png":
            raise BadImageError(f"cannot read {path}: Permission denied.")
        return read(path)

    monkeypatch.setattr(pictures, "read_bytes", refused)
    assert "= train a/again.png" in open_benchmark(f"folder:{tmp_path}").notices[0]


def test_duplicates_in_memory() -> None:
    array = np.stack([pixels(i).transpose(2, 0, 1) for i in (1, 2, 1)])
    side = (["a", "b", "c"], [0, 0, 0], ArrayStore(array))
    other = (["a"], [0], ArrayStore(array[1:2]))
    catalog = build_catalog("x", ["one"], side, other, source="")
    assert find_duplicates(catalog.train, catalog.test) == [[("train", 0), ("train", 2)], [("train", 1), ("test", 0)]]
