"""Parquet files in the hub's image layout (image column with bytes, integer label) as a catalog."""

from __future__ import annotations

import glob
import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from rwf.data.catalog import Catalog, build_catalog
from rwf.data.rows import RowStore, open_rows, reading
from rwf.data.split import ranked_split, split_notice
from rwf.errors import UserError

IMAGE_NAMES, LABEL_NAMES = ("image", "img"), ("fine_label", "label", "labels")
SPLITS = {"train": "train", "test": "test", "validation": "validation", "valid": "validation", "val": "validation"}
SHARD = re.compile(r"-(\d+)-of-(\d+)")


@dataclass
class Table:
    """One split as it lies in its files: names may repeat or be missing, labels are not yet renumbered."""

    labels: np.ndarray  # of int64, or of str
    names: list[str]
    rows: RowStore
    classes: list[str] | None  # by label number, if the file names them


def open_parquet(path: str | Path) -> Catalog:
    """The catalog of a file, a pattern or a folder (also its ``data`` sub-folder) of parquet files."""
    files = _find(str(path))
    notices: list[str] = []
    train = _read(files["train"])
    if "test" in files or "validation" in files:
        test = _read(files.get("test") or files["validation"])
        if "validation" in files and ("test" not in files or _unlabelled(test)):
            test = _read(files["validation"])
            notices.append("There is no test file with labels: the validation file is the test set.")
        if train.classes != test.classes:
            raise UserError(
                f"training and test files under {str(path)!r} name different classes: they are not one set."
            )
    else:
        train, test = _split(train)
        notices.append(split_notice(len(train.labels), len(test.labels)))
    return _assemble(Path(os.path.expanduser(path)), train, test, notices)


def _unlabelled(table: Table) -> bool:
    """Test sets of competitions come with -1 for every label."""
    return table.labels.dtype == np.int64 and bool((table.labels < 0).any())


def _find(path: str) -> dict[str, list[Path]]:
    """The files of each split, shards in order."""
    root = Path(os.path.expanduser(path))
    if os.path.isdir(root):
        found = sorted(
            p for p in root.rglob("*.parquet") if not any(x.startswith(".") for x in p.relative_to(root).parts)
        )
    elif os.path.isfile(root):
        found = [root]
    else:
        found = sorted(Path(p) for p in glob.glob(str(root)))
    if not found:
        raise UserError(f"there is no parquet file at {path!r}: give parquet:PATH, a folder with train*.parquet.")
    if len(found) == 1:
        if found[0] != root:  # who names the file itself may mean one shard
            _whole(found)
        return {"train": found}  # one file is all there is, whatever its name
    splits: dict[str, list[Path]] = {}
    for file in found:
        split = _split_name(file)
        if split:
            splits.setdefault(split, []).append(file)
    if "train" not in splits:
        raise UserError(f"under {path!r} there is no train*.parquet: rename the training files.")
    for shards in splits.values():
        _whole(shards)
    return splits


def _split_name(file: Path) -> str | None:
    """``train-00000-of-00002.parquet`` and ``train/0000.parquet`` both say train."""
    word = re.split(r"[-_.]", file.stem.lower())[0]
    return SPLITS.get(word) or SPLITS.get(file.parent.name.lower())


def _whole(shards: list[Path]) -> None:
    """All shards of one set, none missing."""
    folders = {shard.parent for shard in shards}
    if len(folders) > 1:
        some = ", ".join(sorted(repr(str(f)) for f in folders)[:3])
        raise UserError(f"there are parquet files of several sets in {some}: name one of these folders.")
    numbers = [tuple(map(int, match.groups())) for shard in shards if (match := SHARD.search(shard.stem))]
    if numbers and (len(numbers), sorted(numbers)) != (len(shards), [(i, numbers[0][1]) for i in range(numbers[0][1])]):
        raise UserError(
            f"of the files {SHARD.sub('-*', shards[0].name)} in {str(shards[0].parent)!r} there are {len(shards)}, "
            f"but their names say {numbers[0][1]}: fetch the missing ones or remove the others."
        )


def _read(files: list[Path]) -> Table:
    labels: list[np.ndarray] = []
    names: list[str | None] = []
    classes: list[list[str] | None] = []
    images: list[str] = []
    for file in files:
        with reading(file) as parquet:
            schema = parquet.schema_arrow
            images.append(_image_column(schema, file))
            label = _label_column(schema, file)
            classes.append(_class_names(schema, label))
            labels.append(_labels(parquet.read(columns=[label]).column(0), label, file))
            kind = schema.field(images[-1]).type
            has_paths = pa.types.is_struct(kind) and _has(kind, "path") and _is_text(kind.field("path").type)
            paths = parquet.read(columns=[f"{images[-1]}.path"]).column(0).to_pylist() if has_paths else []
            names += [row and row["path"] for row in paths] if has_paths else [None] * parquet.metadata.num_rows
    if len(set(images)) > 1:
        raise UserError(
            f"the files {files[0].name} ... keep their pictures in different columns ({', '.join(images)})."
        )
    if any(names_of != classes[0] for names_of in classes):
        raise UserError(f"the files {files[0].name} ... name different classes: they are not one set.")
    rows = open_rows(files, images[0])
    if not sum(map(len, labels)) == len(names) == len(rows.sizes):
        raise UserError(f"the columns of {files[0].name} have different lengths: the file is damaged, fetch it again.")
    paths_given = [name for name in names if name]
    if len(set(paths_given)) < len(names):  # no usable names: the order counts
        paths_given = [f"row {i:0{len(str(len(names)))}d}" for i in range(len(names))]
    return Table(np.concatenate(labels), paths_given, rows, classes[0])


