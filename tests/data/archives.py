"""Small archives in exactly the layout of the published ones, and sources that point at them."""

from __future__ import annotations

import hashlib
import io
import pickle
import struct
import tarfile
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from rwf.data.benchmarks.sources import CIFAR100, CUB200, IMAGENET_R, IMAGENET_SKETCH, Source
from tests.data.make import png

_Python: Any = vars(pickle)["_Pickler"]  # the one whose opcodes can be changed


class _OldPickler(_Python):
    """Writes bytes as Python 2 wrote its text: the opcodes of the published files."""

    def save_old_text(self, obj: bytes) -> None:
        self.write(b"U" + bytes([len(obj)]) + obj if len(obj) < 256 else b"T" + struct.pack("<i", len(obj)) + obj)
        self.memoize(obj)

    dispatch = dict(_Python.dispatch)
    dispatch[bytes] = save_old_text


def old_pickle(content: Any) -> bytes:
    buffer = io.BytesIO()
    _OldPickler(buffer, protocol=2).dump(content)
    return buffer.getvalue().replace(b"numpy._core.multiarray", b"numpy.core.multiarray")


def cifar_files(classes: int = 4, train: int = 3, test: int = 2) -> dict[str, bytes]:
    """The three files with so many pictures a class; a picture's first pixels say which it is."""
    files = {}
    for split, each in (("train", train), ("test", test)):
        labels = [i % classes for i in range(classes * each)]
        data = np.random.default_rng(each).integers(0, 256, (len(labels), 3072), dtype=np.uint8)
        data[:, 0], data[:, 1024], data[:, 2048] = np.arange(len(labels)), labels, 7  # the first pixel's R, G and B
        files[split] = old_pickle(
            {
                b"filenames": [f"tree_s_{i:06d}.png".encode() for i in range(len(labels))],
                b"batch_label": b"training batch 1 of 1",
                b"fine_labels": labels,
                b"coarse_labels": [0] * len(labels),
                b"data": data,
            }
        )
    names = [f"class_{i}".encode() for i in range(classes)]
    files["meta"] = old_pickle({b"fine_label_names": names, b"coarse_label_names": [b"things"]})
    return files


def class_folders(top: str, counts: Mapping[str, int], suffix: str) -> dict[str, bytes]:
    files, start = {}, 0
    for name, count in counts.items():
        for i in range(count):
            files[f"{top}/{name}/art_{i}{suffix}"] = png(start)
            start += 1
    return files


def cub_files(classes: int = 3, each: int = 4) -> dict[str, bytes]:
    """Tables and pictures; every second picture is for training."""
    names = [f"{c + 1:03d}.Bird_{c}" for c in range(classes)]
    rows = [(f"{name}/Bird_{c}_{i:04d}.jpg", c + 1, i % 2) for c, name in enumerate(names) for i in range(each)]
    lines = {
        "images.txt": [row[0] for row in rows],
        "image_class_labels.txt": [str(row[1]) for row in rows],
        "train_test_split.txt": [str(row[2]) for row in rows],
        "classes.txt": names,
    }
    files = {
        f"CUB_200_2011/{file}": "".join(f"{i} {value}\n" for i, value in enumerate(values, 1)).encode()
        for file, values in lines.items()
    }
    pictures = {f"CUB_200_2011/images/{row[0]}": png(i) for i, row in enumerate(rows)}
    return {"attributes.txt": b"1 has_bill_shape::curved\n", **files, **pictures}


def tar(files: Mapping[str, bytes], mode: str = "w:gz", extra: tuple[tarfile.TarInfo, ...] = ()) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as archive:  # type: ignore[call-overload]
        folders: set[str] = set()
        for name, data in files.items():
            for above in reversed(Path(name).parents[:-1]):
                if str(above) not in folders:
                    folders.add(str(above))
                    info = tarfile.TarInfo(str(above))
                    info.type, info.mode = tarfile.DIRTYPE, 0o755
                    archive.addfile(info)
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
        for info in extra:
            archive.addfile(info, io.BytesIO(b"\0" * info.size))
    return buffer.getvalue()


def zipped(files: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return buffer.getvalue()


def small(source: Source, data: bytes, **changes: Any) -> Source:
    """The source, with size and hashes of a small archive of the same form."""
    hashes = {name: hashlib.new(name, data).hexdigest() for name in source.hashes}
    facts: dict[str, Any] = {"size": len(data), "hashes": hashes, "unpacked": 1 << 20}
    return replace(source, **(facts | changes))


def small_cifar() -> tuple[Source, bytes]:
    files = cifar_files()
    data = tar({f"cifar-100-python/{name}": content for name, content in files.items()})
    sums = {name: hashlib.md5(content).hexdigest() for name, content in files.items()}
    return small(CIFAR100, data, files=sums, classes=4, train=12, pictures=20), data


def small_imagenet_r() -> tuple[Source, bytes]:
    files = class_folders("imagenet-r", {"n01443537": 10, "n01484850": 7, "n02007558": 5}, ".jpg")
    data = tar({"imagenet-r/README.txt": b"renditions", **files}, "w")
    return small(IMAGENET_R, data, classes=3, pictures=22), data


def small_sketch() -> tuple[Source, bytes]:
    files = class_folders("sketch", {"n01440764": 5, "n01443537": 6}, ".JPEG")
    data = zipped({"sketch/": b"", **files, "__MACOSX/sketch/._n01440764": b"x"})
    return small(IMAGENET_SKETCH, data, classes=2, pictures=11), data


def small_cub() -> tuple[Source, bytes]:
    data = tar(cub_files())
    return small(CUB200, data, classes=3, train=6, pictures=12), data


ALL = {
    "split-cifar100": small_cifar,
    "split-imagenet-r": small_imagenet_r,
    "split-imagenet-sketch": small_sketch,
    "split-cub200": small_cub,
}
