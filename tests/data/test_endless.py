"""A person's own stream: any length, any labels, constant memory, a cursor for a certificate."""

from __future__ import annotations

import itertools
import resource
import tracemalloc
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rwf.data.endless import Endless, from_iterable, to_label, to_labels
from rwf.errors import UserError
from tests.data.make import pixels, png, viewer


def items(count: int | None = None, start: int = 0, side: int = 4) -> Iterator[tuple[np.ndarray, str]]:
    """Picture i has the value i in its first pixel."""
    for i in itertools.count(start) if count is None else range(start, count):
        picture = np.zeros((side, side, 3), dtype=np.uint8)
        picture[0, 0, 0] = i % 256
        yield picture, f"label {i % 3}"


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 40), st.integers(1, 9))
def test_every_item_once_in_order_with_ids_of_its_own(count: int, size: int) -> None:
    stream = from_iterable(items(count), viewer(), size)
    batches = list(stream)
    assert [i for batch in batches for i in batch.ids] == list(range(count))
    assert [label for batch in batches for label in batch.labels] == [f"label {i % 3}" for i in range(count)]
    assert [int(image[0, 0, 0]) for batch in batches for image in batch.images] == list(range(count))
    assert all(len(batch) == size for batch in batches[:-1])
    assert stream.certificate()["seen"] == stream.certificate()["images_in_stream"] == count


def test_an_endless_stream_is_read_no_further_than_asked() -> None:
    taken = 0

    def counted() -> Iterator[tuple[np.ndarray, str]]:
        nonlocal taken
        for item in items():
            taken += 1
            yield item

    stream = from_iterable(counted(), viewer(), 4)
    batch = next(iter(stream))
    assert taken == 4
    assert batch.view().shape == (4, 3, 4, 4)


def resident() -> int:
    """Bytes of memory that this process has in use, torch's own included."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    except OSError:
        pytest.skip("this system does not say how much memory a process uses")


def grown(stream: Endless, warm_up: int, batches: int) -> tuple[int, int]:
    """Memory that came on top over so many batches after the first ones: Python's and numpy's, and the process's."""
    taken = iter(stream)
    tracemalloc.start()
    try:
        deque(itertools.islice(taken, warm_up), maxlen=0)
        python, process = tracemalloc.get_traced_memory()[0], resident()
        deque(itertools.islice(taken, batches), maxlen=0)
        return tracemalloc.get_traced_memory()[0] - python, resident() - process
    finally:
        tracemalloc.stop()


def test_memory_stays_flat() -> None:
    stream = from_iterable(items(side=64), viewer(), 16)  # 12 kB a picture
    python, process = grown(stream, warm_up=20, batches=300)
    assert python < 20_000
    assert process < 10 << 20  # 4,800 pictures are 59 MB
    assert stream.certificate()["seen"] == 320 * 16


@pytest.mark.slow
def test_memory_stays_flat_over_a_million_items() -> None:
    stream = from_iterable(items(10**6, side=16), viewer(), 64)  # 768 MB in all
    python, process = grown(stream, warm_up=1000, batches=10**6)
    assert python < 20_000
    assert process < 10 << 20
    assert stream.certificate()["seen"] == 10**6


def test_state_and_restore() -> None:
    one = from_iterable(items(30), viewer(), 4)
    batches = iter(one)
    for _ in range(3):
        next(batches)
    two = from_iterable(items(30, start=one.cursor), viewer(), 4)
    two.restore(one.state())
    assert [batch.ids for batch in two] == [batch.ids for batch in batches]
    assert two.certificate() == one.certificate()


@settings(max_examples=40, deadline=None)
@given(st.lists(st.booleans(), max_size=20), st.integers(1, 4), st.data())
def test_unreadable_pictures_are_skipped_and_counted(good: list[bool], size: int, data: st.DataObject) -> None:
    def pairs(start: int = 0) -> Iterator[tuple[bytes, int]]:
        return ((png(i) if good[i] else b"damaged", i) for i in range(start, len(good)))

    whole = from_iterable(pairs(), viewer(), size, "skip")
    expected = [batch.ids for batch in whole]
    assert [i for ids in expected for i in ids] == [i for i, fine in enumerate(good) if fine]
    certificate = {"images_in_stream": len(good), "seen": sum(good), "skipped": len(good) - sum(good)}
    assert whole.certificate() == certificate | {"most_visits": int(any(good)), "second_looks": 0}
    one = from_iterable(pairs(), viewer(), size, "skip")
    batches = iter(one)
    done = [next(batches).ids for _ in range(data.draw(st.integers(0, len(expected))))]
    two = from_iterable(pairs(one.cursor), viewer(), size, "skip")
    two.restore(one.state())
    assert done + [batch.ids for batch in two] == expected
    assert two.certificate() == whole.certificate()
    if not all(good):
        with pytest.raises(UserError, match="cannot be read"):
            list(from_iterable(pairs(), viewer(), size))


def test_bad_items_are_named() -> None:
    bad: Any
    for bad, says in (
        ([(pixels(1), 0), pixels(1)], "item 1 of the stream is not a pair"),
        ([(pixels(1), 0), (None, 0)], "image 1"),
        ([(pixels(1), [1, 0])], "label 0 is of the type list"),
        ([5], "item 0"),
    ):
        with pytest.raises(UserError, match=says):
            list(from_iterable(bad, viewer(), 1))
    with pytest.raises(UserError, match="batch size"):
        from_iterable([], viewer(), 0)
    with pytest.raises(UserError, match="stop and skip"):
        from_iterable([], viewer(), 1, "halt")


def test_labels_equal_themselves_whatever_held_them() -> None:
    forms = [torch.tensor(3), np.int64(3), np.array(3), np.array([3]), torch.tensor([3]), 3]
    assert len({to_label(form) for form in forms}) == 1
    assert to_labels(torch.tensor([1, 2])) == to_labels(np.array([1, 2])) == to_labels([1, 2]) == [1, 2]
    assert to_labels(np.array(["a", "b"])) == to_labels(("a", "b")) == ["a", "b"]
    assert to_labels("cat") == ["cat"]
    assert to_labels(7) == to_labels(torch.tensor(7)) == [7]
    unfit: list[Any] = [float("nan"), np.nan, [1], {}, np.zeros(3), torch.zeros(2)]
    for bad in unfit:
        with pytest.raises(UserError):
            to_label(bad)
    with pytest.raises(UserError, match="one label per picture"):
        to_labels(np.zeros((4, 10)))