def _image_column(schema: pa.Schema, file: Path) -> str:
    def holds_bytes(kind: pa.DataType) -> bool:
        if pa.types.is_struct(kind):
            return _has(kind, "bytes")
        return pa.types.is_binary(kind) or pa.types.is_large_binary(kind)

    found = [field.name for field in schema if holds_bytes(field.type)]
    return _choose(found, IMAGE_NAMES, "image column (struct of bytes and path)", schema, file)


def _label_column(schema: pa.Schema, file: Path) -> str:
    found = [field.name for field in schema if pa.types.is_integer(field.type)]
    found = found or [f.name for f in schema if f.name in LABEL_NAMES and _is_text(f.type)]
    return _choose(found, LABEL_NAMES, "label column (integers)", schema, file)


def _choose(found: list[str], preferred: tuple[str, ...], what: str, schema: pa.Schema, file: Path) -> str:
    for name in preferred:
        if name in found:
            return name
    if len(found) == 1:
        return found[0]
    many = f"several that could be the {what}: {', '.join(found)}" if found else f"no {what}"
    raise UserError(
        f"{file.name} has {many}. Its columns are {', '.join(schema.names)}; rename the right one to {preferred[0]!r}."
    )


def _has(kind: pa.StructType, name: str) -> bool:
    return kind.get_field_index(name) >= 0


def _is_text(kind: pa.DataType) -> bool:
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


def _class_names(schema: pa.Schema, label: str) -> list[str] | None:
    """The names in the hub's metadata, made unique (ImageNet has two cranes)."""
    try:
        info = json.loads((schema.metadata or {}).get(b"huggingface", b"{}"))
        names: Any = info["info"]["features"][label]["names"]
        if isinstance(names, dict):  # an older form: number -> name
            names = [names[key] for key in sorted(names, key=int)]
        names = [str(name).encode("utf-8", "backslashreplace").decode() for name in names]
    except (ValueError, KeyError, TypeError):
        return None
    return [f"{name} ({i})" if names.count(name) > 1 else name for i, name in enumerate(names)]


def _labels(column: pa.ChunkedArray, name: str, file: Path) -> np.ndarray:
    if column.null_count:
        raise UserError(f"{file.name} has {column.null_count} rows without {name}: remove them.")
    if pa.types.is_integer(column.type):
        return column.cast(pa.int64()).to_numpy()
    return np.array(column.cast(pa.string()).to_pylist(), dtype=object)


def _split(table: Table) -> tuple[Table, Table]:
    first: list[int] = []
    for label in np.unique(table.labels).tolist():
        ids = np.flatnonzero(table.labels == label)
        first += ids[ranked_split([table.names[i] for i in ids])[0]].tolist()
    mask = np.zeros(len(table.labels), dtype=bool)
    mask[first] = True
    parts = [_take(table, np.flatnonzero(side)) for side in (mask, ~mask)]
    return parts[0], parts[1]


def _take(table: Table, rows: np.ndarray) -> Table:
    return Table(table.labels[rows], [table.names[i] for i in rows], table.rows.take(rows), table.classes)


def _assemble(path: Path, train: Table, test: Table, notices: list[str]) -> Catalog:
    """Renumber the classes that have training pictures, sort by name."""
    if not len(train.labels) or not len(test.labels):
        raise UserError(f"the {'test' if len(train.labels) else 'training'} set in {str(path)!r} has no rows.")
    for kind, table in (("training", train), ("test", test)):
        if _unlabelled(table):
            raise UserError(
                f"the {kind} set in {str(path)!r} has negative labels, which stand for unknown: remove these rows."
            )
    present = np.unique(train.labels).tolist()
    if train.classes is not None:
        if present and max(present) >= len(train.classes):
            raise UserError(f"{str(path)!r} has the label {max(present)}, but names only {len(train.classes)} classes.")
        if len(present) < len(train.classes):
            notices.append(f"{len(train.classes) - len(present)} x class without a training picture, left out.")
    classes = [train.classes[label] if train.classes else str(label) for label in present]
    known = np.isin(test.labels, present)
    if not known.all():
        notices.append(f"{int((~known).sum())} x test picture of a class without training pictures, left out.")
        test = _take(test, np.flatnonzero(known))
        if not known.any():
            raise UserError(f"in {str(path)!r} no test picture is of a class with training pictures: are they one set?")
    untested = len(present) - len(np.unique(test.labels))
    if untested:
        notices.append(f"{untested} x class without a test picture, never tested.")
    number = {label: i for i, label in enumerate(present)}
    splits = []
    for table in (train, test):
        rank = np.array(sorted(range(len(table.names)), key=table.names.__getitem__), dtype=np.int64)
        labels = np.array([number[label] for label in table.labels.tolist()], dtype=np.int64)
        splits.append(([table.names[i] for i in rank], labels[rank], table.rows.take(rank)))
    return build_catalog(
        path.resolve().name, classes, splits[0], splits[1], source=f"parquet:{path.resolve()}", notices=notices
    )
