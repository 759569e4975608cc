"""`rwf run ... --dry-run`: how many pictures a run will send through its backbone, before it sends any."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import torch
from rich.table import Table
from torch import Tensor

from rwf.data.batch import Batch, Boundary
from rwf.data.catalog import Catalog, open_benchmark
from rwf.data.pictures import Pictures
from rwf.errors import UserError
from rwf.options import RunOptions
from rwf.run.build import make_method
from rwf.run.forwards import Forwards, no_forwards, totals
from rwf.run.start import learner_config
from rwf.run.step import learn, tell
from rwf.run.world import World
from rwf.seeds import generator
from rwf.vit.weights import load_backbone

WIDTH, SIDE = 64, 8
"""Of the ViT that stands for the backbone: as deep, but narrow, and its pictures have one patch."""
PLAIN: dict[str, Any] = {"device": "cpu", "precision": "fp32", "workers": 0, "feature_cache": "off"}
"""What of the run's options changes no count."""
FEW = {"random_features": 32}
"""Options on which no count hangs, but time does."""
MEANINGS = {
    "learning": "to learn the stream",
    "online": "to ask before learning, where learning does not say it",
    "boundaries": "second looks where a task begins",
    "evaluations": "test pictures at the end of each task",
    "anytime": "test pictures on the way",
    "total": "in all",
    "of_frozen_network": "of these, asked of a network without anything trained: what a feature cache can keep",
}


@dataclass(frozen=True)
class Forecast:
    """What a run will cost. ``forwards`` has the keys of ``forwards`` in ``result.json``."""

    batches: int
    pictures: int
    test_pictures: int
    """Test pictures asked about, evaluations and anytime points together."""
    forwards: dict[str, int]
    proviso: str
    """What of this hangs on numbers that only the run itself computes; "" if nothing."""

    def table(self) -> Table:
        table = Table(show_header=False, box=None, pad_edge=False)
        table.add_row("batches", f"{self.batches:,}", "")
        table.add_row("pictures learned", f"{self.pictures:,}", "each once")
        table.add_row("pictures tested", f"{self.test_pictures:,}", "all points in time together")
        for key, count in self.forwards.items():
            table.add_row(f"forwards {key.replace('_', ' ')}", f"{count:,}", MEANINGS[key])
        return table


def forecast(method: str, method_options: dict[str, Any], options: RunOptions) -> Forecast:
    """The run in miniature: the same stream, order and code on a small network, test pictures counted and not asked."""
    catalog = open_benchmark(options.benchmark, data_dir=options.data_dir, train_list=options.train_list)
    backbone = load_backbone(options.backbone, image_size=options.image_size, pretrained=False)
    real = -(-backbone.width // 32) * 32  # random ViTs have heads of 32
    world, tiny = None, _miniature(catalog, method_options)
    if "random_features" in {own.name for own in fields(make_method(method, method_options))}:
        method_options = method_options | FEW
    for width in (WIDTH, real):  # some options need the real width
        small = replace(options, backbone=f"random:{width}x{backbone.depth}", image_size=SIDE, **PLAIN)
        try:
            world = World(learner_config(method, method_options, small), small, catalog=tiny)
        except UserError:
            if width == real:
                raise
        else:
            break
    assert world is not None
    return Count(world).run()


def _miniature(catalog: Catalog, options: Mapping[str, Any]) -> Catalog:
    """The same names and labels, with tiny pictures; the real ones where a memory is bounded in bytes."""
    if options.get("memory_limit") is not None:
        return catalog
    train, test = (Pictures(part.names, part.labels, Noise(len(part))) for part in (catalog.train, catalog.test))
    return replace(catalog, train=train, test=test)


class Noise:
    """A store of tiny pictures, each drawn from its number."""

    def __init__(self, count: int) -> None:
        self.sizes = np.full(count, 3 * SIDE * SIDE, dtype=np.int64)

    def picture(self, i: int, name: str) -> Tensor:
        return torch.randint(256, (3, SIDE, SIDE), dtype=torch.uint8, generator=generator(i, "forecast"))

    def digest(self, i: int) -> bytes:
        return i.to_bytes(32, "little")


class Count:
    """A run through the stream in which test pictures are not asked about but counted."""

    def __init__(self, world: World) -> None:
        self.world, self.learner = world, world.learner
        self.forwards, self.tally = Forwards(world.learner), no_forwards()
        self.step = self.tested = 0
        self.met: dict[str, None] = {}

    def run(self) -> Forecast:
        learner, stream = self.learner, self.world.stream
        self.forwards.start()
        for item in stream.items():
            mark = self.forwards.mark()
            if isinstance(item, Boundary):
                tell(learner, item)
                self.forwards.charge(self.tally, "boundaries", mark)
            else:
                self._learn(item)
        self.forwards.stop()
        proviso = learner.forwards_proviso
        return Forecast(self.step, len(stream.plan.ids), self.tested, totals(self.tally), proviso)

    def _learn(self, batch: Batch) -> None:
        one = next(batch.split(1))
        if not self.learner.answers_while_learning:
            self._times("online", len(batch), lambda: self.learner.scores(one.view()))
        self._times("learning", 1, lambda: learn(self.learner, batch, self.world.options.seed, self.step))
        self.met |= dict.fromkeys(map(str, batch.labels))
        self.step += 1
        plan, stream = self.world.plan, self.world.stream
        for phase, due, ids in (
            ("anytime", plan.anytime, stream.anytime_ids),
            ("evaluations", plan.evaluations, stream.all_test_ids),
        ):
            if self.step in due:
                count = len(ids(self.met))
                self._times(phase, 1, self.learner.prepare)
                self._times(phase, count, lambda: self.learner.predict(one))
                self.tested += count

    def _times(self, phase: str, times: int, act: Callable[[], object]) -> None:
        """What is done once here is done so many times in the run."""
        once, mark = no_forwards(), self.forwards.mark()
        act()
        self.forwards.charge(once, phase, mark)
        for key, count in once.items():
            self.tally[key] += times * count
