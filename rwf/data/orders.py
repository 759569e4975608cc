"""The orders a stream can have: from the ids of each class, grouped by task, to a plan of batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch

from rwf.errors import UserError
from rwf.seeds import generator

Groups = list[list[np.ndarray]]  # tasks -> their classes in order of arrival -> sorted ids


@dataclass(frozen=True)
class Plan:
    """What an order decides: all ids in their order, where batches begin, and what happens at which batch."""

    ids: np.ndarray  # int64 [images]
    starts: np.ndarray  # int64 [batches + 1]; the last one is the number of images
    boundaries: dict[int, int]  # batch number -> the task that begins with it
    evaluations: list[int]  # after how many batches an evaluation is due; one per task, the last one at the end


@dataclass(frozen=True)
class Blur:
    """The numbers of the orders without sharp tasks; docs/data.md has the formulas."""

    n: int = 50
    """Percent of the classes that keep to one session (blurry, si-blurry)."""
    m: int = 10
    """Percent of the other classes' pictures that are spread over all sessions (blurry, si-blurry)."""
    width: float = 0.05
    """Standard deviation of a class's presence, as a share of the stream (drift)."""

    def __post_init__(self) -> None:
        for name, value in (("n", self.n), ("m", self.m)):
            if not 0 <= value <= 100:
                raise UserError(f"blurry {name} is {value}: give a percentage from 0 to 100.")
        if not 0 < self.width < float("inf"):
            raise UserError(f"the drift width is {self.width}: give a share of the stream above 0, such as 0.05.")


def split_order(groups: Groups, batch_size: int, seed: int, _blur: Blur) -> Plan:
    """Tasks one after another, all pictures of a task shuffled; the last batch of a task may be smaller."""
    tasks = [_shuffled(np.concatenate(classes), seed, "split order", t) for t, classes in enumerate(groups)]
    return _by_task(tasks, batch_size)


def sorted_order(groups: Groups, batch_size: int, seed: int, _blur: Blur) -> Plan:
    """Class after class, shuffled inside a class. Batches may span two classes, but not two tasks."""
    tasks, arrival = [], 0
    for classes in groups:
        tasks.append(np.concatenate([_shuffled(c, seed, "sorted order", arrival + k) for k, c in enumerate(classes)]))
        arrival += len(classes)
    return _by_task(tasks, batch_size)


def iid_order(groups: Groups, batch_size: int, seed: int, _blur: Blur) -> Plan:
    """Everything shuffled, no boundaries; as many equally spaced evaluations as there are tasks."""
    every = np.sort(np.concatenate([ids for classes in groups for ids in classes]))
    return _without_tasks(_shuffled(every, seed, "iid order", 0), batch_size, len(groups))


