"""split-cifar100: the official Python archive, 50,000 and 10,000 pictures of 32 x 32."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rwf.data.benchmarks.pickles import read_pickle
from rwf.data.benchmarks.place import obtain
from rwf.data.benchmarks.sources import CIFAR100, Source
from rwf.data.catalog import Catalog, build_catalog
from rwf.data.decode import read_bytes
from rwf.data.pictures import ArrayStore
from rwf.errors import UserError

SIDE = 32


def looks(folder: Path) -> bool:
    return all((folder / name).is_file() for name in ("train", "test", "meta"))


def open_cifar100(*, data_dir: Path | None = None, source: Source = CIFAR100) -> Catalog:
    """The fine classes in their official numbering, which is that of the alphabet. An id is the official row."""
    folder = obtain(source, data_dir, looks)
    meta = _read(folder, "meta", source)
    classes = [name.decode() for name in _column(meta, b"fine_label_names", folder / "meta")]
    splits = []
    for split in ("train", "test"):
        content = _read(folder, split, source)
        labels = np.array(_column(content, b"fine_labels", folder / split), dtype=np.int64)
        files = [name.decode("utf-8", "replace") for name in _column(content, b"filenames", folder / split)]
        pixels = np.asarray(_column(content, b"data", folder / split))
        if pixels.dtype != np.uint8 or pixels.shape != (len(labels), 3 * SIDE * SIDE) or len(files) != len(labels):
            raise UserError(
                f"{folder / split} does not hold {len(labels)} pictures of {SIDE} x {SIDE}: fetch it again."
            )
        rows = pixels.reshape(-1, 3, SIDE, SIDE).transpose(0, 2, 3, 1)  # N H W 3: the order resizing reads fastest
        store = ArrayStore(torch.from_numpy(np.ascontiguousarray(rows)).permute(0, 3, 1, 2))  # N 3 H W
        splits.append(([f"{i:05d}/{name}" for i, name in enumerate(files)], labels, store))
    if len(classes) != source.classes or (source.train and len(splits[0][1]) != source.train):
        raise UserError(f"{folder} does not hold {source.classes} classes and {source.train} pictures: fetch it again.")
    return build_catalog("split-cifar100", classes, splits[0], splits[1], source=source.url)


def _read(folder: Path, name: str, source: Source) -> dict[bytes, Any]:
    """One of the three files, its hash checked before a byte of it is interpreted."""
    data = read_bytes(folder / name)
    found = hashlib.md5(data, usedforsecurity=False).hexdigest()
    if found != source.files[name]:
        raise UserError(
            f"{folder / name} is not the published file (md5 {found} instead of {source.files[name]}): move "
            f"{folder} away and start again."
        )
    content = read_pickle(data, str(folder / name))
    if not isinstance(content, dict):
        raise UserError(f"{folder / name} holds no table: fetch it again.")
    return content


def _column(content: dict[bytes, Any], name: bytes, path: Path) -> Any:
    if name not in content:
        raise UserError(f"{path} has no {name.decode()}: fetch it again.")
    return content[name]
