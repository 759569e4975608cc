"""From options to the things a run is made of: catalog, stream, learner; and what is known about the machine."""

from __future__ import annotations

import platform
from dataclasses import replace
from importlib.metadata import version
from typing import Any

import torch

from rwf import __version__
from rwf.data.catalog import Catalog, open_benchmark
from rwf.data.detail import with_detail
from rwf.data.orders import WITH_TASKS, Blur
from rwf.data.stream import Stream, make_stream
from rwf.errors import UserError
from rwf.options import RunOptions
from rwf.parts.learner import Learner
from rwf.run.build import LearnerConfig, make_learner
from rwf.run.plan import Plan
from rwf.run.step import LateStream

PACKAGES = ("torch", "torchvision", "timm", "numpy", "pillow", "safetensors", "pyarrow")


class World:
    """What one run works on."""

    def __init__(self, config: LearnerConfig, options: RunOptions) -> None:
        steady(options.threads)
        self.options = options
        self.catalog: Catalog = open_benchmark(
            options.benchmark, data_dir=options.data_dir, train_list=options.train_list
        )
        config = replace(config, class_count=len(self.catalog.classes), task_count=options.tasks)
        late = LateStream()
        told = late.told(len(self.catalog.classes), options.tasks)
        self.learner: Learner = make_learner(config, device=pick_device(options.device), told=told)
        order = self.learner.stream_order or options.order
        if order not in WITH_TASKS and self.learner.needs & {"boundaries", "task_classes"}:
            raise UserError(
                f"{config.method} with these options needs task boundaries, which a stream in order {order} does not "
                "have: choose order split, or a mask without tasks (batch, window, seen)."
            )
        if options.detail is not None:
            self.catalog = with_detail(self.catalog, options.detail)
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
        )
        late.open(self.stream, self.learner)
        self.plan = Plan(self.stream, options.anytime)
        self.title = f"{config.method} on {options.benchmark}, seed {options.seed}"

    def notices(self) -> list[str]:
        """Sentences about what was decided on the way, for the person who started the run."""
        return self.stream.notices

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
        }


def steady(threads: int | None) -> None:
    """The settings under which the same run gives the same bits."""
    if threads is not None:
        if threads < 1:
            raise UserError(f"threads is {threads}; give 1 or more.")
        torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(True)


def pick_device(name: str) -> str:
    """``auto`` takes an accelerator where there is one."""
    if name == "auto":
        return str(torch.accelerator.current_accelerator()) if torch.accelerator.is_available() else "cpu"
    try:
        torch.empty(0, device=name)
    except (RuntimeError, AssertionError) as error:
        raise UserError(f"the device {name!r} cannot be used here ({str(error).splitlines()[0]}): try cpu.") from error
    return name