def blurry_order(groups: Groups, batch_size: int, seed: int, blur: Blur) -> Plan:
    """i-Blurry-N-M (Koh et al., ICLR 2022). Of each task's classes some keep to it (N % of all classes); of the other
    classes' pictures M % are taken out of their task, mixed, and dealt out evenly over all tasks. No boundaries."""
    count = sum(map(len, groups))
    each = count * blur.n // 100 // len(groups)
    fixed, blurry = [], []
    for task, classes in enumerate(groups):
        drawn = torch.randperm(len(classes), generator=generator(seed, "blurry classes", task)).tolist()
        fixed.append([classes[k] for k in sorted(drawn[:each])])
        blurry.append([classes[k] for k in sorted(drawn[each:])])
    taken = [_size(classes) * blur.m // 100 for classes in blurry]
    dealt = [len(part) for part in np.array_split(np.zeros(sum(taken)), len(groups))]
    sessions = _mixed(fixed, blurry, taken, dealt, seed, "blurry")
    return _without_tasks(np.concatenate(sessions), batch_size, len(groups))


def si_blurry_order(groups: Groups, batch_size: int, seed: int, blur: Blur) -> Plan:
    """Si-Blurry (Moon et al., ICCV 2023): as i-Blurry, but how many classes come in a session, and how many pictures
    it gives away and gets, is random: the differences of uniform cut points. A session may have no class of its own."""
    return _without_tasks(np.concatenate(si_blurry_sessions(groups, seed, blur)), batch_size, len(groups))


def si_blurry_sessions(groups: Groups, seed: int, blur: Blur) -> list[np.ndarray]:
    """The ids of each session, in their order."""
    classes, sessions = [ids for group in groups for ids in group], len(groups)
    each = len(classes) * blur.n // 100 // sessions * sessions
    drawn = torch.randperm(len(classes), generator=generator(seed, "si-blurry classes")).tolist()
    fixed = _cut([classes[k] for k in sorted(drawn[:each])], sessions, seed, "si-blurry fixed")
    blurry = _cut([classes[k] for k in sorted(drawn[each:])], sessions, seed, "si-blurry blurry")
    moved = sum(map(_size, blurry)) * blur.m // 100
    dealt = np.diff(_points(moved, sessions, seed, "si-blurry pictures")).tolist()
    taken = [min(wish, _size(session)) for wish, session in zip(dealt, blurry, strict=True)]
    return _mixed(fixed, blurry, taken, dealt, seed, "si-blurry")


def drift_order(groups: Groups, batch_size: int, seed: int, blur: Blur) -> Plan:
    """Smooth drift (Shanahan et al. 2021): the presence of class k of C is a Gaussian around (k + 1/2) / C of the
    stream. Each picture draws its time from its class's Gaussian, and the pictures come in the order of their times."""
    classes = [ids for group in groups for ids in group]
    times = [
        (k + 0.5) / len(classes)
        + blur.width * torch.randn(len(ids), generator=generator(seed, "drift order", k), dtype=torch.float64).numpy()
        for k, ids in enumerate(classes)
    ]
    every = np.concatenate(classes)
    return _without_tasks(every[np.lexsort((every, np.concatenate(times)))], batch_size, len(groups))


Order = Callable[[Groups, int, int, Blur], Plan]
ORDERS: dict[str, Order] = {
    "split": split_order,
    "iid": iid_order,
    "sorted": sorted_order,
    "blurry": blurry_order,
    "si-blurry": si_blurry_order,
    "drift": drift_order,
}
WITH_TASKS = frozenset({"split", "sorted"})
"""Orders in which tasks follow one another; the others have no boundaries to tell of."""


def _size(classes: Sequence[np.ndarray]) -> int:
    return sum(map(len, classes))


def _points(end: int, parts: int, seed: int, purpose: str) -> list[int]:
    """0, then uniform cut points in order, then ``end``."""
    draws = generator(seed, purpose)
    inner = torch.randint(0, end, (parts - 1,), generator=draws).sort().values.tolist() if end else [0] * (parts - 1)
    return [0, *inner, end]


def _cut(classes: list[np.ndarray], parts: int, seed: int, purpose: str) -> list[list[np.ndarray]]:
    points = _points(len(classes), parts, seed, purpose)
    return [classes[start:end] for start, end in pairwise(points)]


def _mixed(
    fixed: Sequence[Sequence[np.ndarray]],
    blurry: Sequence[Sequence[np.ndarray]],
    taken: Sequence[int],
    dealt: Sequence[int],
    seed: int,
    purpose: str,
) -> list[np.ndarray]:
    """Each session: what is fixed, what is left of the blurry pictures, and what was dealt, shuffled."""
    none = np.zeros(0, dtype=np.int64)
    own, pool = [], [none]
    for session, classes in enumerate(blurry):
        ids = _shuffled(np.concatenate([none, *classes]), seed, f"{purpose} taken", session)
        pool.append(ids[: taken[session]])
        own.append(ids[taken[session] :])
    mixed = _shuffled(np.concatenate(pool), seed, f"{purpose} pool", 0)
    parts = np.split(mixed, np.cumsum(dealt)[:-1])  # the last ones get less where less was taken than wished
    return [
        _shuffled(np.concatenate([none, *fixed[session], own[session], parts[session]]), seed, purpose, session)
        for session in range(len(own))
    ]


def _without_tasks(ids: np.ndarray, batch_size: int, groups: int) -> Plan:
    """No boundaries; as many equally spaced evaluations as there are groups of classes."""
    starts = _cuts(len(ids), batch_size)
    batches = len(starts) - 1
    if batches < groups:
        raise UserError(
            f"{len(ids)} pictures in batches of {batch_size} are {batches} batches, too few for {groups} evaluations: "
            "give a smaller batch size or fewer tasks."
        )
    return Plan(ids, starts, {}, [-(-batches * (t + 1) // groups) for t in range(groups)])


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
