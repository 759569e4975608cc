"""The paper's benchmarks from archives in the true layout: from the web, from a person's folder, never half done."""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torchvision.datasets import CIFAR100

from rwf.data.batch import Batch
from rwf.data.benchmarks import download, place
from rwf.data.benchmarks.cifar import open_cifar100
from rwf.data.benchmarks.cub import open_cub200
from rwf.data.benchmarks.imagenet import open_imagenet_r, open_imagenet_sketch
from rwf.data.benchmarks.sources import SOURCES, Source
from rwf.data.benchmarks.sums import SUMS
from rwf.data.catalog import Catalog, open_benchmark
from rwf.data.split import ranked_split
from rwf.data.stream import make_stream
from rwf.errors import UserError
from rwf.files import TEMPORARY, FolderLock
from rwf.registry import BENCHMARKS
from tests.data import archives
from tests.data.make import viewer
from tests.data.serve import Server, serving

OPEN: dict[str, Callable[..., Catalog]] = {
    "split-cifar100": open_cifar100,
    "split-imagenet-r": open_imagenet_r,
    "split-imagenet-sketch": open_imagenet_sketch,
    "split-cub200": open_cub200,
}
NAMES = sorted(OPEN)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download, "WAIT", 0.0)
    monkeypatch.setattr(download, "TIMEOUT", 0.3)


@pytest.fixture
def cub() -> Iterator[tuple[Server, Source]]:
    source, data = archives.small_cub()
    with serving(data) as server:
        yield server, replace(source, url=server.url)


def left_in(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir() if entry.name != "lock")


def test_every_registered_benchmark_has_a_source() -> None:
    assert {name for name, entry in BENCHMARKS.items() if entry.target.startswith("rwf.data.benchmarks")} == set(
        SOURCES
    )
    assert BENCHMARKS["split-imagenet-s"].alias_of == "split-imagenet-sketch"
    for source in SOURCES.values():
        assert source.url.startswith("https://")
        assert source.hashes
        for algorithm, value in source.hashes.items():
            assert len(value) == 2 * hashlib.new(algorithm).digest_size
        assert min(len(source.licence), len(source.facts)) > 10
        assert source.size < source.unpacked


def test_the_hashes_of_cifar_are_those_that_torchvision_ships() -> None:
    source = SOURCES["split-cifar100"]
    assert source.hashes == {"md5": CIFAR100.tgz_md5}
    assert source.url == CIFAR100.url
    files = {**dict(CIFAR100.train_list), **dict(CIFAR100.test_list)}
    assert source.files == files | {CIFAR100.meta["filename"]: CIFAR100.meta["md5"]}


@pytest.mark.parametrize("name", NAMES)
def test_from_the_web_and_then_from_the_folder(name: str, tmp_path: Path) -> None:
    source, data = archives.ALL[name]()
    with serving(data) as server:
        source = replace(source, url=server.url)
        first = OPEN[name](data_dir=tmp_path, source=source)
        second = OPEN[name](data_dir=tmp_path, source=source)
        (tmp_path / source.archive).unlink()  # once unpacked it is not needed any more
        third = OPEN[name](data_dir=tmp_path / source.top, source=source)  # the folder itself
    assert len(server.asked) == 1
    assert first.fingerprint == second.fingerprint == third.fingerprint
    assert first.name == name
    assert len(first.classes) == source.classes
    assert len(first.train) + len(first.test) == source.pictures
    assert [entry for entry in left_in(tmp_path) if TEMPORARY in entry or ".part" in entry] == []


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("form", ["archive", "folder"])
def test_what_a_person_has_already_is_read_and_nothing_fetched(name: str, form: str, tmp_path: Path) -> None:
    source, data = archives.ALL[name]()
    source = replace(source, url="http://127.0.0.1:1/nobody")
    (tmp_path / source.archive).write_bytes(data)
    expected = OPEN[name](data_dir=tmp_path, source=source)
    if form == "folder":
        (tmp_path / "mine").mkdir()
        shutil.move(tmp_path / source.top, tmp_path / "mine" / source.top)
        (tmp_path / "mine" / source.top / SUMS).unlink()
        os.chmod(tmp_path / "mine", 0o555)
        assert OPEN[name](data_dir=tmp_path / "mine", source=source).fingerprint == expected.fingerprint
        assert left_in(tmp_path / "mine") == [source.top]
        os.chmod(tmp_path / "mine", 0o755)


