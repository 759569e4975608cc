"""Classes into tasks, nested shares of a training set, a test set by ranking."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rwf.data.split import arrival, nested_fraction, ranked_split, task_groups
from rwf.errors import UserError


@given(st.integers(1, 60), st.data())
def test_tasks_are_an_even_partition_in_order(classes: int, data: st.DataObject) -> None:
    tasks = data.draw(st.integers(1, classes))
    groups, notice = task_groups(range(classes), tasks)
    assert [c for group in groups for c in group] == list(range(classes))
    sizes = [len(group) for group in groups]
    assert len(sizes) == tasks
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] - sizes[-1] == (1 if classes % tasks else 0)
    assert (notice is None) == (classes % tasks == 0)


def test_an_uneven_split_is_announced_in_numbers() -> None:
    assert task_groups(range(10), 4)[1] == (
        "10 classes do not divide by 4 tasks: the first 2 tasks have 3 classes, the others 2."
    )
    assert "the first task has 4 classes, the others 3" in str(task_groups(range(10), 3)[1])


@given(st.integers(1, 200), st.integers(0, 2**40))
def test_shuffled_classes_are_a_permutation_by_the_seed(count: int, seed: int) -> None:
    order = arrival(count, "shuffled", seed)
    assert sorted(order) == list(range(count)) == arrival(count, "natural", seed)
    assert order == arrival(count, "shuffled", seed)


def test_seeds_give_different_class_orders() -> None:
    assert len({tuple(arrival(10, "shuffled", seed)) for seed in range(20)}) == 20


@given(
    labels=st.lists(st.integers(0, 4), min_size=1, max_size=80),
    shares=st.tuples(st.floats(0.01, 1), st.floats(0.01, 1)),
    seed=st.integers(0, 5),
)
def test_fractions_are_stratified_and_nested(labels: list[int], shares: tuple[float, float], seed: int) -> None:
    array = np.array(labels)
    kept = []
    for share in sorted(shares):
        counts = {label: int((array == label).sum()) for label in set(labels)}
        if any(int(share * n + 0.5) == 0 for n in counts.values()):
            with pytest.raises(UserError, match="without a picture"):
                nested_fraction(array, share, seed)
            continue
        ids = nested_fraction(array, share, seed)
        assert (np.diff(ids) > 0).all()
        assert {label: int((array[ids] == label).sum()) for label in counts} == {
            label: int(share * n + 0.5) for label, n in counts.items()
        }
        kept.append(set(ids.tolist()))
    if len(kept) == 2:
        assert kept[0] <= kept[1]


def test_fraction_one_is_everything_and_seeds_choose_differently() -> None:
    labels = np.repeat(np.arange(3), 20)
    assert nested_fraction(labels, 1.0, 0).tolist() == list(range(60))
    assert nested_fraction(labels, 0.5, 0).tolist() != nested_fraction(labels, 0.5, 1).tolist()


def test_the_ranked_split_is_the_rank_of_sha256() -> None:
    names = [f"class/{i}.jpg" for i in range(50)]
    train, test = ranked_split(names)
    rank = sorted(range(50), key=lambda i: hashlib.sha256(names[i].encode()).hexdigest())
    assert train == sorted(rank[:40])
    assert test == sorted(rank[40:])


@given(st.integers(0, 30))
def test_the_ranked_split_leaves_no_side_empty(count: int) -> None:
    train, test = ranked_split([str(i) for i in range(count)])
    assert sorted(train + test) == list(range(count))
    if count > 1:
        assert train
        assert test
    assert abs(len(train) - 0.8 * count) <= 0.5 or count in (1, 2)


@given(st.integers(2, 40), st.data())
def test_a_picture_that_goes_moves_at_most_one_other(count: int, data: st.DataObject) -> None:
    names = [f"{i}.png" for i in range(count)]
    gone = data.draw(st.sampled_from(names))
    rest = [name for name in names if name != gone]
    before = {names[i] for i in ranked_split(names)[0]} - {gone}
    after = {rest[i] for i in ranked_split(rest)[0]}
    assert len(before ^ after) <= 1


def test_impossible_numbers_are_sentences() -> None:
    for tasks, says in ((0, "at least 1"), (-3, "at least 1"), (6, "more than the 5 classes: give at most 5")):
        with pytest.raises(UserError, match=says):
            task_groups(range(5), tasks)
    for share in (0.0, -0.5, 1.5, float("nan")):
        with pytest.raises(UserError, match="above 0 and at most 1"):
            nested_fraction(np.zeros(4, dtype=np.int64), share, 0)
    with pytest.raises(UserError, match=r"'cat' \(4 pictures\).*at least 0.125"):
        nested_fraction(np.zeros(4, dtype=np.int64), 0.1, 0, ["cat"])
    with pytest.raises(UserError, match="natural and shuffled"):
        arrival(5, "random", 0)
