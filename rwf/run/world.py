"""From options to the things a run is made of: catalog, stream, learner; and what is known about the machine."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rwf import __version__
from rwf.data.catalog import Catalog, open_benchmark
from rwf.data.detail import with_detail
from rwf.data.orders import WITH_TASKS, Blur
from rwf.data.rows import cache_folder
from rwf.data.share import with_test_share
from rwf.data.stream import Stream, make_stream
from rwf.data.validation import validation_catalog
from rwf.errors import UserError
from rwf.options import RunOptions
from rwf.parts.learner import Learner
from rwf.run.allocator import keep_freed_memory
from rwf.run.build import LearnerConfig, make_learner
from rwf.run.plan import Plan
from rwf.run.step import LateStream
from rwf.vit.feature_cache import Frozen, Shards

GROUP = 64
"""Test pictures of one class that go through a frozen network together."""
PACKAGES = ("torch", "torchvision", "timm", "numpy", "pillow", "safetensors", "pyarrow")


class World:
    """What one run works on; on another catalog than the benchmark's if one is given."""

    def __init__(self, config: LearnerConfig, options: RunOptions, *, catalog: Catalog | None = None) -> None:
        steady(options.threads)
        self.options = options
        whole = catalog or open_benchmark(options.benchmark, data_dir=options.data_dir, train_list=options.train_list)
        config = replace(config, class_count=len(whole.classes), task_count=options.tasks)
        late = LateStream()
        told = late.told(len(whole.classes), options.tasks)  # also where only the first tasks are learned
        self.catalog, options = first_tasks(whole, options) if options.validation else (whole, options)
        self.learner: Learner = make_learner(config, device=pick_device(options.device), told=told)
        order = self.learner.stream_order or options.order
        if order not in WITH_TASKS and self.learner.needs & {"boundaries", "task_classes"}:
            raise UserError(
                f"{config.method} with these options needs task boundaries, which a stream in order {order} does not "
                "have: choose order split, or a mask without tasks (batch, window, seen)."
            )
        if options.detail is not None:
            self.catalog = with_detail(self.catalog, options.detail)
        if options.test_fraction < 1:
            self.catalog = with_test_share(self.catalog, options.test_fraction)
        self.stream: Stream = make_stream(
            self.catalog,
            viewer=self.learner.viewer,
            tasks=options.tasks,
            order=order,
            class_order=options.class_order,
            train_fraction=options.train_fraction,
            batch_size=options.batch_size,
            seed=options.seed,
            on_bad_image=options.on_bad_image,
            blur=Blur(options.blurry_n, options.blurry_m, options.drift_width),
            imbalance=options.imbalance,
            workers=options.workers,
        )
        late.open(self.stream, self.learner)
        shards = open_shards(options, self.learner.device.type)
        self.frozen = Frozen(self.learner.vit, shards, TestGroups(self.stream))
        self.learner.vit.frozen = self.frozen
        self.plan = Plan(self.stream, options.anytime)
        self.title = f"{config.method} on {options.benchmark}, seed {options.seed}"

    def notices(self) -> list[str]:
        """Sentences about what was decided on the way, for the person who started the run."""
        return [f"{self.catalog.summary()}.", *self.stream.notices]

    def afterwards(self) -> list[str]:
        """Sentences about what went wrong on the way and changed no result."""
        shards, said = self.frozen.shards, []
        if shards is not None and shards.dropped:
            said.append(f"{shards.dropped} damaged files of the feature cache were dropped and computed again.")
        if shards is not None and shards.trouble:
            said.append(shards.trouble)
        return said

    def environment(self) -> dict[str, Any]:
        """What the figures of this run depend on, besides its configuration."""
        return {
            "python": platform.python_version(),
            "platform": platform.platform(),
            "packages": {"rwf": __version__} | {name: version(name) for name in PACKAGES},
            "threads": torch.get_num_threads(),
            "device": str(self.learner.device),
            "deterministic": torch.are_deterministic_algorithms_enabled(),
            "backbone": self.learner.vit.name,
            "backbone_hash": self.learner.vit.hash,
            "benchmark_source": self.catalog.source,
            "benchmark_fingerprint": self.catalog.fingerprint,
            "classes": len(self.catalog.classes),
            "train_pictures": len(self.catalog.train.labels),
            "test_pictures": len(self.catalog.test.labels),
            "notices": self.notices(),
        }


class TestGroups:
    """The test pictures of a class, in the order of the catalog, so many at a time."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self._of: dict[int, int] = {}
        self._ids: list[np.ndarray] = []
        labels = stream.catalog.test.labels
        for label in range(len(stream.catalog.classes)):
            mine = np.flatnonzero(labels == label)
            for start in range(0, len(mine), GROUP):
                self._of |= dict.fromkeys(mine[start : start + GROUP].tolist(), len(self._ids))
                self._ids.append(mine[start : start + GROUP])

    def __len__(self) -> int:
        return len(self._of)

    def of(self, picture: int) -> int:
        return self._of[picture]

    def views(self, group: int) -> tuple[Sequence[int], Tensor]:
        batch = self.stream.test_group(self._ids[group])
        return batch.ids, batch.view(kind="test")


def open_shards(options: RunOptions, device: str) -> Shards | None:
    """The run's feature cache."""
    folder = feature_folder(options.feature_cache, device)
    return None if folder is None else Shards(folder, int(options.feature_cache_gb * 1e9))


def feature_folder(named: str, device: str) -> Path | None:
    """Where the feature cache lies; where the option says ``auto``, RWF_FEATURE_CACHE is asked.

    On an accelerator it must be asked for: there a forward may take no longer than reading what it said.
    """
    if named == "auto":
        named = os.environ.get("RWF_FEATURE_CACHE") or ("auto" if device == "cpu" else "off")
    if named == "off":
        return None
    return cache_folder() / "features" if named == "auto" else Path(named).expanduser()


def first_tasks(catalog: Catalog, options: RunOptions) -> tuple[Catalog, RunOptions]:
    """What to choose settings on, and the options of its stream; whatever thins or orders classes is done by then."""
    chosen = validation_catalog(
        catalog,
        options.validation,
        tasks=options.tasks,
        class_order=options.class_order,
        train_fraction=options.train_fraction,
        imbalance=options.imbalance,
        seed=options.seed,
    )
    plain = replace(options, tasks=options.validation, class_order="natural", train_fraction=1.0, imbalance=1.0)
    return chosen, plain


def steady(threads: int | None) -> None:
    """The settings under which the same run gives the same bits, and gives memory back once."""
    keep_freed_memory()
    set_threads(threads)
    torch.use_deterministic_algorithms(True)


def set_threads(threads: int | None) -> None:
    """Threads of torch; its own choice for None."""
    if threads is not None:
        if threads < 1:
            raise UserError(f"threads is {threads}; give 1 or more.")
        torch.set_num_threads(threads)


def pick_device(name: str) -> str:
    """``auto`` takes an accelerator where there is one."""
    if name == "auto":
        return str(torch.accelerator.current_accelerator()) if torch.accelerator.is_available() else "cpu"
    try:
        torch.empty(0, device=name)
    except (RuntimeError, AssertionError) as error:
        raise UserError(f"the device {name!r} cannot be used here ({str(error).splitlines()[0]}): try cpu.") from error
    return name
