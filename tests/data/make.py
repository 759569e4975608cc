"""Small worlds for the tests of this room: coloured pictures, folders of them, parquet files, catalogs in memory."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image
from torch import Tensor

from rwf.data.catalog import Catalog, build_catalog
from rwf.data.pictures import ArrayStore
from rwf.data.view import View


def pixels(number: int, height: int = 8, width: int = 8) -> np.ndarray:
    """The picture of a number, uint8 H W 3."""
    return np.random.default_rng(number).integers(0, 256, (height, width, 3), dtype=np.uint8)


def png(number: int, height: int = 8, width: int = 8) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(pixels(number, height, width)).save(buffer, "PNG")
    return buffer.getvalue()


def world(train: Sequence[int], test: Sequence[int] | None = None) -> Catalog:
    """A catalog in memory with so many pictures per class; the first pixel of a training picture is its id."""

    def split(counts: Sequence[int]) -> tuple[list[str], list[int], ArrayStore]:
        labels = [label for label, count in enumerate(counts) for _ in range(count)]
        array = np.zeros((len(labels), 3, 4, 4), dtype=np.uint8)
        array[:, 0, 0, 0] = np.arange(len(labels)) % 256
        array[:, 1, 0, 0] = np.arange(len(labels)) // 256
        return [f"{i:06d}" for i in range(len(labels))], labels, ArrayStore(array)

    classes = [f"class {label:03d}" for label in range(len(train))]
    return build_catalog("world", classes, split(train), split(test or [2] * len(train)), source="made for a test")


def number_of(picture: Tensor) -> int:
    """The id that ``world`` wrote into a picture."""
    return int(picture[0, 0, 0]) + 256 * int(picture[1, 0, 0])


def viewer() -> View:
    return View(seed=0, size=4)


def write_folder(root: Path, counts: Mapping[str, int], *, start: int = 0) -> None:
    """``root/class/0000.png`` ..., every picture different."""
    for name, count in counts.items():
        folder = root / name
        folder.mkdir(parents=True, exist_ok=True)
        for i in range(count):
            (folder / f"{i:04d}.png").write_bytes(png(start))
            start += 1


def write_parquet(
    path: Path,
    labels: Sequence[Any],
    *,
    names: Sequence[str] | Mapping[str, str] | None = None,
    paths: Sequence[str | None] | None = None,
    image: str = "image",
    label: str = "label",
    start: int = 0,
    extra: Mapping[str, Sequence[Any]] | None = None,
    data: Sequence[bytes | None] | None = None,
) -> None:
    """A file in the hub's image layout; picture i is ``png(start + i)`` unless ``data`` is given."""
    data = data if data is not None else [png(start + i) for i in range(len(labels))]
    rows = [{"bytes": d, "path": paths[i] if paths else None} for i, d in enumerate(data)]
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    table = pa.table(
        {image: pa.array(rows, kind), label: pa.array(labels)} | {k: pa.array(v) for k, v in (extra or {}).items()}
    )
    if names is not None:
        features = {image: {"_type": "Image"}, label: {"names": names, "_type": "ClassLabel"}}
        table = table.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})})
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path, row_group_size=4)
