"""split-imagenet-r and split-imagenet-sketch: class folders named after WordNet, without an official split."""

from __future__ import annotations

import re
from pathlib import Path

from rwf.data.benchmarks.place import obtain
from rwf.data.benchmarks.sources import IMAGENET_R, IMAGENET_SKETCH, Source
from rwf.data.catalog import Catalog
from rwf.data.folder import list_lines, open_classes
from rwf.errors import UserError

WORDNET = r"n\d{8}"


def looks(folder: Path) -> bool:
    try:
        return any(re.fullmatch(WORDNET, entry.name) and entry.is_dir() for entry in folder.iterdir())
    except OSError:
        return False


def open_imagenet_r(
    *, data_dir: Path | None = None, train_list: Path | None = None, source: Source = IMAGENET_R
) -> Catalog:
    """Renditions of 200 classes of ImageNet."""
    return _open("split-imagenet-r", source, data_dir, train_list)


def open_imagenet_sketch(
    *, data_dir: Path | None = None, train_list: Path | None = None, source: Source = IMAGENET_SKETCH
) -> Catalog:
    """Sketches of the 1000 classes of ImageNet; the Split-ImageNet-S of the paper, not the ImageNet-S of LUSS."""
    return _open("split-imagenet-sketch", source, data_dir, train_list)


def _open(name: str, source: Source, data_dir: Path | None, train_list: Path | None) -> Catalog:
    if train_list is not None:
        list_lines(train_list)  # a wrong path is said before gigabytes are fetched
    folder = obtain(source, data_dir, looks)
    catalog = open_classes(
        folder, name=name, source=source.url, train_list=train_list, expect=WORDNET, pictures=source.pictures
    )
    if len(catalog.classes) != source.classes:
        raise UserError(
            f"{folder} has training pictures of {len(catalog.classes)} classes and should have {source.classes}: "
            "complete the folder or the training list."
        )
    return catalog
