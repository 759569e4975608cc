"""Splits: classes into tasks, pictures into train and test, and the nested share of a training set."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import torch

from rwf.errors import UserError
from rwf.seeds import generator

CLASS_ORDERS = ("natural", "shuffled")


def arrival(count: int, order: str, seed: int) -> list[int]:
    """The order in which classes arrive: as the catalog numbers them, or shuffled by the seed."""
    if order not in CLASS_ORDERS:
        raise UserError(f"unknown class order {order!r}: there are {' and '.join(CLASS_ORDERS)}.")
    if order == "natural":
        return list(range(count))
    return torch.randperm(count, generator=generator(seed, "class order")).tolist()


def task_groups(classes: Sequence[int], tasks: int) -> tuple[list[list[int]], str | None]:
    """Consecutive groups, as even as can be (the first ones take one class more), and a sentence if uneven."""
    if tasks < 1:
        raise UserError(f"the number of tasks is {tasks}: give at least 1.")
    if tasks > len(classes):
        count = f"{len(classes)} classes" if len(classes) != 1 else "1 class"
        raise UserError(f"{tasks} tasks are more than the {count}: give at most {len(classes)}.")
    size, more = divmod(len(classes), tasks)
    ends = np.cumsum([size + (task < more) for task in range(tasks)]).tolist()
    groups = [list(classes[start:end]) for start, end in zip([0, *ends], ends, strict=False)]
    if not more:
        return groups, None
    first = f"the first {more} tasks have" if more > 1 else "the first task has"
    return (
        groups,
        f"{len(classes)} classes do not divide by {tasks} tasks: {first} {size + 1} classes, the others {size}.",
    )


def nested_fraction(labels: np.ndarray, fraction: float, seed: int, classes: Sequence[str] = ()) -> np.ndarray:
    """Sorted ids of a stratified share of each class. By one seed a smaller share lies inside a larger one."""
    if not 0 < fraction <= 1:
        raise UserError(f"the training fraction is {fraction}: give a number above 0 and at most 1.")
    kept = []
    for label in np.unique(labels).tolist():
        ids = np.flatnonzero(labels == label)
        keep = int(fraction * len(ids) + 0.5)
        if keep == 0:
            name = classes[label] if classes else str(label)
            raise UserError(
                f"a training fraction of {fraction} leaves the class {name!r} ({len(ids)} pictures) without a picture: "
                f"give at least {0.5 / len(ids):.3g}."
            )
        rank = torch.randperm(len(ids), generator=generator(seed, "train fraction", label)).numpy()
        kept.append(ids[rank[:keep]])
    return np.sort(np.concatenate(kept)) if kept else np.zeros(0, dtype=np.int64)


def long_tailed(labels: np.ndarray, ids: np.ndarray, imbalance: float, seed: int) -> np.ndarray:
    """Of these ids (sorted) so many of each class that the r-th of C classes has  n * imbalance ** (-r / (C - 1)).

    n is the mean number of pictures a class (Cui et al., CVPR 2019; Cao et al., NeurIPS 2019); rounded down, at least
    1, at most what the class has. Which class is large is drawn by the seed.
    """
    if not 1 <= imbalance < float("inf"):
        raise UserError(f"the imbalance is {imbalance}: give how many times the largest class exceeds the smallest.")
    if imbalance == 1:
        return ids
    present = np.unique(labels[ids]).tolist()
    ranks = torch.randperm(len(present), generator=generator(seed, "long tail")).tolist()
    kept = []
    for label, rank in zip(present, ranks, strict=True):
        mine = ids[labels[ids] == label]
        count = int(len(ids) / len(present) * imbalance ** (-rank / max(1, len(present) - 1)))
        order = torch.randperm(len(mine), generator=generator(seed, "long tail pictures", label)).numpy()
        kept.append(mine[order[: max(1, count)]])
    return np.sort(np.concatenate(kept))


def ranked_split(names: Sequence[str], share: float = 0.8) -> tuple[list[int], list[int]]:
    """The pictures of one class, split by the rank of sha256(name): positions of train and test, each sorted.

    The same on every machine, and a picture that comes or goes moves hardly any other. Of two pictures or more
    each side gets one at least.
    """
    rank = sorted(range(len(names)), key=lambda i: hashlib.sha256(names[i].encode("utf-8")).digest())
    first = int(share * len(names) + 0.5)
    if len(names) > 1:
        first = min(max(first, 1), len(names) - 1)
    return sorted(rank[:first]), sorted(rank[first:])


def split_notice(train: int, test: int) -> str:
    """How a split that we made ourselves is announced."""
    return (
        f"There is no test set: {train} training and {test} test pictures were chosen by ranking sha256(name) "
        "within each class, the first 80 % for training."
    )
