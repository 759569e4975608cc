"""A memory never holds more than its budget, samples as its rule says, and does not notice a break."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rwf.errors import UserError
from rwf.parts.balance import RULES, open_memory
from rwf.parts.memory import Memory, Reservoir
from tests.golden import golden
from tests.pictures import batch_of, viewer


class Recorded(Reservoir):
    """Takes its draws from a record, and records out of which range they were wanted."""

    def __init__(self, size: int, draws: list[int]) -> None:
        super().__init__(size, viewer=viewer)
        self.draws, self.ranges = iter(draws), list[int]()

    def pick(self, purpose: str, counter: int, high: int) -> int:
        self.ranges.append(high)
        return next(self.draws)


def contents(memory: Memory) -> list[int]:
    return [item.id for item in memory.items]


def again(memory: Memory, fresh: Memory) -> Memory:
    """A new memory with the state of the old one, which has been through JSON."""
    tensors, extra = memory.state()
    fresh.restore({k: v.clone() for k, v in tensors.items()}, json.loads(json.dumps(extra)))
    return fresh


def test_golden_reservoir_places_as_the_official_one() -> None:
    arrays, options = golden("reservoir_raptor_div")
    memory = Recorded(options["mem_size"], arrays["draws"].tolist())
    size = options["B"]
    for b, kept in enumerate(arrays["buffer_ids"].tolist()):
        ids = range(b * size, (b + 1) * size)
        memory.add(batch_of(ids, ["x"] * size))
        assert contents(memory) == [i for i in kept if i >= 0]
    # Ours: item number n draws out of 0..n-1. Theirs: out of the items before this batch, so the batch that comes
    # after the memory is full always replaces.
    assert memory.ranges == list(range(options["mem_size"] + 1, size * options["batches"] + 1))
    assert max(arrays["draws"][:size].tolist()) < arrays["draw_range"][0] == options["mem_size"]


@pytest.mark.parametrize("name", ["derpp_run", "lode_run"])
def test_golden_reservoir_of_mammoth_and_lode(name: str) -> None:
    """There the ranges are those of the rule: item number n draws out of n."""
    arrays, options = golden(name)
    labels = arrays["Y"].flatten().tolist()
    memory = Recorded(options["buffer"], arrays["reservoir_draws"].tolist())
    size = options["B"]
    for step, kept in enumerate(arrays["buffer_labels"].tolist()):
        ids = range(step * size, (step + 1) * size)
        memory.add(batch_of(ids, labels[step * size : (step + 1) * size]))
        found = [item.label for item in memory.items]
        assert found == kept[: len(found)]
        stored = arrays["buffer_examples"][step][: len(found)]
        assert torch.equal(arrays["X"].flatten(0, 1)[contents(memory)], stored)
    assert memory.ranges == arrays["reservoir_ranges"].tolist()


def test_reservoir_is_a_uniform_sample() -> None:
    seeds, size, offered = 800, 4, 12
    times = torch.zeros(offered)
    for seed in range(seeds):
        memory = Reservoir(size, viewer=viewer, seed=seed)
        memory.add(batch_of(range(offered), ["x"] * offered))
        times[contents(memory)] += 1
    expected = seeds * size / offered
    spread = math.sqrt(expected * (1 - size / offered))
    assert ((times - expected).abs() < 4.5 * spread).all(), times


def test_reservoir_stays_uniform_under_a_bound_in_bytes() -> None:
    seeds, offered = 800, 9
    times, kept = torch.zeros(offered), 0
    for seed in range(seeds):
        memory = Reservoir(8, viewer=viewer, seed=seed, max_bytes=3 * (3 + 16))
        memory.add(batch_of(range(offered), ["x"] * offered))
        times[contents(memory)] += 1
        kept += len(memory)
    assert kept == 3 * seeds
    expected = seeds * 3 / offered
    assert ((times - expected).abs() < 4.5 * math.sqrt(expected * 0.75)).all(), times


streams = st.lists(
    st.tuples(st.integers(0, 6), st.integers(1, 4), st.integers(1, 4)), min_size=1, max_size=40
)  # label, height, width


@given(rule=st.sampled_from(sorted(RULES)), size=st.integers(1, 9), stream=streams, limit=st.integers(64, 400))
def test_budgets_are_never_exceeded(rule: Any, size: int, stream: list[tuple[int, int, int]], limit: int) -> None:
    memory = open_memory(rule, size, viewer=viewer, max_bytes=limit)
    for i, (label, height, width) in enumerate(stream):
        memory.add(batch_of([i], [label], [(height, width)]))
        assert 1 <= len(memory) <= size
        assert memory.nbytes <= limit
        assert len(set(contents(memory))) == len(memory)
    assert memory.seen == len(stream)
    counted = getattr(memory, "counts", None)
    if counted is not None:
        present = [item.label for item in memory.items]
        assert {label: present.count(label) for label in present} == dict(counted)


@given(
    rule=st.sampled_from(sorted(RULES)),
    size=st.integers(1, 9),
    stream=streams,
    cut=st.integers(0, 40),
    limit=st.sampled_from([None, 900, 1800]),
)
def test_a_break_changes_nothing(
    rule: Any, size: int, stream: list[tuple[int, int, int]], cut: int, limit: int | None
) -> None:
    def fresh() -> Memory:
        return open_memory(rule, size, viewer=viewer, seed=cut, max_bytes=limit)

    whole, broken = fresh(), fresh()
    for i, (label, height, width) in enumerate(stream):
        if i == cut:
            broken = again(broken, fresh())
        for memory in (whole, broken):
            memory.add(batch_of([i], [label], [(height, width)]), task=[label], logits=torch.arange(2 + i)[None])
        a, b = whole.draw(3, i), broken.draw(3, i)
        assert torch.equal(a.view(), b.view())
        assert a.labels == b.labels
        assert all(torch.equal(x, y) for x, y in zip(a.images, b.images, strict=True))
        for name in ("task", "logits"):
            assert all(torch.equal(x, y) for x, y in zip(a.extras[name], b.extras[name], strict=True))
    assert whole.replays == broken.replays


@pytest.mark.parametrize("rule", sorted(RULES))
def test_a_break_after_the_bound_in_bytes_was_met(rule: Any) -> None:
    whole, broken = (open_memory(rule, 8, viewer=viewer, max_bytes=3 * 19) for _ in range(2))
    for i in range(40):
        if i == 7:
            broken = again(broken, open_memory(rule, 8, viewer=viewer, max_bytes=3 * 19))
        for memory in (whole, broken):
            memory.add(batch_of([i], [i % 2]))
        assert contents(whole) == contents(broken)
        assert whole.capacity == broken.capacity == (8 if i < 3 else 3)


def test_draws_are_without_replacement_named_and_new_views() -> None:
    memory = Reservoir(6, viewer=viewer, seed=3)
    memory.add(batch_of(range(6), "aabbcc"), views=2)
    first, second = memory.draw(4, step=0), memory.draw(4, step=0, name="second")
    assert len(set(first.ids)) == len(set(second.ids)) == 4
    assert list(first.ids) != list(second.ids)
    shown: set[tuple[int, int]] = {(i, n) for i in range(6) for n in (0, 1)}  # the stream's two views
    for step in range(8):
        replay = memory.draw(5, step, views=3)
        for i, visit in zip(replay.ids, replay.visits, strict=True):
            for n in range(3):
                assert (i, visit + n) not in shown, "a view was shown twice"
                shown.add((i, visit + n))
    assert memory.replays == 8 + 8 * 5
    assert len(memory.draw(99, 0)) == 6
    assert len(Reservoir(3, viewer=viewer).draw(2, 0)) == 0


def test_looking_leaves_no_trace() -> None:
    memory = Reservoir(3, viewer=viewer)
    memory.add(batch_of(range(3), "abc"))
    before = memory.state()
    seen = memory.look([2, 0])
    assert (list(seen.ids), list(seen.visits)) == ([2, 0], [1, 1])
    after = memory.state()
    assert before[1] == after[1]
    assert all(torch.equal(before[0][name], after[0][name]) for name in before[0])


def test_select_keeps_views_and_extras() -> None:
    memory = Reservoir(4, viewer=viewer)
    memory.add(batch_of(range(4), "abcd"), score=torch.arange(4.0))
    replay = memory.draw(4, 0)
    part = replay.select([2, 0])
    assert torch.equal(part.view(), replay.view()[[2, 0]])
    assert [float(s) for s in part.extras["score"]] == [float(i) for i in part.ids]
    assert part.labels == ["abcd"[i] for i in part.ids]
    both = batch_of([9], ["z"]) + part
    assert both.view().flatten(1)[:, 0].tolist() == [9, *part.ids]


def test_rows_of_extras_may_be_short() -> None:
    memory = Reservoir(4, viewer=viewer)
    memory.add(batch_of([0], "a"), logits=torch.ones(1, 2))
    memory.add(batch_of([1], "b"), logits=torch.full((1, 3), 2.0))
    values, known = memory.hand_out([0, 1]).padded("logits", 4)
    assert values.tolist() == [[1, 1, 0, 0], [2, 2, 2, 0]]
    assert known.tolist() == [[True, True, False, False], [True, True, True, False]]


def test_kept_pictures_do_not_hold_the_batch_alive() -> None:
    whole = torch.zeros(8, 3, 5, 5, dtype=torch.uint8)
    batch = batch_of([0], "a")
    object.__setattr__(batch, "images", [whole[2]])
    memory = Reservoir(1, viewer=viewer)
    memory.add(batch)
    whole += 1
    kept = memory.items[0].image
    assert kept.untyped_storage().nbytes() == 75
    assert not kept.any()
    assert memory.nbytes == 75 + 16


def test_impossible_budgets_are_one_sentence() -> None:
    for rule in RULES:
        with pytest.raises(UserError, match="memory of 0"):
            open_memory(rule, 0, viewer=viewer)  # type: ignore[arg-type]
    with pytest.raises(UserError, match="bytes holds no picture"):
        Reservoir(3, viewer=viewer, max_bytes=0)
    with pytest.raises(UserError, match="9 x 7"):
        Reservoir(3, viewer=viewer, max_bytes=100).add(batch_of([0], "a", [(7, 9)]))
    with pytest.raises(UserError, match="no memory rule"):
        open_memory("fifo", 3, viewer=viewer)  # type: ignore[arg-type]
