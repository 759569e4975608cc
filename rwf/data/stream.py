"""The stream: an order of the training pictures as a pure function of catalog, options and seed, handed out once."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import partial

import numpy as np
import torch
from torch import Tensor

from rwf.data.ahead import Made, made_ahead
from rwf.data.batch import Batch, Boundary, Viewer
from rwf.data.catalog import Catalog
from rwf.data.decode import BadImageError
from rwf.data.guard import Guard
from rwf.data.orders import ORDERS, Blur, Plan
from rwf.data.pictures import Pictures
from rwf.data.split import arrival, long_tailed, nested_fraction, task_groups
from rwf.data.view import View
from rwf.errors import UserError
from rwf.seeds import generator

ANYTIME = 500  # test pictures at most in the anytime set
TEST_SEED = 0  # test pictures come in one order in every run


class Stream:
    """Batches by number. ``items(n)`` goes on from batch n with the same bits as if it had never stopped.

    A checkpoint has to remember the number of batches and ``guard.state()``. With ``on_bad_image="skip"`` pictures
    that cannot be read are left out of their batch and counted; a batch may then be empty.
    """

    def __init__(
        self,
        catalog: Catalog,
        plan: Plan,
        tasks: list[list[str]],
        *,
        viewer: Viewer,
        batch_size: int,
        notices: list[str],
        on_bad_image: str = "stop",
        workers: int = 0,
    ) -> None:
        self.catalog, self.plan, self.tasks, self.viewer = catalog, plan, tasks, viewer
        self.batch_size, self.notices, self.on_bad_image, self.workers = batch_size, notices, on_bad_image, workers
        self.guard = Guard(len(catalog.train), plan.ids)
        self._number = {name: i for i, name in enumerate(catalog.classes)}
        self._test_order = torch.randperm(len(catalog.test), generator=generator(TEST_SEED, "test order")).numpy()
        self._anytime = _stratified(catalog.test.labels, self._test_order, ANYTIME)

    def __len__(self) -> int:
        return len(self.plan.starts) - 1

    @property
    def classes(self) -> list[str]:
        """All classes of the stream, in the order of their arrival."""
        return [name for task in self.tasks for name in task]

    @property
    def evaluations(self) -> list[int]:
        """After how many batches an evaluation is due: at the end of each task, or T equally spaced ones."""
        return self.plan.evaluations

    def items(self, start: int = 0) -> Iterator[Boundary | Batch]:
        """From batch number ``start`` to the end; a boundary comes before the first batch of its task."""
        if not 0 <= start <= len(self):
            raise UserError(f"the stream has {len(self)} batches, it cannot go on from batch {start}.")
        numbers = range(start, len(self))
        batches = self._batches(self.catalog.train, [self._ids(number) for number in numbers], "train")
        for number in numbers:
            if number in self.plan.boundaries:
                task = self.plan.boundaries[number]
                yield Boundary(task, list(self.tasks[task]))
            ids, batch = self._ids(number), next(batches)
            if len(batch) < len(ids):
                self.guard.skip(np.setdiff1d(ids, batch.ids))
            self.guard.hand_out(batch.ids)
            if number + 1 in self.evaluations and not self.guard.certificate()["seen"]:
                raise UserError(
                    f"none of the first {self.plan.starts[number + 1]} training pictures can be read, so there is "
                    "nothing to evaluate: mend them."
                )
            yield batch  # empty if none of its pictures could be read: batches keep their numbers

    def second_look(self, task: int, size: int | None = None) -> Iterator[Batch]:
        """The training pictures of a task once more, or ahead; refused to who did not declare it, and counted."""
        member = np.isin(self.catalog.train.labels[self.plan.ids], self._labels(self.tasks[task]))
        ids = self.plan.ids[member]
        for start in range(0, len(ids), size or self.batch_size):
            batch = self._batch(self.catalog.train, ids[start : start + (size or self.batch_size)])
            self.guard.second_look(batch.ids)
            if len(batch):
                yield batch

    def test_ids(self, task: int) -> np.ndarray:
        """Positions in the test set of a task's pictures, in the fixed shuffled order."""
        return self._of_classes(self._test_order, self.tasks[task])

    def test_batches(self, classes: Collection[str], size: int) -> Iterator[Batch]:
        """The test pictures of these classes, shuffled across tasks: no batch tells its task."""
        return self._test(self.all_test_ids(classes), size)

    def anytime_batches(self, classes: Collection[str], size: int) -> Iterator[Batch]:
        """Of one fixed set of at most 500 test pictures, evenly over all classes, those of these classes."""
        return self._test(self.anytime_ids(classes), size)

    def all_test_ids(self, classes: Collection[str]) -> np.ndarray:
        """Positions in the test set of what ``test_batches`` gives."""
        return self._of_classes(self._test_order, classes)

    def anytime_ids(self, classes: Collection[str]) -> np.ndarray:
        """The same for ``anytime_batches``."""
        return self._of_classes(self._anytime, classes)

    def test_group(self, ids: np.ndarray) -> Batch:
        """These test pictures, as far as they can be read."""
        return self._batch(self.catalog.test, ids)

    @property
    def skipped_tests(self) -> int:
        """How many test pictures could not be read so far."""
        return self.guard.certificate()["skipped_tests"]

    def _ids(self, number: int) -> np.ndarray:
        return self.plan.ids[self.plan.starts[number] : self.plan.starts[number + 1]]

    def _labels(self, classes: Collection[str]) -> list[int]:
        return [self._number[name] for name in classes]

    def _of_classes(self, ids: np.ndarray, classes: Collection[str]) -> np.ndarray:
        return ids[np.isin(self.catalog.test.labels[ids], self._labels(classes))]

    def _test(self, ids: np.ndarray, size: int) -> Iterator[Batch]:
        if size < 1:
            raise UserError(f"the batch size is {size}: give at least 1.")
        parts = [ids[start : start + size] for start in range(0, len(ids), size)]
        for wanted, batch in zip(parts, self._batches(self.catalog.test, parts, "test"), strict=True):
            if len(batch) < len(wanted):
                self.guard.skip_tests(np.setdiff1d(wanted, batch.ids))
            if len(batch):
                yield batch

    def _batches(self, pictures: Pictures, parts: list[np.ndarray], kind: str) -> Iterator[Batch]:
        """A batch for each part; made by worker processes, if there are any, before it is asked for."""
        if not self.workers or len(parts) < 2 or not isinstance(self.viewer, View):
            for ids in parts:
                yield self._batch(pictures, ids)
            return
        made = made_ahead(partial(self._read, pictures), self.viewer, parts, kind, self.workers)
        for images, kept, ready in made:
            batch = self._named(pictures, images, kept)
            yield Made(batch.images, batch.labels, batch.ids, self.viewer, batch.visits, kind, ready)

    def _batch(self, pictures: Pictures, ids: np.ndarray) -> Batch:
        return self._named(pictures, *self._read(pictures, ids))

    def _named(self, pictures: Pictures, images: list[Tensor], kept: list[int]) -> Batch:
        names = [self.catalog.classes[label] for label in pictures.labels[kept].tolist()]
        return Batch(images, names, kept, self.viewer)

    def _read(self, pictures: Pictures, ids: np.ndarray) -> tuple[list[Tensor], list[int]]:
        images, kept = [], []
        for i in ids.tolist():
            try:
                images.append(pictures.picture(i))
            except BadImageError as error:
                if self.on_bad_image == "stop":
                    raise BadImageError(
                        f"{error} To leave such pictures out, now or in rwf resume: --on-bad-image skip; to find all: "
                        "rwf doctor --benchmark."
                    ) from error
            else:
                kept.append(i)
        return images, kept


