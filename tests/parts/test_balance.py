"""Memories that look at labels keep classes level, as GDumb's official sampler and the published rules do."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rwf.parts.balance import ClassBalanced, GreedyBalanced, Ring
from tests.golden import golden
from tests.pictures import batch_of, viewer


class Recorded(GreedyBalanced):
    """The published sampler, with its draws taken from a record."""

    def __init__(self, size: int, draws: list[int]) -> None:
        super().__init__(size, viewer=viewer, guards=False)
        self.draws, self.ranges = iter(draws), list[int]()

    def pick(self, purpose: str, counter: int, high: int) -> int:
        self.ranges.append(high)
        return next(self.draws)


@pytest.mark.parametrize("name", ["gdumb_balancer_classinc", "gdumb_balancer_manyclasses"])
def test_golden_greedy_sampler_without_guards(name: str) -> None:
    arrays, options = golden(name)
    memory = Recorded(options["mem_size"], arrays["draws"].tolist())
    before: set[int] = set()
    for i, label in enumerate(arrays["labels"].tolist()):
        memory.add(batch_of([i], [label]))
        now = {item.id for item in memory.items}
        assert (i in now) == bool(arrays["accepted"][i])
        assert (sorted(before - now) or [-1]) == [int(arrays["evicted"][i])]
        assert [memory.counts.get(c, -1) for c in range(8)] == arrays["class_counts"][i].tolist()
        before = now
    assert memory.ranges == arrays["draw_ranges"].tolist()
    assert sorted(before) == arrays["final_ids"].tolist()


def test_guards_change_nothing_while_there_is_room_for_all_classes() -> None:
    labels = [i // 6 for i in range(30)] + [i % 5 for i in range(40)]
    kept = []
    for guards in (True, False):
        memory = GreedyBalanced(10, viewer=viewer, guards=guards)
        memory.add(batch_of(range(len(labels)), labels))
        kept.append([item.id for item in memory.items])
    assert kept[0] == kept[1]


def test_guards_let_a_class_return() -> None:
    labels = [0, 1, 2, 3, 4, 0, 1]
    memory = GreedyBalanced(3, viewer=viewer)
    memory.add(batch_of(range(7), labels))
    assert list(memory.counts) == [4, 0, 1]
    official = GreedyBalanced(3, viewer=viewer, guards=False)
    official.add(batch_of(range(7), labels))
    assert [label for label, count in official.counts.items() if count] == [2, 3, 4]


@given(st.lists(st.integers(0, 4), min_size=20, max_size=80), st.integers(5, 20))
def test_greedy_is_level(labels: list[int], size: int) -> None:
    """Room is taken from the largest class only, which has at least its share; so no class falls further."""
    memory = GreedyBalanced(size, viewer=viewer)
    memory.add(batch_of(range(len(labels)), labels))
    share = size // len(set(labels))
    for label in set(labels):
        assert memory.counts[label] >= min(labels.count(label), max(1, share - 1))


@given(st.permutations([0] * 40 + [1] * 12 + [2] * 3), st.integers(6, 20))
def test_class_balanced_keeps_all_of_a_small_class(labels: list[int], size: int) -> None:
    """Chrysakis and Moens: a class that was never the largest is stored whole."""
    memory = ClassBalanced(size, viewer=viewer)
    for i, label in enumerate(labels):
        memory.add(batch_of([i], [label]))
    assert len(memory) == size
    for label in set(labels):
        if label not in memory.full:
            assert memory.counts.get(label, 0) == labels.count(label)
    full = [memory.counts[label] for label in memory.full]
    assert max(full) == max(memory.counts.values())


def test_class_balanced_is_uniform_inside_a_full_class() -> None:
    seeds, size, offered = 600, 4, 12
    times = [0] * offered
    for seed in range(seeds):
        memory = ClassBalanced(size, viewer=viewer, seed=seed)
        memory.add(batch_of(range(offered), ["x"] * offered))
        for item in memory.items:
            times[item.id] += 1
    expected = seeds * size / offered
    assert max(abs(t - expected) for t in times) < 4.5 * (expected * (1 - size / offered)) ** 0.5


def test_ring_keeps_the_last_of_each_class() -> None:
    memory = Ring(6, viewer=viewer)
    memory.add(batch_of(range(12), "aaaabbbbaacc"))
    assert {item.id for item in memory.items} == {8, 9, 6, 7, 10, 11}
    memory.add(batch_of([12], ["d"]))
    assert sorted(item.id for item in memory.items) == [7, 9, 11, 12]


def test_ring_with_more_classes_than_room_keeps_the_newest_classes() -> None:
    memory = Ring(3, viewer=viewer)
    memory.add(batch_of(range(5), "abcde"))
    assert [item.label for item in memory.items] == ["c", "d", "e"]
