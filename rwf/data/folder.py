"""A folder of class folders, with or without train and test, as a catalog."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path, PurePosixPath

import numpy as np

from rwf.data.catalog import Catalog, build_catalog
from rwf.data.decode import SUFFIXES
from rwf.data.pictures import FileStore
from rwf.data.split import ranked_split, split_notice
from rwf.errors import UserError

TEST_NAMES = ("test", "val", "valid", "validation")  # the first that is there counts


@dataclass
class Found:
    """What one walk over class folders brought: pictures by class, and what was left aside."""

    pictures: dict[str, list[tuple[str, Path, int]]] = field(default_factory=dict)  # class -> (name, path, bytes)
    strangers: list[str] = field(default_factory=list)  # files that are no pictures


def open_folder(path: str | Path) -> Catalog:
    """The catalog of ``PATH/class/picture`` or ``PATH/{train,test}/class/picture``.

    Sub-folders of a class belong to it, links are followed, hidden files are passed over. Names are the paths
    relative to the class folders' parent in Unicode's composed form, so that a copy on another system has the
    same order.
    """
    root = Path(os.path.expanduser(path))
    if not os.path.isdir(root):
        raise UserError(f"there is no folder {str(root)!r}: give folder:PATH with one sub-folder per class.")
    parts = {entry.name.lower(): entry for entry in _entries(root) if _is_folder(entry)}
    notices: list[str] = []
    if _has_splits(parts):
        train = _walk(Path(parts["train"].path))
        tests = [name for name in TEST_NAMES if name in parts]
        if tests:
            test = _walk(Path(parts[tests[0]].path))
            if tests[0] != "test":
                notices.append(f"There is no test folder: {tests[0]}/ is the test set.")
        else:
            train, test = _split(train, notices)
    else:
        train, test = _split(_walk(root), notices)
    return _assemble(root, train, test, notices)


def open_classes(
    root: Path, *, name: str, source: str, train_list: Path | None = None, expect: str = "", pictures: int | None = None
) -> Catalog:
    """The catalog of class folders without a split of their own: split by rank, or by a published list.

    ``expect`` is a pattern the class folders' names must match (others are left aside); ``pictures`` how many there
    must be, where that is known.
    """
    found = _walk(root)
    if expect:
        found.pictures = {c: p for c, p in found.pictures.items() if re.fullmatch(expect, c)}
    if pictures is not None and _count(found) != pictures:
        raise UserError(
            f"{str(root)!r} holds {_count(found)} pictures in class folders and should hold {pictures}: pictures were "
            "removed or added; move the folder away and unpack it again."
        )
    notices: list[str] = []
    if train_list is None:
        train, test = _split(found, notices)
    else:
        train, test = _by_list(found, train_list, notices)
    catalog = _assemble(root, train, test, notices)
    return replace(catalog, name=name, source=source)


def _by_list(found: Found, path: Path, notices: list[str]) -> tuple[Found, Found]:
    """A list names the training pictures, CLASS/FILE each; all others are for the test."""
    wanted = read_list(path, {name for pictures in found.pictures.values() for name, _, _ in pictures})
    train, test = Found(strangers=found.strangers), Found()
    for name, pictures in found.pictures.items():
        train.pictures[name] = [p for p in pictures if p[0] in wanted]
        test.pictures[name] = [p for p in pictures if p[0] not in wanted]
    notices.append(
        f"The list {path.name} names the {_count(train)} training pictures; the other {_count(test)} are for the test."
    )
    return train, test


def list_lines(path: Path) -> list[str]:
    """The lines of a training list, or a sentence that it cannot be read."""
    try:
        return Path(os.path.expanduser(path)).read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(
            f"cannot read the training list {str(path)!r} ({getattr(error, 'strerror', None) or error}): give a text "
            "file with one CLASS/FILE a line."
        ) from error


def read_list(path: Path, known: Collection[str]) -> set[str]:
    """The pictures a list names, a line each: CLASS/FILE, folders before it and a number after it are passed over.

    So are the keys, dashes and lines of numbers that a list in YAML has besides.
    """
    names: set[str] = set()
    for number, line in enumerate(list_lines(path), 1):
        entry = line.strip().removeprefix("- ").strip()
        if re.fullmatch(r"|#.*|\w+:|\d+", entry):
            continue
        forms = (entry, entry.rpartition(" ")[0].strip(" ,\t"))
        tails = ("/".join(_plain(form).split("/")[-2:]) for form in forms)
        name = next((tail for tail in tails if tail in known), None)
        if name is None or name in names:
            wrong = "is not a picture of this data set" if name is None else "stands there twice"
            raise UserError(f"line {number} of {path}: {line.strip()[:100]!r} {wrong}: correct the list.")
        names.add(name)
    if not names:
        raise UserError(f"the training list {str(path)!r} names no picture: give one CLASS/FILE a line.")
    return names


def _has_splits(parts: dict[str, os.DirEntry[str]]) -> bool:
    """Whether ``train`` is a split, and not one class beside others (there is a class of trains in CIFAR-100)."""
    if "train" not in parts:
        return False
    return set(parts) <= {"train", *TEST_NAMES} or any(
        _is_folder(entry) for entry in _entries(Path(parts["train"].path))
    )


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link to itself
        return False


def _is_file(entry: os.DirEntry[str]) -> bool:
    """Not a broken link, pipe or device."""
    try:
        return entry.is_file()
    except OSError:
        return False


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted((e for e in entries if not e.name.startswith(".")), key=lambda e: e.name)
    except OSError as error:
        raise UserError(f"cannot list the folder {str(folder)!r}: {error.strerror or error}.") from error


def _walk(root: Path) -> Found:
    found = Found()
    for entry in _entries(root):
        if _is_folder(entry):
            pictures = found.pictures.setdefault(_plain(entry.name), [])
            for path, relative, size in _files(Path(entry.path), PurePosixPath(entry.name), frozenset()):
                if path.suffix.lower() in SUFFIXES:
                    pictures.append((_plain(str(relative)), path, size))
                else:
                    found.strangers.append(_plain(str(relative)))
        elif _is_file(entry):
            found.strangers.append(_plain(entry.name))
    return found


def _files(
    folder: Path, relative: PurePosixPath, above: frozenset[tuple[int, int]]
) -> Iterator[tuple[Path, PurePosixPath, int]]:
    """Every file below, links followed; ``above`` holds the folders on the way, so that a loop of links ends."""
    status = folder.stat()
    here = (status.st_dev, status.st_ino)
    if here in above:
        return
    for entry in _entries(folder):
        if _is_folder(entry):
            yield from _files(Path(entry.path), relative / entry.name, above | {here})
        elif _is_file(entry):
            yield Path(entry.path), relative / entry.name, entry.stat().st_size


def _plain(name: str) -> str:
    """Composed Unicode (macOS hands out decomposed names); bytes that are no UTF-8 become visible escapes."""
    return unicodedata.normalize("NFC", os.fsencode(name).decode("utf-8", "backslashreplace"))


def _split(found: Found, notices: list[str]) -> tuple[Found, Found]:
    """No test folder: the rank of sha256(name) inside each class decides, whatever the machine or order."""
    train, test = Found(strangers=found.strangers), Found()
    for name, pictures in found.pictures.items():
        first, second = ranked_split([p[0] for p in pictures])
        train.pictures[name] = [pictures[i] for i in first]
        test.pictures[name] = [pictures[i] for i in second]
    notices.append(split_notice(_count(train), _count(test)))
    return train, test


def _count(found: Found) -> int:
    return sum(len(pictures) for pictures in found.pictures.values())


def _assemble(root: Path, train: Found, test: Found, notices: list[str]) -> Catalog:
    classes = sorted(name for name, pictures in train.pictures.items() if pictures)
    empty = sorted(name for name, pictures in train.pictures.items() if not pictures and not test.pictures.get(name))
    untrained = sorted(name for name in test.pictures if test.pictures[name] and name not in classes)
    untested = sorted(name for name in classes if not test.pictures.get(name))
    strangers = [*train.strangers, *test.strangers]
    if not classes:
        raise UserError(
            f"there are no pictures in class folders under {str(root)!r}: it should hold one sub-folder per class "
            f"with pictures in it ({' '.join(sorted(SUFFIXES))})."
        )
    if empty:
        notices.append(_some("class folder without a picture, ignored", empty))
    if untrained:
        notices.append(_some("class with test pictures only, left out", untrained))
    if untested:
        notices.append(_some("class without a test picture, never tested", untested))
    if strangers:
        notices.append(_some("file that is no picture, ignored", strangers))
    number = {name: i for i, name in enumerate(classes)}
    splits = []
    for found in (train, test):
        rows = sorted((n, p, s, number[c]) for c, ps in found.pictures.items() if c in number for n, p, s in ps)
        if any(a[0] == b[0] for a, b in pairwise(rows)):
            raise UserError(
                f"two files under {str(root)!r} have names that differ only in their Unicode form: rename one."
            )
        sizes = np.array([row[2] for row in rows], dtype=np.int64)
        splits.append(([row[0] for row in rows], [row[3] for row in rows], FileStore([row[1] for row in rows], sizes)))
    if not splits[1][0]:
        raise UserError(
            f"there is no test picture under {str(root)!r}: add a test folder or a second picture per class."
        )
    name = root.resolve().name
    return build_catalog(name, classes, splits[0], splits[1], source=f"folder:{root.resolve()}", notices=notices)


def _some(what: str, names: list[str]) -> str:
    """``3 x file that is no picture, ignored (a.txt, b.txt, ...)``"""
    return f"{len(names)} x {what} ({', '.join(names[:3])}{', ...' if len(names) > 3 else ''})."
