"""Joint: finetune's updates on a stream that really is without order, each picture once, under the row's protocol."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from rwf.data.batch import Batch, Boundary
from rwf.data.stream import Stream
from rwf.methods.finetune import Finetune
from rwf.methods.joint import Joint
from rwf.run.build import make_method
from tests.methods.by_hand import bound, needs, pictures
from tests.pictures import tiny_vit
from tests.toys import toy


def handed_out(stream: Stream) -> tuple[np.ndarray, np.ndarray]:
    """Ids and labels of all pictures in their order."""
    batches = [item for item in stream.items() if isinstance(item, Batch)]
    ids = np.concatenate([np.asarray(batch.ids) for batch in batches])
    return ids, np.asarray(stream.catalog.train.labels)[ids]


@pytest.mark.parametrize("seed", range(3))
def test_its_stream_has_no_order_and_no_boundary_and_each_picture_once(seed: int) -> None:
    _, stream = toy("joint", seed=seed)
    assert not any(isinstance(item, Boundary) for item in stream.items())
    _, stream = toy("joint", seed=seed)
    ids, labels = handed_out(stream)
    assert sorted(ids) == list(range(len(stream.catalog.train)))
    assert stream.guard.certificate()["most_visits"] == 1
    # Of 320 pictures in 10 classes: how far a class's mean place may be from the middle. It is a mean of 32 places
    # drawn without replacement; 4.5 of its standard deviations, over 30 means, are passed once in 5,000 suites.
    places = np.array([np.flatnonzero(labels == c).mean() for c in range(10)])
    n, k = 320, 32
    deviation = ((n + 1) * (n - k) / (12 * k)) ** 0.5
    assert np.abs(places - (n - 1) / 2).max() < 4.5 * deviation
    # A pair of neighbours is of one class with probability 31 / 319 where there is no order, and more where there is.
    alike = int((labels[1:] == labels[:-1]).sum())
    assert abs(alike - (n - 1) * 31 / 319) < 4.5 * (31 * (1 - 31 / 319)) ** 0.5


def test_the_same_checks_would_see_a_stream_in_tasks() -> None:
    _, stream = toy("finetune")
    _, labels = handed_out(stream)
    places = np.array([np.flatnonzero(labels == c).mean() for c in range(10)])
    assert np.abs(places - 159.5).max() > 4.5 * (321 * 288 / (12 * 32)) ** 0.5


def test_another_seed_is_another_order_of_the_same_pictures() -> None:
    orders = [handed_out(toy("joint", seed=seed)[1])[0].tolist() for seed in (0, 1, 0)]
    assert orders[0] == orders[2] != orders[1]
    assert sorted(orders[0]) == sorted(orders[1])


def test_its_updates_are_finetune_s() -> None:
    viewer, ends = pictures(8), []
    for name in ("finetune", "joint"):
        learner = bound(name, tiny_vit(depth=1), viewer, lr=1e-3)
        for start in (0, 4):
            learner.learn(viewer.batch(range(start, start + 4), "abca"))
        ends.append({n: p.detach() for n, p in learner.trained().items()})
    assert ends[0].keys() == ends[1].keys()
    assert all(torch.equal(ends[0][n], ends[1][n]) for n in ends[0])


def test_the_row_of_the_paper_is_all_classes_at_once_by_one_pass_of_adam() -> None:
    paper = make_method("joint", {}).paper_options
    assert paper == Finetune.paper_options
    assert (paper["mask"], paper["lr"], paper["weight_decay"], paper["head_lr"]) == ("none", 1e-4, 1e-4, None)
    assert (Joint.stream_order, Finetune.stream_order) == ("iid", None)


def test_it_is_told_nothing_of_tasks() -> None:
    assert needs("joint") == frozenset()
    assert needs("joint", mask="none") == {"class_count"}