def test_cifar_is_read_as_published(tmp_path: Path) -> None:
    source, data = archives.small_cifar()
    (tmp_path / source.archive).write_bytes(data)
    catalog = open_cifar100(data_dir=tmp_path, source=source)
    assert catalog.classes == ("class_0", "class_1", "class_2", "class_3")
    assert catalog.train.labels.tolist() == [0, 1, 2, 3] * 3
    assert catalog.train.names[5] == "00005/tree_s_000005.png"
    for i in range(12):  # R G B of the first pixel
        picture = catalog.train.picture(i)
        assert picture[:, 0, 0].tolist() == [i, i % 4, 7]
        assert picture.shape == (3, 32, 32)


def test_cub_follows_its_own_tables(tmp_path: Path) -> None:
    source, data = archives.small_cub()
    (tmp_path / source.archive).write_bytes(data)
    catalog = open_cub200(data_dir=tmp_path, source=source)
    assert catalog.classes == ("001.Bird_0", "002.Bird_1", "003.Bird_2")
    assert list(catalog.train.names[:2]) == ["001.Bird_0/Bird_0_0001.jpg", "001.Bird_0/Bird_0_0003.jpg"]
    assert np.bincount(catalog.train.labels).tolist() == np.bincount(catalog.test.labels).tolist() == [2, 2, 2]
    assert not (tmp_path / "attributes.txt").exists()  # it lies beside the folder in the published archive
    (tmp_path / "CUB_200_2011" / "images" / catalog.train.names[0]).unlink()
    with pytest.raises(UserError, match="is missing"):
        open_cub200(data_dir=tmp_path, source=source)


def test_a_full_pass_over_a_cub_like_folder(tmp_path: Path) -> None:
    source, data = archives.small_cub()
    (tmp_path / source.archive).write_bytes(data)
    catalog = open_cub200(data_dir=tmp_path, source=source)
    for pictures in (catalog.train, catalog.test):
        (tmp_path / source.top / "images" / pictures.names[1]).write_bytes(b"damaged")
    stream = make_stream(catalog, viewer=viewer(), tasks=3, batch_size=1, on_bad_image="skip")
    seen = [label for item in stream.items() if isinstance(item, Batch) for label in item.labels]
    assert seen == ["001.Bird_0", *["002.Bird_1"] * 2, *["003.Bird_2"] * 2]
    assert sum(len(batch) for _ in range(2) for batch in stream.test_batches(stream.classes, 4)) == 10
    certificate = stream.guard.certificate()
    assert (certificate["seen"], certificate["skipped"], certificate["skipped_tests"]) == (5, 1, 1)


def test_imagenet_r_is_split_by_rank_and_says_so(tmp_path: Path) -> None:
    source, data = archives.small_imagenet_r()
    (tmp_path / source.archive).write_bytes(data)
    catalog = open_imagenet_r(data_dir=tmp_path, source=source)
    assert np.bincount(catalog.train.labels).tolist() == [8, 6, 4]
    assert np.bincount(catalog.test.labels).tolist() == [2, 1, 1]
    names = [f"n01443537/art_{i}.jpg" for i in range(10)]
    assert [n for n in catalog.train.names if n in names] == sorted(names[i] for i in ranked_split(names)[0])
    assert any("18 training and 4 test" in notice for notice in catalog.notices)
    assert any("README.txt" in notice for notice in catalog.notices)
    (tmp_path / "imagenet-r" / "n01443537" / "art_3.jpg").unlink()
    with pytest.raises(UserError, match="21 pictures in class folders and should hold 22"):
        open_imagenet_r(data_dir=tmp_path, source=source)


