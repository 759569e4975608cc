"""Worker processes change nothing but the time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from rwf.data.batch import Batch, Boundary
from rwf.data.catalog import open_benchmark
from rwf.data.decode import BadImageError
from rwf.data.stream import Stream, make_stream
from rwf.data.view import View
from tests.data.make import pixels

SIZES = ((9, 14), (30, 30), (17, 8))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two classes of eight and four pictures, of several sizes, some of them JPEG."""
    root, number = tmp_path_factory.mktemp("pictures"), 0
    for split, count in (("train", 8), ("test", 4)):
        for name in ("a", "b"):
            (root / split / name).mkdir(parents=True)
            for i in range(count):
                picture = Image.fromarray(pixels(number, *SIZES[number % 3]))
                picture.save(root / split / name / f"{i}.{('png', 'jpg')[i % 2]}")
                number += 1
    return root


def stream(folder: Path, workers: int, **options) -> Stream:
    catalog = open_benchmark(f"folder:{folder}")
    return make_stream(catalog, viewer=View(seed=1, size=12), tasks=2, batch_size=3, workers=workers, **options)


def same(a: Batch, b: Batch) -> None:
    assert (list(a.ids), list(a.labels), list(a.visits)) == (list(b.ids), list(b.labels), list(b.visits))
    for one, other in zip(a.images, b.images, strict=True):
        assert torch.equal(one, other)
        assert one.stride() == other.stride()
    for n, kind in ((0, "train"), (1, "train"), (0, "test")):
        assert torch.equal(a.view(n, kind), b.view(n, kind))


def test_batches_are_the_same_with_workers(folder: Path) -> None:
    plain, made = stream(folder, 0), stream(folder, 2)
    for a, b in zip(plain.items(2), made.items(2), strict=True):
        if isinstance(a, Boundary):
            assert a == b
            continue
        assert isinstance(b, Batch)
        same(a, b)
        for part, other in zip(a.split(2), b.split(2), strict=True):
            same(part, other)
        same(a + a, b + a)
        for part, other in zip((a + a).split(4), (b + a).split(4), strict=True):
            same(part, other)
    for a, b in zip(plain.test_batches("ab", 3), made.test_batches("ab", 3), strict=True):
        same(a, b)
    assert plain.guard.certificate() == made.guard.certificate()


def test_workers_touch_no_randomness_of_others(folder: Path) -> None:
    before = torch.get_rng_state()
    list(stream(folder, 1).items())
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize("workers", [0, 2])
def test_a_bad_picture_is_the_same_sentence(folder: Path, tmp_path: Path, workers: int) -> None:
    root = tmp_path / "copy"
    for path in folder.rglob("*.*"):
        target = root / path.relative_to(folder)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(path.read_bytes()[:40] if path.match("train/b/3.jpg") else path.read_bytes())
    with pytest.raises(BadImageError, match=r"^the picture .*3\.jpg.* --on-bad-image skip"):
        list(stream(root, workers).items())
    leaving = stream(root, workers, on_bad_image="skip")
    seen = [i for item in leaving.items() if isinstance(item, Batch) for i in item.ids]
    assert len(seen) == leaving.guard.certificate()["seen"] == 15
    assert leaving.guard.certificate()["skipped"] == 1
    assert np.all(np.diff(sorted(seen)) >= 1)
