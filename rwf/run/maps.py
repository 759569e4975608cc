"""Routing maps of a run: where the queries of each routed block look on a few fixed test pictures, task after task."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rwf.data.catalog import Catalog
from rwf.files import make_folder, replacing
from rwf.parts.learner import Learner
from rwf.run.world import World
from rwf.vit.forward import ViT
from rwf.vit.routed import Watched
from rwf.vit.routing import Routing

FOLDER = "routing"
PICTURES = "pictures.npz"


class RoutingMaps:
    """An observer for the loop that keeps A of some test pictures: one file before the stream, one an evaluation.

    They are files of their own, not a part of the checkpoint: a resumed run writes again, with the same bits, those
    that came after the checkpoint. Learners without routing leave no file.
    """

    def __init__(self, folder: Path, count: int = 6) -> None:
        self.folder, self.count = folder / FOLDER, count

    def __call__(self, world: World, evaluations: int) -> None:
        learner = world.learner
        if routing_of(learner) is None:
            return
        ids = some_test_pictures(world.catalog, world.stream.classes, self.count)
        pictures = [world.catalog.test.picture(i) for i in ids]
        x = learner.viewer(pictures, ids, [0] * len(ids), "test")  # P 3 S S
        make_folder(self.folder)
        save_arrays(
            self.folder / PICTURES,
            ids=np.array(ids),
            pixels=pixels(x, learner.vit),
            prefix=np.array(learner.vit.prefix_tokens),
            patches=np.array(learner.vit.patches),
        )
        maps = {f"block {block}": a.numpy() for block, a in routing_maps(learner, x).items()}
        save_arrays(self.folder / f"{evaluations:03d}.npz", **maps)


def routing_of(learner: Learner) -> Routing | None:
    """The routing of a learner, if it routes."""
    plug = getattr(learner, "plug", None)
    return plug if isinstance(plug, Routing) else None


@torch.no_grad()
def routing_maps(learner: Learner, x: Tensor) -> dict[int, Tensor]:
    """A by routed block: for each picture and query a distribution over the tokens.  # B 3 P P -> B m L"""
    routing = routing_of(learner)
    if routing is None:
        return {}
    watched = Watched(routing)
    with learner.autocast():
        learner.vit.features(learner.cast(x), plug=watched)
    return {block: a.to("cpu", learner.vit_dtype) for block, a in watched.maps.items()}


def some_test_pictures(catalog: Catalog, arriving: list[str], count: int) -> list[int]:
    """Ids of one test picture of each of ``count`` classes, evenly spaced over their arrival, first and last included.

    The n-th of them is about the n-th ``count``-th of its class's pictures, because catalogs often keep kinds in turn.
    """
    count = min(count, len(arriving))
    places = np.linspace(0, len(arriving) - 1, count).round().astype(int)
    ids = []
    for n, place in enumerate(places.tolist()):
        mine = np.flatnonzero(catalog.test.labels == catalog.classes.index(arriving[place]))
        if len(mine):
            ids.append(int(mine[n * len(mine) // count]))
    return ids


def pixels(x: Tensor, vit: ViT) -> np.ndarray:
    """Network input as it looks: normalisation taken back.  # P 3 S S"""
    if vit.mean is not None and vit.std is not None:
        mean, std = (torch.tensor(v).view(3, 1, 1) for v in (vit.mean, vit.std))
        x = x * std + mean
    return (255 * x).round().clamp(0, 255).to(torch.uint8).numpy()


def save_arrays(path: Path, **arrays: Any) -> None:
    """A compressed npz file, whole or not at all."""
    with replacing(path) as temporary, open(temporary, "wb") as file:
        np.savez_compressed(file, **arrays)