def test_a_published_list_takes_the_place_of_the_rank(tmp_path: Path) -> None:
    source, data = archives.small_imagenet_r()
    (tmp_path / source.archive).write_bytes(data)
    counts = {"n01443537": 3, "n01484850": 7, "n02007558": 1}
    lines = [f"data/imagenet-r/{name}/art_{i}.jpg {k}" for k, name in enumerate(counts) for i in range(counts[name])]
    (tmp_path / "list.txt").write_text("# a comment\n\n" + "\n".join(lines))
    ranked = open_imagenet_r(data_dir=tmp_path, source=source)
    listed = open_imagenet_r(data_dir=tmp_path, source=source, train_list=tmp_path / "list.txt")
    assert np.bincount(listed.train.labels).tolist() == list(counts.values())
    assert len(listed.test) == 11
    assert listed.fingerprint != ranked.fingerprint
    assert any("names the 11 training pictures" in notice for notice in listed.notices)
    paths = [f"- data/imagenet-r/{name}/art_{i}.jpg" for name in counts for i in range(counts[name])]
    targets = [f"- {k}" for k, name in enumerate(counts) for _ in range(counts[name])]
    (tmp_path / "list.yaml").write_text("\n".join(["data:", *paths, "targets:", *targets]) + "\n")
    assert (
        open_imagenet_r(data_dir=tmp_path, source=source, train_list=tmp_path / "list.yaml").fingerprint
        == listed.fingerprint
    )
    for text, says in (
        ("n01443537/art_99.jpg", "line 1 .* is not a picture"),
        ("n01443537/art_0.jpg\nn01443537/art_0.jpg", "line 2 .* twice"),
        ("# nothing", "names no picture"),
        ("n01443537/art_0.jpg", "training pictures of 1 classes"),
    ):
        (tmp_path / "list.txt").write_text(text)
        with pytest.raises(UserError, match=says):
            open_imagenet_r(data_dir=tmp_path, source=source, train_list=tmp_path / "list.txt")
    for spec in ("split-cifar100", "split-cub200", "folder:x"):
        with pytest.raises(UserError, match="takes no --train-list"):
            open_benchmark(spec, data_dir=tmp_path, train_list=tmp_path / "list.txt")
    with pytest.raises(UserError, match="cannot read the training list"):
        open_imagenet_r(data_dir=tmp_path, source=source, train_list=tmp_path / "none.txt")


# -- the hostile server ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("behaviour", "says"),
    [
        ("status 404", "answers 404 .*: fetch CUB_200_2011.tgz with a browser .* and put it into"),
        ("status 403", "answers 403"),
        ("status 500", "answers 500"),
        ("status 429", "answers 429"),
        ("cut 700", "connection ended after .* start again to go on from there"),
        ("silent 700", "connection ended after .* start again to go on from there"),
        ("stall 700", "no byte came for 0.3 seconds"),
        ("corrupt", "not the published CUB_200_2011.tgz"),
        ("garbage", "the connection failed"),
        ("redirect loop", "answers 302"),
    ],
)
def test_a_failure_is_one_sentence_and_nothing_is_taken_for_whole(
    behaviour: str, says: str, cub: tuple[Server, Source], tmp_path: Path
) -> None:
    server, source = cub
    server.behaviour = [behaviour]
    if behaviour.startswith(("cut", "silent", "stall")):
        server.etag = ""  # without a validator the hash still allows to go on
        server.behaviour = [behaviour, *[behaviour.split()[0] + " 0"] * 5]
    with pytest.raises(UserError, match=says) as caught:
        open_cub200(data_dir=tmp_path, source=source)
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith(".")
    assert source.top not in left_in(tmp_path)
    assert source.archive not in left_in(tmp_path)
    asked = len(server.asked)
    server.behaviour = ["well"]
    assert len(open_cub200(data_dir=tmp_path, source=source).train) == 6
    went_on = "range" in server.asked[asked]
    assert went_on == behaviour.startswith(("cut", "silent", "stall"))
    assert [entry for entry in left_in(tmp_path) if ".part" in entry] == []


