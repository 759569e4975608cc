"""The catalog: what there is to learn from, in one fixed order, opened without decoding a picture."""

from __future__ import annotations

import hashlib
import inspect
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from rwf.data.duplicates import notice_at_open
from rwf.data.pictures import Pictures, Store
from rwf.errors import UserError

FORMS = {"folder": "rwf.data.folder:open_folder", "parquet": "rwf.data.parquet:open_parquet"}
"""Who opens a person's own data. Named, not imported, as in the registry: every opener makes a catalog."""


@dataclass(frozen=True)
class Catalog:
    """A training and a test split over the same classes. An id is a position in the sorted split.

    ``classes`` stand in their natural order: sorted folder names, or the numbering of the data set itself.
    ``notices`` are sentences about what was decided while opening it (a split made, a class left out).
    """

    name: str
    classes: tuple[str, ...]
    train: Pictures
    test: Pictures
    source: str
    fingerprint: str
    notices: tuple[str, ...] = ()

    def summary(self) -> str:
        """What there is, and the hash that says whether another run had the same."""
        return (
            f"{self.name}: {len(self.classes)} classes, {len(self.train)} training and {len(self.test)} test pictures, "
            f"manifest {self.fingerprint[:12]}"
        )


def build_catalog(
    name: str,
    classes: Sequence[str],
    train: tuple[Sequence[str], Sequence[int] | np.ndarray, Store],
    test: tuple[Sequence[str], Sequence[int] | np.ndarray, Store],
    *,
    source: str,
    notices: Sequence[str] = (),
) -> Catalog:
    """A catalog from (names, labels, store) of both splits, names sorted; computes the fingerprint."""
    splits = Pictures(*train), Pictures(*test)
    total = hashlib.sha256("\0".join(classes).encode())
    for split in splits:
        if len(split) and not 0 <= split.labels.min() <= split.labels.max() < len(classes):
            raise ValueError("a label is outside the classes")
        total.update(split.manifest())
    if len(np.unique(splits[0].labels)) < len(classes):
        raise ValueError("a class has no training picture")
    return Catalog(name, tuple(classes), splits[0], splits[1], source, total.hexdigest(), tuple(notices))


def open_benchmark(
    spec: str, *, data_dir: Path | None = None, train_list: Path | None = None, duplicates: bool = True
) -> Catalog:
    """The catalog of ``parquet:PATH``, ``folder:PATH`` or a registered benchmark.

    ``train_list`` names the training pictures of a benchmark that has no official split. ``duplicates``: whether to
    look for pictures of a person's own data that lie under two names.
    """
    kind, colon, path = spec.partition(":")
    if not colon or kind not in FORMS:
        return open_registered(spec, data_dir, train_list)
    if not path:
        raise UserError(f"{spec!r} names no path: write {kind}:PATH.")
    if train_list is not None:
        raise UserError(f"{kind}:PATH takes no --train-list: put the pictures into PATH/train and PATH/test.")
    from rwf.registry import load_object

    catalog: Catalog = load_object(FORMS[kind])(path)
    notice = notice_at_open(catalog.train, catalog.test, spec) if duplicates else None
    return replace(catalog, notices=(*catalog.notices, notice)) if notice else catalog


def open_registered(name: str, data_dir: Path | None = None, train_list: Path | None = None) -> Catalog:
    """A benchmark by its registered name or alias."""
    from rwf.registry import BENCHMARK_FORMS, BENCHMARKS, entry, load_object, unknown

    if name not in BENCHMARKS:
        if name and os.path.exists(os.path.expanduser(name)):
            raise UserError(f"{name!r} is a path, not a benchmark: write folder:{name} or parquet:{name}.")
        raise unknown("benchmark", name, [*BENCHMARKS, *BENCHMARK_FORMS])
    opener = load_object(entry("benchmark", BENCHMARKS, name).target)
    options: dict[str, Path] = {}
    if train_list is not None:
        if "train_list" not in inspect.signature(opener).parameters:
            raise UserError(f"{name} has a split of its own and takes no --train-list: leave it out.")
        options["train_list"] = train_list
    opened = opener(data_dir=data_dir, **options)
    if not isinstance(opened, Catalog):
        raise TypeError(f"the benchmark {name} gave {type(opened).__name__}, not a Catalog")
    return opened
