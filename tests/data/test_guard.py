"""The guard counts every look, raises at the second, and survives a checkpoint."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rwf.data.guard import Guard, SecondLookError
from rwf.errors import UserError


def test_the_second_time_raises_and_counts_nothing() -> None:
    guard = Guard(10)
    guard.hand_out([1, 2, 3])
    with pytest.raises(SecondLookError, match="picture 2"):
        guard.hand_out([5, 2])
    with pytest.raises(SecondLookError, match="picture 7"):
        guard.hand_out([7, 6, 7])
    assert guard.certificate()["seen"] == 3
    guard.hand_out([5, 6, 7])
    assert guard.certificate() == {
        "images_in_stream": 10,
        "seen": 6,
        "most_visits": 1,
        "second_looks": 0,
        "skipped": 0,
        "skipped_tests": 0,
    }


def test_a_second_look_must_be_declared_and_is_counted_apart() -> None:
    guard = Guard(5, [0, 1, 2])
    guard.hand_out([0, 1])
    with pytest.raises(SecondLookError, match="second_look"):
        guard.second_look([0])
    guard.allow_second_look = True
    guard.second_look([0, 1])
    guard.second_look([1, 2])  # 2 ahead of its hand-out
    guard.hand_out([2])
    assert guard.certificate() == {
        "images_in_stream": 3,
        "seen": 3,
        "most_visits": 3,
        "second_looks": 4,
        "skipped": 0,
        "skipped_tests": 0,
    }


def test_counts_stay_exact_beyond_a_byte() -> None:
    guard = Guard(3)
    guard.allow_second_look = True
    guard.hand_out([0])
    for _ in range(254):
        guard.second_look([0])
    assert guard.certificate()["most_visits"] == 255
    guard.second_look([0, 0, 0, 1])
    other = Guard(3)
    other.restore(guard.state())
    for g in (guard, other):
        assert (g.certificate()["most_visits"], g.certificate()["second_looks"]) == (258, 258)


@given(
    st.lists(st.integers(0, 19), unique=True, max_size=20),
    st.lists(st.lists(st.integers(0, 19), max_size=6), max_size=5),
    st.lists(st.integers(0, 19), max_size=3),
)
def test_state_and_restore_are_the_same_guard(handed: list[int], again: list[list[int]], bad: list[int]) -> None:
    guard = Guard(20)
    guard.allow_second_look = True
    guard.hand_out(handed)
    guard.skip(bad)
    for ids in again:
        guard.second_look(ids)
    looks = np.bincount([*handed, *(i for ids in again for i in ids)], minlength=20)
    other = Guard(20)
    other.restore(guard.state())
    assert other.certificate() == guard.certificate()
    assert guard.certificate()["most_visits"] == looks.max()
    assert guard.certificate()["skipped"] == len(set(bad))
    for i in range(20):
        if i in handed:
            with pytest.raises(SecondLookError):
                other.hand_out([i])
        else:
            other.hand_out([i])
    assert guard.certificate()["seen"] == len(handed)  # the state was a copy


def test_one_byte_an_image() -> None:
    guard = Guard(1000)
    guard.hand_out(range(1000))
    assert guard.state()["handed"].numel() * guard.state()["handed"].element_size() == 1000


def test_a_checkpoint_of_other_data_is_refused() -> None:
    with pytest.raises(UserError, match="counted 5 pictures"):
        Guard(6).restore(Guard(5).state())


def test_skipped_test_pictures_are_counted_once_and_survive_a_checkpoint() -> None:
    guard = Guard(3)
    guard.skip_tests([4, 7])
    guard.skip_tests(np.array([7]))
    assert guard.certificate()["skipped_tests"] == 2
    again = Guard(3)
    again.restore(guard.state())
    again.skip_tests([4])
    assert again.certificate()["skipped_tests"] == 2
    old = guard.state()
    del old["skipped_tests"]  # a checkpoint of an earlier version
    again.restore(old)
    assert again.certificate()["skipped_tests"] == 0
