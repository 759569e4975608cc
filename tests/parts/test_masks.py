"""A mask belongs to a loss term and contains the term's own labels."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rwf.parts.masks import ClassMask, masked_cross_entropy

KINDS = ["none", "seen", "task", "batch", "window"]


@given(
    kind=st.sampled_from(KINDS),
    watched=st.lists(st.integers(0, 7), max_size=12),
    task=st.sets(st.integers(0, 7)),
    labels=st.lists(st.integers(0, 7), min_size=1, max_size=5),
)
def test_a_term_can_always_reach_its_own_labels(kind, watched, task, labels):
    mask = ClassMask(kind, window=4)
    mask.watch(watched)
    mask.enter(task)
    rows = torch.tensor(labels)
    allowed = mask.allowed(rows, width=8, seen=8)
    assert allowed is None or bool(allowed[rows].all())
    loss = masked_cross_entropy(torch.zeros(len(labels), 8), rows, allowed)
    assert bool(torch.isfinite(loss))


@given(window=st.integers(1, 20), batches=st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=6), max_size=12))
def test_the_window_counts_pictures_not_batches(window, batches):
    one_by_one, by_batch = ClassMask("window", window), ClassMask("window", window)
    stream = [row for batch in batches for row in batch]
    for batch in batches:
        by_batch.watch(batch)
    for row in stream:
        one_by_one.watch([row])
    rows = torch.tensor([0])
    expected = torch.zeros(10, dtype=torch.bool)
    expected[[*stream[-window:], 0]] = True
    for mask in (one_by_one, by_batch):
        allowed = mask.allowed(rows, 10, 10)
        assert allowed is not None
        assert torch.equal(allowed, expected)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("seen", [0, 1, 2, 3]), ("task", [1, 2, 4]), ("batch", [4]), ("window", [0, 3, 4])],
)
def test_each_kind_names_its_rows(kind, expected):
    mask = ClassMask(kind, window=2)
    mask.watch([2, 0, 3])
    mask.enter([1, 2])
    allowed = mask.allowed(torch.tensor([4]), width=6, seen=4)
    assert allowed is not None
    assert allowed.nonzero().flatten().tolist() == sorted({*expected, 4})


def test_none_lets_all_compete():
    assert ClassMask("none").allowed(torch.tensor([0]), 5, 1) is None


def test_masked_classes_get_no_gradient():
    logits = torch.randn(3, 5, dtype=torch.float64, requires_grad=True)
    allowed = torch.tensor([True, False, True, True, False])
    rows = torch.tensor([0, 2, 3])
    loss = masked_cross_entropy(logits, rows, allowed)
    (gradient,) = torch.autograd.grad(loss, logits)
    assert bool((gradient[:, ~allowed] == 0).all())
    few = torch.nn.functional.cross_entropy(logits[:, allowed], torch.tensor([0, 1, 2]))
    torch.testing.assert_close(loss, few)


def test_state_comes_back():
    mask = ClassMask("window", 3)
    mask.watch([1, 2, 3, 4])
    mask.enter([5])
    other = ClassMask("window", 3)
    other.restore(*mask.state())
    assert list(other.recent) == [2, 3, 4]
    assert other.task == [5]
    assert other.recent.maxlen == 3
