"""A stream gives each picture once, in an order that is a pure function of catalog, options and seed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rwf.data.batch import Batch, Boundary
from rwf.data.catalog import Catalog
from rwf.data.decode import BadImageError
from rwf.data.guard import SecondLookError
from rwf.data.pictures import Pictures
from rwf.data.stream import Stream, make_stream
from rwf.errors import UserError
from tests.data.make import number_of, viewer, world

ORDERS = ["split", "iid", "sorted", "blurry", "si-blurry", "drift"]
SHARP = ["split", "sorted"]
plans = st.fixed_dictionaries(
    {
        "counts": st.lists(st.integers(1, 7), min_size=1, max_size=8),
        "order": st.sampled_from(ORDERS),
        "class_order": st.sampled_from(["natural", "shuffled"]),
        "batch_size": st.integers(1, 9),
        "seed": st.integers(0, 3),
        "tasks": st.integers(1, 8),
    }
)


def stream_of(counts: list[int], **options: Any) -> Stream:
    batches = -(-sum(counts) // options.get("batch_size", 64))  # without tasks each evaluation needs one
    most = len(counts) if options.get("order", "split") in SHARP else min(len(counts), batches)
    options["tasks"] = min(options.get("tasks", 2), most)
    return make_stream(world(counts), viewer=viewer(), **options)


def as_text(items: Iterator[Boundary | Batch]) -> list[object]:
    return [item if isinstance(item, Boundary) else (item.ids, item.labels, item.visits) for item in items]


def batches(stream: Stream, start: int = 0) -> list[Batch]:
    return [item for item in stream.items(start) if isinstance(item, Batch)]


@settings(max_examples=60, deadline=None)
@given(plans)
def test_every_picture_exactly_once_with_its_own_label(plan: dict[str, Any]) -> None:
    stream = stream_of(**plan)
    seen = batches(stream)
    ids = [i for batch in seen for i in batch.ids]
    assert sorted(ids) == list(range(sum(plan["counts"])))
    for batch in seen:
        assert 1 <= len(batch) <= plan["batch_size"]
        assert [number_of(image) for image in batch.images] == batch.ids
        assert all(type(i) is int for i in batch.ids)
        assert batch.labels == [stream.catalog.classes[stream.catalog.train.labels[i]] for i in batch.ids]
    assert len(seen) == len(stream)
    certificate = stream.guard.certificate()
    assert certificate["images_in_stream"] == certificate["seen"] == len(ids)
    assert certificate["most_visits"] == 1
    with pytest.raises(SecondLookError):
        next(item for item in stream.items() if isinstance(item, Batch))


@settings(max_examples=60, deadline=None)
@given(plans)
def test_tasks_partition_the_classes_and_boundaries_stand_before_their_batches(plan: dict[str, Any]) -> None:
    stream = stream_of(**plan)
    assert sorted(stream.classes) == sorted(stream.catalog.classes)
    task, number = None, 0
    for item in stream.items():
        if isinstance(item, Boundary):
            assert item.task == (0 if task is None else task + 1)
            assert task is None or stream.evaluations[task] == number
            task = item.task
            assert list(item.classes) == stream.tasks[task]
        else:
            number += 1
            if plan["order"] in SHARP:
                assert set(item.labels) <= set(stream.tasks[task])  # type: ignore[index]
    assert task == (len(stream.tasks) - 1 if plan["order"] in SHARP else None)
    assert len(stream.evaluations) == len(stream.tasks)
    assert stream.evaluations == sorted(stream.evaluations)
    assert stream.evaluations[-1] == len(stream)


@settings(max_examples=60, deadline=None)
@given(plans, st.data())
def test_resume_from_any_position_gives_the_same_rest(plan: dict[str, Any], data: st.DataObject) -> None:
    whole = stream_of(**plan)
    stop = data.draw(st.integers(0, len(whole)))
    first: list[Boundary | Batch] = []
    items = whole.items()
    while sum(isinstance(item, Batch) for item in first) < stop:  # a checkpoint comes right after a batch
        first.append(next(items))
    rest = stream_of(**plan)
    rest.guard.restore(whole.guard.state())
    continued = as_text(iter(first)) + as_text(rest.items(stop))
    assert continued == as_text(stream_of(**plan).items())
    assert rest.guard.certificate()["seen"] == sum(plan["counts"])


@settings(max_examples=40, deadline=None)
@given(plans)
def test_orders_hold_what_their_names_say(plan: dict[str, Any]) -> None:
    stream = stream_of(**plan)
    labels = [label for batch in batches(stream) for label in batch.labels]
    if plan["order"] == "sorted":
        arrival = list(dict.fromkeys(labels))
        assert arrival == stream.classes
        assert labels == sorted(labels, key=arrival.index)
    if plan["order"] == "split":
        tasks = [next(t for t, names in enumerate(stream.tasks) if label in names) for label in labels]
        assert tasks == sorted(tasks)


def test_iid_is_the_union_mixed() -> None:
    counts = [20] * 10
    ids = {order: [i for b in batches(stream_of(counts, order=order, tasks=5)) for i in b.ids] for order in ORDERS}
    assert all(sorted(ids[order]) == list(range(200)) for order in ORDERS)
    first = np.array(ids["iid"][:100])  # half of the stream: about half of each class
    assert np.bincount(first // 20, minlength=10).min() >= 3
    assert stream_of(counts, order="iid", tasks=4, batch_size=8).evaluations == [7, 13, 19, 25]


def test_the_seed_decides_and_nothing_else() -> None:
    def ids(**options: Any) -> list[int]:
        torch.manual_seed(np.random.randint(100))
        return [i for batch in batches(stream_of([10, 10], batch_size=3, **options)) for i in batch.ids]

    for order in ORDERS:
        assert ids(order=order, seed=1) == ids(order=order, seed=1)
        assert ids(order=order, seed=1) != ids(order=order, seed=2)
    by_batch = [i for batch in batches(stream_of([10, 10], batch_size=7, seed=1)) for i in batch.ids]
    assert ids(order="split", seed=1) == by_batch  # the batch size cuts the order, it does not change it


def test_golden_order() -> None:
    """Published runs are runs on these very orders."""
    ids = [batch.ids for batch in batches(stream_of([4, 3, 3], tasks=2, batch_size=4, seed=42))]
    assert ids == GOLDEN_IDS
    assert stream_of([1] * 5, class_order="shuffled", seed=42).tasks == GOLDEN_TASKS


GOLDEN_IDS = [[1, 2, 4, 5], [6, 3, 0], [7, 8, 9]]
GOLDEN_TASKS = [["class 004", "class 003", "class 001"], ["class 000", "class 002"]]


def test_a_smaller_fraction_lies_inside_a_larger_one() -> None:
    kept = []
    for fraction in (0.2, 0.5, 1.0):
        stream = stream_of([10, 20], train_fraction=fraction, tasks=2)
        kept.append({i for batch in batches(stream) for i in batch.ids})
        assert stream.guard.certificate()["images_in_stream"] == len(kept[-1]) == 30 * fraction
    assert kept[0] < kept[1] < kept[2]
    assert "6 of 30 training pictures are used (fraction 0.2)." in stream_of([10, 20], train_fraction=0.2).notices


def test_test_batches_are_fixed_complete_and_mixed() -> None:
    catalog = world([2] * 10, [30] * 10)
    streams = [
        make_stream(catalog, viewer=viewer(), tasks=5, seed=seed, class_order=o)
        for seed, o in ((0, "natural"), (1, "shuffled"))
    ]
    first = [batch.ids for batch in streams[0].test_batches(streams[0].classes, 25)]
    assert first == [batch.ids for batch in streams[1].test_batches(streams[1].classes, 25)]
    assert sorted(i for ids in first for i in ids) == list(range(300))
    assert all(len({i // 60 for i in ids}) == 5 for ids in first)  # every batch holds every task
    some = [i for batch in streams[0].test_batches(streams[0].tasks[0] + streams[0].tasks[3], 7) for i in batch.ids]
    assert sorted(some) == [*range(60), *range(180, 240)]
    assert sorted(streams[0].test_ids(3).tolist()) == list(range(180, 240))
    for batch in streams[0].test_batches(streams[0].tasks[1], 7):
        assert [number_of(image) for image in batch.images] == batch.ids
        assert batch.labels == [catalog.classes[catalog.test.labels[i]] for i in batch.ids]
    assert streams[0].guard.certificate()["seen"] == 0


@pytest.mark.parametrize(("classes", "each", "expected"), [(10, 80, 500), (10, 3, 30), (7, 100, 7 * 71), (600, 2, 500)])
def test_the_anytime_set_is_fixed_small_and_even(classes: int, each: int, expected: int) -> None:
    catalog = world([1] * classes, [each] * classes)
    stream = make_stream(catalog, viewer=viewer(), tasks=classes // 3, seed=0)
    ids = [i for batch in stream.anytime_batches(stream.classes, 64) for i in batch.ids]
    assert len(ids) == len(set(ids)) == expected
    counts = np.bincount(catalog.test.labels[ids], minlength=classes)
    assert counts.max() - counts.min() <= (1 if classes > 500 else 0)
    other = make_stream(catalog, viewer=viewer(), tasks=1, seed=9, class_order="shuffled")
    assert ids == [i for batch in other.anytime_batches(other.classes, 10) for i in batch.ids]
    part = {i for batch in stream.anytime_batches(stream.tasks[0], 10) for i in batch.ids}
    assert part == {i for i in ids if catalog.classes[catalog.test.labels[i]] in stream.tasks[0]}


def test_second_looks_go_through_the_guard() -> None:
    stream = stream_of([5, 5], batch_size=4)
    with pytest.raises(SecondLookError, match="second_look"):
        next(stream.second_look(0))
    stream.guard.allow_second_look = True
    assert sorted(i for batch in stream.second_look(1) for i in batch.ids) == list(range(5, 10))
    assert stream.guard.certificate()["second_looks"] == 5
    batches(stream)
    assert stream.guard.certificate()["most_visits"] == 2


class Holes(Pictures):
    """Some pictures cannot be read."""

    holes: frozenset[int]

    def picture(self, i: int) -> torch.Tensor:
        if i in self.holes:
            raise BadImageError(f"the picture {self.names[i]!r} cannot be read.")
        return super().picture(i)


def damaged(counts: list[int], holes: set[int]) -> Catalog:
    catalog = world(counts, counts)
    sides = []
    for side in (catalog.train, catalog.test):
        sides.append(Holes(side.names, side.labels, side.store))
        sides[-1].holes = frozenset(holes)
    return replace(catalog, train=sides[0], test=sides[1])


def test_an_unreadable_picture_stops_with_its_name_and_the_way_out() -> None:
    stream = make_stream(damaged([6, 6], {3}), viewer=viewer(), tasks=2, batch_size=4)
    with pytest.raises(UserError, match=r"'000003' cannot be read.*--on-bad-image skip"):
        batches(stream)


def readable_at_first(stream: Stream, holes: set[int]) -> int:
    """How many pictures can be read before the first evaluation."""
    first = stream.plan.ids[: stream.plan.starts[stream.evaluations[0]]]
    return len(set(first.tolist()) - holes)


@settings(max_examples=40, deadline=None)
@given(st.sets(st.integers(0, 11)), st.integers(1, 5), st.sampled_from(ORDERS), st.data())
def test_skipped_pictures_are_left_out_and_counted(holes: set[int], size: int, order: str, data: st.DataObject) -> None:
    def fresh() -> Stream:
        catalog = damaged([6, 6], holes)
        return make_stream(catalog, viewer=viewer(), tasks=2, batch_size=size, order=order, on_bad_image="skip")

    stream = fresh()
    if not readable_at_first(fresh(), holes):
        with pytest.raises(UserError, match="none of the first .* can be read"):
            batches(stream)
        return
    whole = batches(stream)
    assert sorted(i for batch in whole for i in batch.ids) == sorted(set(range(12)) - holes)
    assert len(whole) == len(stream)  # a batch of which nothing is left is empty: all keep their numbers
    certificate = stream.guard.certificate()
    assert (certificate["seen"], certificate["skipped"]) == (12 - len(holes), len(holes))
    tests = [i for batch in stream.test_batches(stream.classes, size) for i in batch.ids]
    assert sorted(tests) == sorted(set(range(12)) - holes)
    assert stream.skipped_tests == len(holes)
    cut = data.draw(st.integers(0, len(whole)))  # a checkpoint after any batch
    one, two = fresh(), fresh()
    items = (item for item in one.items() if isinstance(item, Batch))
    done = [next(items).ids for _ in range(cut)]
    two.guard.restore(one.guard.state())
    assert done + [batch.ids for batch in batches(two, cut)] == [batch.ids for batch in whole]
    assert two.guard.certificate() == certificate


def test_impossible_numbers_are_sentences() -> None:
    catalog = world([3, 3])
    for options, says in (
        ({"tasks": 3}, "more than the 2 classes"),
        ({"tasks": 0}, "number of tasks"),
        ({"batch_size": 0}, "batch size is 0"),
        ({"batch_size": -4}, "batch size is -4"),
        ({"train_fraction": 0.01}, "without a picture"),
        ({"train_fraction": 2}, "at most 1"),
        ({"order": "blury"}, "split, iid, sorted"),
        ({"class_order": "x"}, "natural and shuffled"),
        ({"on_bad_image": "x"}, "stop and skip"),
    ):
        with pytest.raises(UserError, match=says):
            make_stream(catalog, viewer=viewer(), **({"tasks": 2} | options))  # type: ignore[arg-type]
    with pytest.raises(UserError, match=r"task 2 of 2 \(class 001\) has no test picture"):
        make_stream(world([3, 3], [2, 0]), viewer=viewer(), tasks=2)
    stream = make_stream(catalog, viewer=viewer(), tasks=2)
    for start in (-1, len(stream) + 1):
        with pytest.raises(UserError, match="cannot go on from batch"):
            list(stream.items(start))
    with pytest.raises(UserError, match="batch size"):
        list(stream.test_batches(stream.classes, 0))
    assert list(stream.items(len(stream))) == []


def test_uneven_tasks_are_announced() -> None:
    assert any("do not divide" in notice for notice in stream_of([2] * 5, tasks=2).notices)
    assert stream_of([2] * 4, tasks=2).notices == []
