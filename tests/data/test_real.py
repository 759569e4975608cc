"""The real CIFAR-100 subset in the hub's layout: counts, names, a few batches."""

from __future__ import annotations

import numpy as np
import pytest

from rwf.data.batch import Batch, Boundary
from rwf.data.catalog import Catalog, open_benchmark
from rwf.data.stream import make_stream
from rwf.data.view import View
from tests.shared import shared


@pytest.fixture(scope="module")
def cifar() -> Catalog:
    return open_benchmark(f"parquet:{shared('data', 'cifar100')}")


def test_counts_names_and_order(cifar: Catalog) -> None:
    assert (len(cifar.train), len(cifar.test), len(cifar.classes)) == (25_000, 5_000, 100)
    assert set(np.bincount(cifar.train.labels)) == {250}
    assert set(np.bincount(cifar.test.labels)) == {50}
    assert cifar.classes[:2] == ("apple", "aquarium_fish")
    assert list(cifar.classes) == sorted(cifar.classes)
    assert list(cifar.train.names) == sorted(cifar.train.names)
    assert all(
        name.startswith(cifar.classes[label]) for name, label in zip(cifar.train.names, cifar.train.labels, strict=True)
    )
    assert any("in training and in test: 3." in notice for notice in cifar.notices)


@pytest.mark.slow
@pytest.mark.parametrize("order", ["split", "blurry", "si-blurry", "drift"])
def test_a_full_pass(cifar: Catalog, order: str) -> None:
    stream = make_stream(cifar, viewer=View(seed=0, size=32), tasks=10, order=order, batch_size=64, seed=0)
    labels = [label for item in stream.items() if isinstance(item, Batch) for label in item.labels]
    assert len(labels) == 25_000
    certificate = stream.guard.certificate()
    assert (certificate["seen"], certificate["most_visits"], certificate["skipped"]) == (25_000, 1, 0)
    tests = sum(len(batch) for batch in stream.test_batches(stream.classes, 256))
    assert (tests, stream.skipped_tests) == (5_000, 0)


def test_a_few_batches(cifar: Catalog) -> None:
    stream = make_stream(cifar, viewer=View(seed=0, size=64), tasks=10, batch_size=64, seed=0)
    assert len(stream) == 10 * 40  # 2,500 pictures a task, the last batch of 4 kept
    items = stream.items()
    first = next(items)
    assert isinstance(first, Boundary)
    for _ in range(3):
        batch = next(items)
        assert isinstance(batch, Batch)
        assert all(image.shape == (3, 32, 32) for image in batch.images)
        assert set(batch.labels) <= set(first.classes)
        assert batch.view().shape == (64, 3, 64, 64)
        assert all(
            cifar.train.names[i].startswith(str(label)) for i, label in zip(batch.ids, batch.labels, strict=True)
        )
    tests = list(stream.test_batches(stream.tasks[0] + stream.tasks[1], 100))
    assert sum(len(batch) for batch in tests) == 1000
    assert tests[0].view(kind="test").std() > 0.1
