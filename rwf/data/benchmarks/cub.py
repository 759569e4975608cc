"""split-cub200: Caltech-UCSD Birds-200-2011 with its official train_test_split.txt."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from rwf.data.benchmarks.place import obtain
from rwf.data.benchmarks.sources import CUB200, Source
from rwf.data.benchmarks.unpack import safe_parts
from rwf.data.catalog import Catalog, build_catalog
from rwf.data.decode import read_bytes
from rwf.data.pictures import FileStore
from rwf.errors import UserError

TABLES = ("images.txt", "image_class_labels.txt", "train_test_split.txt", "classes.txt")


def looks(folder: Path) -> bool:
    return (folder / "images").is_dir() and all((folder / name).is_file() for name in TABLES)


def open_cub200(*, data_dir: Path | None = None, source: Source = CUB200) -> Catalog:
    """The 200 species in their official numbering, which is that of the alphabet."""
    folder = obtain(source, data_dir, looks)
    names, labels, chosen, classes = (_table(folder / name) for name in TABLES)
    species = [classes[key] for key in sorted(classes, key=int)]
    number = {key: i for i, key in enumerate(sorted(classes, key=int))}
    rows: dict[bool, list[tuple[str, int, Path, int]]] = {True: [], False: []}
    for key, name in names.items():
        if labels.get(key) not in number or chosen.get(key) not in ("0", "1"):
            raise UserError(f"the tables of {folder} do not say class and split of picture {key}: fetch them again.")
        path = folder / "images" / Path(*safe_parts(name))
        try:
            size = path.stat().st_size
        except OSError as error:
            raise UserError(f"{path} is missing ({error.strerror}): move {folder} away and unpack it again.") from error
        rows[chosen[key] == "1"].append((name, number[labels[key]], path, size))
    if (len(species), len(rows[True]), len(names)) != (source.classes, source.train, source.pictures):
        raise UserError(
            f"{folder} lists {len(species)} classes, {len(rows[True])} training pictures and {len(names)} in all, and "
            f"should list {source.classes}, {source.train} and {source.pictures}: fetch it again."
        )
    splits = []
    for part in (sorted(rows[True]), sorted(rows[False])):
        store = FileStore([row[2] for row in part], np.array([row[3] for row in part], dtype=np.int64))
        splits.append(([row[0] for row in part], [row[1] for row in part], store))
    return build_catalog("split-cub200", species, splits[0], splits[1], source=source.url)


def _table(path: Path) -> dict[str, str]:
    """A file of lines ``NUMBER VALUE``."""
    table: dict[str, str] = {}
    for number, line in enumerate(read_bytes(path).decode("utf-8", "backslashreplace").splitlines(), 1):
        key, _, value = line.strip().partition(" ")
        if not key and not value:
            continue
        if not key.isdecimal() or not value or key in table:
            raise UserError(f"line {number} of {path} is not a number and a value of its own: fetch the file again.")
        table[key] = value
    return table
