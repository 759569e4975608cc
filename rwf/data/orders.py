"""The orders a stream can have: from the ids of each class, grouped by task, to a plan of batches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from rwf.seeds import generator

Groups = list[list[np.ndarray]]  # tasks -> their classes in order of arrival -> sorted ids


@dataclass(frozen=True)
class Plan:
    """What an order decides: all ids in their order, where batches begin, and what happens at which batch."""

    ids: np.ndarray  # int64 [images]
    starts: np.ndarray  # int64 [batches + 1]; the last one is the number of images
    boundaries: dict[int, int]  # batch number -> the task that begins with it
    evaluations: list[int]  # after how many batches an evaluation is due; one per task, the last one at the end


def split_order(groups: Groups, batch_size: int, seed: int) -> Plan:
    """Tasks one after another, all pictures of a task shuffled; the last batch of a task may be smaller."""
    tasks = [_shuffled(np.concatenate(classes), seed, "split order", t) for t, classes in enumerate(groups)]
    return _by_task(tasks, batch_size)


def sorted_order(groups: Groups, batch_size: int, seed: int) -> Plan:
    """Class after class, shuffled inside a class. Batches may span two classes, but not two tasks."""
    tasks, arrival = [], 0
    for classes in groups:
        tasks.append(np.concatenate([_shuffled(c, seed, "sorted order", arrival + k) for k, c in enumerate(classes)]))
        arrival += len(classes)
    return _by_task(tasks, batch_size)


def iid_order(groups: Groups, batch_size: int, seed: int) -> Plan:
    """Everything shuffled, no boundaries; as many equally spaced evaluations as there are tasks."""
    every = np.sort(np.concatenate([ids for classes in groups for ids in classes]))
    ids = _shuffled(every, seed, "iid order", 0)
    starts = _cuts(len(ids), batch_size)
    batches = len(starts) - 1
    return Plan(ids, starts, {}, [-(-batches * (t + 1) // len(groups)) for t in range(len(groups))])


ORDERS: dict[str, Callable[[Groups, int, int], Plan]] = {
    "split": split_order,
    "iid": iid_order,
    "sorted": sorted_order,
}


def _shuffled(ids: np.ndarray, seed: int, purpose: str, counter: int) -> np.ndarray:
    return np.sort(ids)[torch.randperm(len(ids), generator=generator(seed, purpose, counter)).numpy()]


def _cuts(images: int, batch_size: int) -> np.ndarray:
    return np.append(np.arange(0, images, batch_size, dtype=np.int64), images)


def _by_task(tasks: list[np.ndarray], batch_size: int) -> Plan:
    starts, boundaries, evaluations, before, batches = [np.zeros(1, np.int64)], {}, [], 0, 0
    for task, ids in enumerate(tasks):
        boundaries[batches] = task
        starts.append(before + _cuts(len(ids), batch_size)[1:])
        before += len(ids)
        batches += len(starts[-1])
        evaluations.append(batches)
    return Plan(np.concatenate(tasks), np.concatenate(starts), boundaries, evaluations)