def make_stream(
    catalog: Catalog,
    *,
    viewer: Viewer,
    tasks: int = 10,
    order: str = "split",
    class_order: str = "natural",
    train_fraction: float = 1.0,
    batch_size: int = 64,
    seed: int = 0,
    on_bad_image: str = "stop",
    blur: Blur | None = None,
    imbalance: float = 1.0,
    workers: int = 0,
) -> Stream:
    """The stream of a catalog. ``order``: ``split`` (tasks one after another, shuffled inside), ``sorted`` (the
    same, but class after class), ``iid`` (all shuffled), ``blurry``, ``si-blurry`` and ``drift`` (classes come and go
    as ``blur`` says). In the last four tasks remain as the groups that are evaluated. ``imbalance`` above 1 makes the
    training classes long-tailed. ``workers`` processes decode ahead, to the same bits."""
    if batch_size < 1:
        raise UserError(f"the batch size is {batch_size}: give at least 1.")
    if order not in ORDERS:
        raise UserError(f"unknown order {order!r}: there are {', '.join(ORDERS)}.")
    if on_bad_image not in ("stop", "skip"):
        raise UserError(f"on_bad_image is {on_bad_image!r}: there are stop and skip.")
    groups, notice = task_groups(arrival(len(catalog.classes), class_order, seed), tasks)
    for task, group in enumerate(groups):
        if not np.isin(catalog.test.labels, group).any():
            some = ", ".join(catalog.classes[label] for label in group[:3])
            raise UserError(
                f"task {task + 1} of {tasks} ({some}) has no test picture: add one, or ask for fewer tasks."
            )
    kept = nested_fraction(catalog.train.labels, train_fraction, seed, catalog.classes)
    share = len(kept)
    kept = long_tailed(catalog.train.labels, kept, imbalance, seed)
    labels = catalog.train.labels[kept]
    by_task = [[kept[labels == label] for label in group] for group in groups]
    plan = ORDERS[order](by_task, batch_size, seed, blur or Blur())
    names = [[catalog.classes[label] for label in group] for group in groups]
    notices = [*catalog.notices, *([notice] if notice else [])]
    if share < len(catalog.train):
        notices.append(f"{share} of {len(catalog.train)} training pictures are used (fraction {train_fraction}).")
    if len(kept) < share:
        counts = np.unique(labels, return_counts=True)[1]
        notices.append(
            f"Long-tailed classes: {len(kept)} of {share} training pictures, {counts.max()} in the largest class and "
            f"{counts.min()} in the smallest (imbalance {imbalance:g})."
        )
    return Stream(
        catalog,
        plan,
        names,
        viewer=viewer,
        batch_size=batch_size,
        notices=notices,
        on_bad_image=on_bad_image,
        workers=workers,
    )


def _stratified(labels: np.ndarray, order: np.ndarray, limit: int) -> np.ndarray:
    """The first pictures of each class in ``order``, equally many and at most ``limit`` together."""
    each = max(1, limit // max(1, len(np.unique(labels))))
    taken: dict[int, int] = {}
    chosen: list[int] = []
    for i in order.tolist():
        label = int(labels[i])
        if taken.get(label, 0) < each and len(chosen) < limit:
            taken[label] = taken.get(label, 0) + 1
            chosen.append(i)
    return np.array(chosen, dtype=np.int64)
