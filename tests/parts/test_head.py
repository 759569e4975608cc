"""A head that grows is the head that was there from the start."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rwf.parts.head import Head, HeadStart
from rwf.parts.masks import ClassMask, MaskKind, masked_cross_entropy
from rwf.parts.optim import NamedOptimizer, OptimizerKind

WIDTH, CLASSES = 5, 9


def stream(seed: int, steps: int) -> list[tuple[torch.Tensor, list[int]]]:
    """Batches whose labels come up one after another."""
    draw = torch.Generator().manual_seed(seed)
    batches = []
    for step in range(steps):
        known = min(CLASSES, 2 + step)
        rows = torch.randint(max(0, known - 3), known, (4,), generator=draw).tolist()
        batches.append((torch.randn(4, WIDTH, generator=draw, dtype=torch.float64), rows))
    return batches


def train(head: Head, mask: MaskKind, kind: OptimizerKind, grows: bool, batches: list) -> None:
    """The same loss and optimiser, the rows there from the start or as their labels come."""
    optimizer = NamedOptimizer(kind)
    class_mask = ClassMask(mask, window=6)
    seen = 0
    for step, (x, rows) in enumerate(batches):
        seen = max(seen, *(row + 1 for row in rows))
        if mask == "task" and step % 4 == 0:
            class_mask.enter(range(min(rows), seen))
        if head.grow(seen if grows else CLASSES) or step == 0:
            named = dict(head.named_parameters())
            optimizer.adopt(named, dict.fromkeys(named, 0.05))
        class_mask.watch(rows)
        labels = torch.tensor(rows)
        head.begin(x, labels)
        logits = head(x)
        masked_cross_entropy(logits, labels, class_mask.allowed(labels, logits.shape[1], seen)).backward()
        optimizer.step()


@settings(max_examples=12)
@given(
    mask=st.sampled_from(["seen", "task", "batch", "window"]),
    kind=st.sampled_from(["linear", "cosine"]),
    start=st.sampled_from(["random", "imprint"]),
    optimizer=st.sampled_from(["adam", "sgd"]),
    seed=st.integers(0, 99),
)
def test_growing_equals_preallocated(mask, kind, start, optimizer, seed):
    batches = stream(seed, 12)
    grown, whole = (Head(WIDTH, kind=kind, start=start, seed=seed).double() for _ in range(2))
    train(grown, mask, optimizer, True, batches)
    train(whole, mask, optimizer, False, batches)
    met = grown.rows
    torch.testing.assert_close(grown.weight, whole.weight[:met], rtol=0, atol=1e-12)
    if grown.bias is not None and whole.bias is not None:
        torch.testing.assert_close(grown.bias, whole.bias[:met], rtol=0, atol=1e-12)


def test_rows_do_not_depend_on_how_they_came():
    by_one, at_once = Head(WIDTH, seed=3), Head(WIDTH, seed=3)
    for rows in (1, 2, 2, 6):
        by_one.grow(rows)
    at_once.grow(6)
    assert torch.equal(by_one.weight, at_once.weight)
    assert not torch.equal(by_one.weight[0], by_one.weight[1])
    other = Head(WIDTH, seed=4)
    other.grow(6)
    assert not torch.equal(by_one.weight, other.weight)


def test_cosine_scores_do_not_see_lengths():
    head = Head(WIDTH, kind="cosine", scale=4.0).double()
    head.grow(3)
    x = torch.randn(2, WIDTH, dtype=torch.float64)
    torch.testing.assert_close(head(x), head(7.5 * x))
    assert float(head(x).detach().abs().max()) <= 4.0


@pytest.mark.parametrize("kind", ["adam", "sgd"])
def test_optimizer_state_outlives_parameter_objects(kind):
    first = torch.nn.Parameter(torch.ones(2, 3, dtype=torch.float64))
    optimizer = NamedOptimizer(kind)
    optimizer.adopt({"w": first}, {"w": 0.1})
    first.grad = torch.full_like(first, 0.5)
    optimizer.step()
    before, steps = optimizer.state()
    second = torch.nn.Parameter(torch.cat([first.data, torch.zeros(1, 3, dtype=torch.float64)]))
    optimizer.adopt({"w": second}, {"w": 0.1})
    after, _ = optimizer.state()
    assert steps == 1
    assert before.keys() == after.keys() != set()
    for name, value in before.items():
        if value.dim():
            assert torch.equal(after[name][:2], value)
            assert bool((after[name][2:] == 0).all())
        else:
            assert torch.equal(after[name], value)


def test_two_rates_make_two_groups():
    a, b = (torch.nn.Parameter(torch.zeros(1)) for _ in range(2))
    optimizer = NamedOptimizer("adam")
    optimizer.adopt({"a": a, "b": b}, {"a": 0.1, "b": 0.01})
    a.grad, b.grad = torch.ones(1), torch.ones(1)
    optimizer.step()
    torch.testing.assert_close(a.data, torch.tensor([-0.1]))
    torch.testing.assert_close(b.data, torch.tensor([-0.01]))


def test_an_imprinted_row_begins_as_the_mean_direction_of_its_first_features():
    head = Head(WIDTH, kind="cosine", start="imprint").double()
    head.grow(3)
    x = torch.randn(4, WIDTH, dtype=torch.float64)
    head.begin(x, torch.tensor([2, 0, 2, 0]))
    unit = x / x.norm(dim=1, keepdim=True)
    for row, pair in ((2, unit[[0, 2]]), (0, unit[[1, 3]])):
        mean = pair.mean(0)
        torch.testing.assert_close(head.weight.data[row], mean / mean.norm())
    before = head.weight.detach().clone()
    assert head.begun.tolist() == [True, False, True]
    head.begin(-x, torch.tensor([0, 0, 2, 2]))
    assert torch.equal(head.weight.data, before)


def test_classes_that_come_alone_are_kept_by_imprinting_only():
    """A softmax over one class has no gradient: a random first row is only ever pushed away."""
    draw = torch.Generator().manual_seed(0)
    centres = 3 * torch.randn(3, 16, generator=draw)
    right = {}
    starts: tuple[HeadStart, ...] = ("imprint", "random")
    for start in starts:
        head, optimizer, mask = Head(16, kind="cosine", start=start), NamedOptimizer("adam"), ClassMask("window", 64)
        for row in range(3):
            head.grow(row + 1)
            named = dict(head.named_parameters())
            optimizer.adopt(named, dict.fromkeys(named, 1e-2))
            for _ in range(30):
                x, labels = centres[row] + torch.randn(4, 16, generator=draw), torch.full((4,), row)
                head.begin(x, labels)
                mask.watch(labels.tolist())
                masked_cross_entropy(head(x), labels, mask.allowed(labels, head.rows, head.rows)).backward()
                optimizer.step()
        x = centres[0] + torch.randn(50, 16, generator=draw)
        right[start] = float((head(x).argmax(1) == 0).float().mean())
    assert right["imprint"] > 0.9
    assert right["random"] < 0.5
