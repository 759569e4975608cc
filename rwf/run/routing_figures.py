"""What routing does, in a few figures after each task: how sharp it is, what prompts hold, how classes differ in it."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from rwf.data.catalog import Catalog
from rwf.files import make_folder, write_json
from rwf.run.maps import FOLDER, routing_of
from rwf.run.world import World
from rwf.vit.routed import Watched
from rwf.vit.routing import Routing

CLASSES, EACH = 20, 4


class RoutingFigures:
    """An observer for the loop: before the stream and at each evaluation a small file in the run's folder.

    It looks at ``EACH`` test pictures of ``CLASSES`` classes. A resumed run writes again, with the same numbers, what
    came after its checkpoint. Learners without routing leave no file.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder / FOLDER

    def __call__(self, world: World, evaluations: int) -> None:
        routing = routing_of(world.learner)
        if routing is None or not len(routing.routed):
            return
        ids, classes = pictures_by_class(world.catalog)
        images = [world.catalog.test.picture(i) for i in ids]
        x = world.learner.viewer(images, ids, [0] * len(ids), "test")  # P 3 S S
        make_folder(self.folder)
        write_json(self.folder / f"figures-{evaluations:03d}.json", figures(world, routing, x, classes))


@torch.no_grad()
def figures(world: World, routing: Routing, x: Tensor, classes: Tensor) -> dict[str, float | None]:
    """Means over pictures, prompts and routed blocks; docs/experiments.md says what each is."""
    learner, seen = world.learner, Seen(routing)
    with learner.autocast():
        learner.vit.features(learner.cast(x), plug=seen)
    maps = [a.double().cpu() for a in seen.maps.values()]  # P m L each
    prompts = [p.double().cpu() for p in seen.retrieved.values()]  # P m d each
    distances = sum(between_pictures(a) for a in maps) / len(maps)  # P P
    return {
        "entropy": mean([entropy(a).mean() for a in maps]),
        "prompt_distance": mean([among_prompts(a).mean() for a in maps]),
        "effective_rank": mean([effective_rank(p).mean() for p in prompts]),
        **class_figures(torch.as_tensor(distances), classes),
    }


class Seen(Watched):
    """A routing whose maps and prompts are kept."""

    def __init__(self, routing: Routing) -> None:
        super().__init__(routing)
        self.retrieved: dict[int, Tensor] = {}

    def tokens(self, block: int, z: Tensor) -> Tensor | None:
        if block in self.routing.routed:
            self.retrieved[block] = self.routing.prompts(block, z).detach()
        return super().tokens(block, z)


def entropy(a: Tensor) -> Tensor:
    """Of each prompt's distribution, as a share of log L: 1 is the mean token, 0 one token.  # P m L -> P m"""
    return torch.special.entr(a).sum(-1) / math.log(a.shape[-1])


def among_prompts(a: Tensor) -> Tensor:
    """Mean total variation between a prompt's distribution and the mean of all: 0 if all are equal.  # P m L -> P"""
    return (a - a.mean(1, keepdim=True)).abs().sum(-1).mean(-1) / 2


def effective_rank(p: Tensor) -> Tensor:
    """exp of the entropy of the singular values' shares: 1 if all prompts are multiples of one.  # P m d -> P"""
    values = torch.linalg.svdvals(p)
    return torch.special.entr(values / values.sum(-1, keepdim=True)).sum(-1).exp()


def between_pictures(a: Tensor) -> Tensor:
    """Total variation between two pictures' maps, mean over prompts.  # P m L -> P P"""
    return torch.cdist(a.flatten(1), a.flatten(1), p=1) / (2 * a.shape[1])


def class_figures(distances: Tensor, classes: Tensor) -> dict[str, float | None]:
    """How far apart pictures of one class and of two are, and how often the nearest other picture is of one's own."""
    same = classes[:, None] == classes  # P P
    other = ~torch.eye(len(classes), dtype=torch.bool)
    own, strange = distances[same & other], distances[~same]
    if not len(own) or not len(strange):
        return {"within_classes": None, "between_classes": None, "class_ratio": None, "nearest_own": None}
    nearest = distances.masked_fill(~other, math.inf).argmin(1)
    within, between = float(own.mean()), float(strange.mean())
    return {
        "within_classes": within,
        "between_classes": between,
        "class_ratio": between / within if within else None,
        "nearest_own": 100.0 * float((classes[nearest] == classes).double().mean()),
    }


def pictures_by_class(catalog: Catalog) -> tuple[list[int], Tensor]:
    """Ids and classes of a few test pictures of classes evenly spaced over the catalog."""
    count = min(CLASSES, len(catalog.classes))
    ids: list[int] = []
    for label in np.linspace(0, len(catalog.classes) - 1, count).round().astype(int).tolist():
        mine = np.flatnonzero(catalog.test.labels == label)
        ids += mine[np.unique(np.linspace(0, len(mine) - 1, EACH).round().astype(int))].tolist() if len(mine) else []
    return ids, torch.as_tensor(catalog.test.labels[ids])


def mean(values: list[Tensor]) -> float:
    return float(torch.stack(values).mean())