@pytest.mark.parametrize("behaviour", ["cut 500", "silent 500", "stall 500", "redirect", "nolength", "status 503"])
def test_passing_faults_are_mended_unasked(behaviour: str, cub: tuple[Server, Source], tmp_path: Path) -> None:
    server, source = cub
    server.behaviour = [behaviour, behaviour, "well"]
    assert len(open_cub200(data_dir=tmp_path, source=source).train) == 6
    if behaviour.startswith(("cut", "silent", "stall")):
        assert [a.get("range") for a in server.asked] == [None, "bytes=500-", "bytes=1000-"]
        assert server.asked[1]["if-range"] == '"one"'


def test_a_file_that_moved_is_gone_on_with_at_its_new_place(cub: tuple[Server, Source], tmp_path: Path) -> None:
    server, source = cub
    server.behaviour = ["cut 500", "redirect"]
    assert len(open_cub200(data_dir=tmp_path, source=source).train) == 6
    assert [(a["path"], a.get("range")) for a in server.asked] == [
        ("/archive", None),
        ("/archive", "bytes=500-"),
        ("/moved", "bytes=500-"),
    ]


def test_a_server_that_never_ends_is_not_listened_to_for_ever(cub: tuple[Server, Source], tmp_path: Path) -> None:
    server, source = cub
    server.behaviour = ["nolength"]
    server.data += bytes(1000)
    with pytest.raises(UserError, match="sent more than the file should have"):
        open_cub200(data_dir=tmp_path, source=source)
    assert left_in(tmp_path) == []


@pytest.mark.parametrize("fault", ["changed", "norange", "wrongrange", "too long", "notes"])
def test_a_part_of_another_file_is_not_gone_on_from(fault: str, cub: tuple[Server, Source], tmp_path: Path) -> None:
    server, source = cub
    server.behaviour = ["cut 500", *["cut 0"] * 5]
    with pytest.raises(UserError):
        open_cub200(data_dir=tmp_path, source=source)
    part = tmp_path / f"{source.archive}.part"
    assert part.read_bytes() == server.data[:500]
    server.behaviour = ["well"]
    if fault == "changed":  # other bytes under the same address: the old ones must go
        part.write_bytes(bytes(500))
        server.etag = '"two"'
    elif fault in ("norange", "wrongrange"):
        server.behaviour = [fault, "well"]
    elif fault == "too long":
        part.write_bytes(server.data + b"more")
    else:
        part.with_name(part.name + ".json").write_text("{ damaged")
    assert len(open_cub200(data_dir=tmp_path, source=source).train) == 6


def test_a_file_of_another_size_is_refused_before_it_is_fetched(cub: tuple[Server, Source], tmp_path: Path) -> None:
    server, source = cub
    server.data += b"more"
    with pytest.raises(UserError, match="this is another file"):
        open_cub200(data_dir=tmp_path, source=source)
    (tmp_path / source.archive).write_bytes(server.data)
    with pytest.raises(UserError, match="not whole or another file"):
        open_cub200(data_dir=tmp_path, source=source)


def test_no_server_and_no_network(tmp_path: Path) -> None:
    source = replace(archives.small_cub()[0], url="http://127.0.0.1:1/archive")
    with pytest.raises(UserError, match="connection was refused.*by hand|connection was refused.*with a browser"):
        open_cub200(data_dir=tmp_path, source=source)
    with pytest.raises(UserError, match="there is no folder"):
        open_cub200(data_dir=tmp_path / "none", source=source)


