"""A benchmark to choose settings on: the first tasks of another one, its training pictures in two parts."""

from __future__ import annotations

import numpy as np

from rwf.data.catalog import Catalog, build_catalog
from rwf.data.pictures import PartStore
from rwf.data.split import arrival, long_tailed, nested_fraction, ranked_split, task_groups
from rwf.errors import UserError


def validation_catalog(
    catalog: Catalog,
    first: int,
    *,
    tasks: int = 10,
    class_order: str = "natural",
    train_fraction: float = 1.0,
    imbalance: float = 1.0,
    seed: int = 0,
) -> Catalog:
    """The classes of the ``first`` tasks, in the order of their arrival; a fifth of their training pictures stands in
    for test pictures.

    The other options are those of the stream that settings are chosen for. Only training pictures that it would hand
    out are used, so neither a test picture nor a later class can be met. Split in ``first`` tasks in natural order,
    the new catalog has the same tasks. The parts are made by rank of each picture's name, the same on every machine.
    """
    groups, _ = task_groups(arrival(len(catalog.classes), class_order, seed), tasks)
    if not 1 <= first <= tasks:
        raise UserError(f"the first {first} of {tasks} tasks cannot be had: give 1 to {tasks}.")
    labels = catalog.train.labels
    kept = long_tailed(labels, nested_fraction(labels, train_fraction, seed, catalog.classes), imbalance, seed)
    train: list[np.ndarray] = []
    validation: list[np.ndarray] = []
    for task, group in enumerate(groups[:first], 1):
        parts = [_two_parts(catalog, kept[labels[kept] == label]) for label in group]
        if not any(len(ours) for _, ours in parts):
            raise UserError(
                f"task {task} has one training picture a class, so none is left to validate on: use more of them, or "
                "fewer tasks."
            )
        train += [learned for learned, _ in parts]
        validation += [asked for _, asked in parts]
    number = {label: i for i, label in enumerate(label for group in groups[:first] for label in group)}
    learned, asked = _numbered(catalog, train, number), _numbered(catalog, validation, number)
    return build_catalog(
        f"{catalog.name}, tasks 1 to {first} of {tasks}",
        [catalog.classes[label] for label in number],
        learned,
        asked,
        source=catalog.source,
        notices=[
            *catalog.notices,
            f"To choose settings on: tasks 1 to {first} of {tasks}, {len(learned[0])} of their training pictures to "
            f"learn from and {len(asked[0])} to validate on; no test picture is used.",
        ],
    )


def _two_parts(catalog: Catalog, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    learned, asked = ranked_split([catalog.train.names[i] for i in ids.tolist()])
    return ids[learned], ids[asked]


def _numbered(
    catalog: Catalog, parts: list[np.ndarray], number: dict[int, int]
) -> tuple[list[str], np.ndarray, PartStore]:
    names, labels, store = catalog.train.part(np.sort(np.concatenate(parts)))
    return names, np.array([number[label] for label in labels.tolist()], np.int64), store
