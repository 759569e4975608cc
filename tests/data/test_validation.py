"""What settings are chosen on: never a test picture, never a later class, never a picture on both sides."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rwf.data.batch import Batch
from rwf.data.catalog import Catalog
from rwf.data.pictures import ArrayStore, Pictures
from rwf.data.stream import make_stream
from rwf.data.validation import validation_catalog
from rwf.errors import UserError
from tests.data.make import number_of, viewer, world


class Forbidden(ArrayStore):
    """Pictures that nobody may ask for."""

    def picture(self, i, name):
        raise AssertionError(f"test picture {i} was asked for")


def guarded(counts: list[int]) -> Catalog:
    """A catalog whose test pictures cannot be touched."""
    catalog = world(counts)
    forbidden = Forbidden(np.zeros((len(catalog.test), 3, 4, 4), np.uint8))
    return replace(catalog, test=Pictures(catalog.test.names, catalog.test.labels, forbidden))


def handed_out(catalog: Catalog, tasks: int, order: str, seed: int) -> tuple[list[int], list[int], list[list[str]]]:
    """Ids of the whole benchmark's training pictures that are learned, those that are asked, and the tasks."""
    stream = make_stream(catalog, viewer=viewer(), tasks=tasks, order=order, batch_size=1, seed=seed)
    batches = [item for item in stream.items() if isinstance(item, Batch)]
    learned = [number_of(image) for batch in batches for image in batch.images]
    asked = [number_of(image) for batch in stream.test_batches(stream.classes, 9) for image in batch.images]
    return learned, asked, stream.tasks


@given(
    counts=st.lists(st.integers(2, 9), min_size=3, max_size=14),
    seed=st.integers(0, 2**32),
    class_order=st.sampled_from(["natural", "shuffled"]),
    order=st.sampled_from(["split", "iid", "blurry"]),
    imbalance=st.sampled_from([1.0, 3.0]),
    data=st.data(),
)
def test_nothing_is_ever_handed_out_that_comes_later_or_is_for_testing(
    counts, seed, class_order, order, imbalance, data
) -> None:
    catalog = guarded(counts)
    tasks = data.draw(st.integers(1, len(counts)))
    first = data.draw(st.integers(1, tasks))
    same: dict[str, Any] = {"tasks": tasks, "class_order": class_order, "imbalance": imbalance, "seed": seed}
    whole = make_stream(catalog, viewer=viewer(), **same)
    try:
        part = validation_catalog(catalog, first, **same)
    except UserError:  # a long tail may leave one picture a class
        assert imbalance > 1
        return
    learned, asked, groups = handed_out(part, first, order, seed)
    assert groups == whole.tasks[:first]
    met = {catalog.classes[label] for label in catalog.train.labels[learned + asked]}
    assert met <= {name for group in whole.tasks[:first] for name in group}
    assert set(learned) | set(asked) <= set(whole.plan.ids.tolist())  # what the real stream would have handed out
    assert not set(learned) & set(asked)
    assert max(Counter(learned).values()) == 1


def test_a_fifth_of_each_class_is_asked_and_the_rest_learned() -> None:
    part = validation_catalog(world([10, 20, 5, 40]), 2, tasks=2)
    assert Counter(part.test.labels.tolist()) == {0: 2, 1: 4, 2: 1, 3: 8}
    assert Counter(part.train.labels.tolist()) == {0: 8, 1: 16, 2: 4, 3: 32}


def test_it_is_the_same_on_every_call_and_the_seed_changes_only_the_order_of_classes() -> None:
    catalog = world([10] * 6)
    again = [validation_catalog(catalog, 3, tasks=6, seed=seed).fingerprint for seed in (0, 0, 5)]
    assert len(set(again)) == 1
    shuffled = {validation_catalog(catalog, 3, tasks=6, class_order="shuffled", seed=s).classes for s in range(5)}
    assert len(shuffled) > 1


def test_labels_are_numbered_anew_and_keep_their_names() -> None:
    catalog = world([4, 4, 4, 4])
    part = validation_catalog(catalog, 1, tasks=2, class_order="shuffled", seed=1)
    for pictures in (part.train, part.test):
        for i, label in enumerate(pictures.labels.tolist()):
            whole = number_of(pictures.picture(i))
            assert part.classes[label] == catalog.classes[int(catalog.train.labels[whole])]
            assert pictures.names[i] == catalog.train.names[whole]


def test_only_pictures_of_the_fraction_are_used() -> None:
    catalog = world([20, 20, 20])
    few = make_stream(catalog, viewer=viewer(), tasks=3, train_fraction=0.5, seed=4).plan.ids
    learned, asked, _ = handed_out(validation_catalog(catalog, 2, tasks=3, train_fraction=0.5, seed=4), 2, "split", 4)
    assert set(learned + asked) == {i for i in few.tolist() if catalog.train.labels[i] < 2}


@pytest.mark.parametrize(("first", "says"), [(0, "give 1 to 3"), (4, "give 1 to 3")])
def test_impossible_numbers_of_tasks(first: int, says: str) -> None:
    with pytest.raises(UserError, match=says):
        validation_catalog(world([2] * 3), first, tasks=3)


def test_a_task_with_one_picture_a_class_cannot_be_validated() -> None:
    with pytest.raises(UserError, match="none is left to validate on"):
        validation_catalog(world([4, 1, 4]), 2, tasks=3)