def test_no_room_is_said_before_a_byte_is_fetched(
    cub: tuple[Server, Source], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, source = cub
    with pytest.raises(UserError, match=r"needs .* more .* free some space, or choose another folder"):
        open_cub200(data_dir=tmp_path, source=replace(source, unpacked=1 << 60))
    (tmp_path / source.archive).write_bytes(server.data)
    with pytest.raises(UserError, match="unpacking .* takes about"):
        open_cub200(data_dir=tmp_path, source=replace(source, unpacked=1 << 60))
    assert not (tmp_path / source.top).exists()


def test_one_process_at_a_time(cub: tuple[Server, Source], tmp_path: Path) -> None:
    _, source = cub
    with FolderLock(tmp_path), pytest.raises(UserError, match="another process"):
        open_cub200(data_dir=tmp_path, source=source)


def _open_quietly(source: Source, folder: Path) -> None:
    open_cub200(data_dir=folder, source=source)


@pytest.mark.slow
def test_a_kill_while_unpacking_leaves_nothing_that_looks_whole(tmp_path: Path) -> None:
    files = {f"CUB_200_2011/images/x/{i}.jpg": bytes(100) for i in range(20_000)}
    data = archives.tar({**files, **archives.cub_files()})  # tables last: the folder would look whole only at the end
    source = archives.small(SOURCES["split-cub200"], data, classes=3, train=6, pictures=12, unpacked=1 << 25)
    (tmp_path / source.archive).write_bytes(data)
    for _ in range(5):
        process = multiprocessing.get_context("fork").Process(target=_open_quietly, args=(source, tmp_path))
        process.start()
        while process.is_alive() and not any(TEMPORARY in name for name in left_in(tmp_path)):
            pass
        process.kill()
        process.join()
        assert source.top not in left_in(tmp_path)
    open_cub200(data_dir=tmp_path, source=source)
    assert not any(TEMPORARY in name for name in left_in(tmp_path))


def test_where_data_lie(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("RWF_DATA", raising=False)
    monkeypatch.delenv("RWF_CACHE", raising=False)
    assert place.data_folder(None) == tmp_path / "cache" / "rwf" / "data"
    monkeypatch.setenv("RWF_CACHE", str(tmp_path / "own"))
    assert place.data_folder(None) == tmp_path / "own" / "data"
    monkeypatch.setenv("RWF_DATA", str(tmp_path / "sets"))
    assert place.data_folder(None) == tmp_path / "sets"
    assert place.data_folder(tmp_path) == tmp_path
    source, data = archives.small_cub()
    with serving(data) as server:  # a folder that is not there yet is made
        open_cub200(source=replace(source, url=server.url))
    assert (tmp_path / "sets" / "CUB_200_2011").is_dir()


def test_a_strange_folder_in_the_way_is_not_touched(tmp_path: Path) -> None:
    source, data = archives.small_cub()
    (tmp_path / source.archive).write_bytes(data)
    (tmp_path / source.top).mkdir()
    with pytest.raises(UserError, match="move it away"):
        open_cub200(data_dir=tmp_path, source=source)


def test_progress_on_a_terminal(cub: tuple[Server, Source], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich then takes any stream for a terminal
    _, source = cub
    assert len(open_cub200(data_dir=tmp_path, source=source).train) == 6


def test_damaged_tables_and_pickles_are_sentences(tmp_path: Path) -> None:
    source, data = archives.small_cub()
    (tmp_path / source.archive).write_bytes(data)
    open_cub200(data_dir=tmp_path, source=source)
    tables: dict[str, Any] = {
        "images.txt": ["1 001.Bird_0/../../../x.jpg", "x y", "1"],
        "image_class_labels.txt": ["1 99"],
        "train_test_split.txt": ["1 7"],
    }
    for name, lines in tables.items():
        path = tmp_path / source.top / name
        good = path.read_text()
        for line in lines:
            path.write_text(line + "\n" + good.partition("\n")[2])
            with pytest.raises(UserError):
                open_cub200(data_dir=tmp_path, source=source)
        path.write_text(good)
    source, data = archives.small_cifar()
    (tmp_path / source.archive).write_bytes(data)
    open_cifar100(data_dir=tmp_path, source=source)
    (tmp_path / source.top / "train").write_bytes(b"cos\nsystem\n(S'true'\ntR.")
    with pytest.raises(UserError, match="not the published file"):
        open_cifar100(data_dir=tmp_path, source=source)
