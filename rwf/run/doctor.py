"""What this machine has for a run: versions, device, disk, and whether a backbone and a benchmark can be had."""

from __future__ import annotations

import os
import platform
import shutil
import textwrap
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np
import torch

from rwf.data.benchmarks.bar import bar, size_of
from rwf.data.benchmarks.standing import LOOKS, standing
from rwf.data.catalog import Catalog, open_benchmark
from rwf.data.duplicates import duplicate_notice
from rwf.errors import UserError
from rwf.registry import BENCHMARKS
from rwf.run.world import feature_folder, pick_device
from rwf.vit.feature_cache import SUFFIX
from rwf.vit.weights import load_backbone

LITTLE_DISK = 2 << 30
TRY_ALL = 256 << 20  # bytes of pictures up to which every one is read
TRY_SOME = 1000  # of a larger set so many of each split
MISSING = "MISSING: "
PACKAGES = ("torchvision", "timm", "numpy", "pillow", "pyarrow", "safetensors")


def examine(
    *,
    backbone: str | None = None,
    benchmark: str | None = None,
    data_dir: Path | None = None,
    device: str = "auto",
    threads: int | None = None,
) -> int:
    """Prints what there is, with a hint where something is missing; 0 if all is well, otherwise 2."""
    if threads is not None:
        torch.set_num_threads(max(1, threads))
    questions: dict[str, Callable[[], list[str]]] = {
        "python": lambda: [f"{platform.python_version()} on {platform.system()} {platform.machine()}"],
        "torch": lambda: [torch.__version__],
        "packages": _packages,
        "device": lambda: [_device(device)],
        "threads": lambda: [f"{torch.get_num_threads()} of {os.cpu_count()} processors"],
        "disk": _disk,
        "features": _features,
        "backbone": lambda: _backbone(backbone),
        "benchmark": lambda: _benchmark(benchmark, data_dir),
    }
    width, missing = shutil.get_terminal_size().columns, 0
    for name, ask in questions.items():
        try:
            lines = ask()
        except UserError as error:
            lines = [f"{MISSING}{error}"]
        missing += sum(line.startswith(MISSING) for line in lines)
        for i, line in enumerate(lines):
            print(
                textwrap.fill(
                    line,
                    width,
                    initial_indent=f"{name if i == 0 else '':<11}",
                    subsequent_indent=" " * 13,
                    break_long_words=False,  # an address can be copied
                    break_on_hyphens=False,
                )
            )
    print("all is well" if not missing else f"{missing} missing: mend what is marked MISSING and ask again")
    return 2 if missing else 0


def _packages() -> list[str]:
    found, absent = [], []
    for name in PACKAGES:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            absent.append(name)
    if absent:
        raise UserError(f"{', '.join(absent)} not installed: pip install {' '.join(absent)}.")
    return [", ".join(found)]


def _device(name: str) -> str:
    picked = pick_device(name)
    return picked if picked == name else f"{picked} (what {name} gives here)"


def _disk() -> list[str]:
    free = shutil.disk_usage(Path.cwd()).free
    if free < LITTLE_DISK:
        raise UserError(f"{size_of(free)} free here: free some space, or write runs elsewhere with --out.")
    return [f"{size_of(free)} free here"]


def _features() -> list[str]:
    folder = feature_folder("auto", "cpu")
    if folder is None:
        return ["not kept: RWF_FEATURE_CACHE is off"]
    sizes = [path.stat().st_size for path in folder.glob(f"??/*{SUFFIX}")]
    return [f"{len(sizes)} files with answers of frozen networks in {folder}, {size_of(sum(sizes))}"]


def _backbone(name: str | None) -> list[str]:
    if name is None:
        return ["not asked for: --backbone NAME tries to load one"]
    vit = load_backbone(name)
    weights = sum(p.numel() for p in vit.timm.parameters())
    return [
        f"{vit.name}: {vit.depth} blocks of width {vit.width}, pictures {vit.image_size} x {vit.image_size}",
        f"{weights:,} weights, hash {vit.hash[:12]}",
    ]


def _benchmark(name: str | None, data_dir: Path | None) -> list[str]:
    if name is None:
        return ["not asked for: --benchmark NAME tries to open one"]
    lines: list[str] = []
    official = (BENCHMARKS[name].alias_of or name) if name in BENCHMARKS else ""
    if official in LOOKS:  # asked of the disk first: the doctor fetches and unpacks nothing
        found = standing(official, data_dir)
        if found.state == "nothing":
            return [*found.lines[:-1], MISSING + found.lines[-1]]
        if found.state == "archive":
            return found.lines
        lines += found.lines
    catalog = open_benchmark(name, data_dir=data_dir, duplicates=False)
    lines += [f"{catalog.summary()}, {size_of(_bytes(catalog))}"]
    for title, split in (("training", catalog.train), ("test", catalog.test)):
        counts = np.bincount(split.labels, minlength=len(catalog.classes))
        low, high = counts.min(), counts.max()
        lines.append(f"{low if low == high else f'{low} to {high}'} {title} pictures a class")
    notice = duplicate_notice(catalog.train, catalog.test)
    return [*lines, _read_pictures(catalog), *catalog.notices, *([notice] if notice else [])]


def _bytes(catalog: Catalog) -> int:
    return int(catalog.train.store.sizes.sum() + catalog.test.store.sizes.sum())


def _read_pictures(catalog: Catalog) -> str:
    """Reads every picture of a small set, some of a large one, and says which cannot be read."""
    splits = (catalog.train, catalog.test)
    most = max(map(len, splits)) if _bytes(catalog) <= TRY_ALL else TRY_SOME
    chosen = [np.unique(np.linspace(0, len(split) - 1, min(len(split), most), dtype=np.int64)) for split in splits]
    tried, done = sum(map(len, chosen)), 0
    wrong: dict[str, UserError] = {}
    total = sum(int(split.store.sizes[ids].sum()) for split, ids in zip(splits, chosen, strict=True))
    with bar(f"reading {tried} pictures", total) as tell:
        for split, ids in zip(splits, chosen, strict=True):
            for i in ids.tolist():
                try:
                    split.picture(i)
                except UserError as error:
                    wrong[split.names[i]] = error
                done += int(split.store.sizes[i])
                tell(done)
    of = "all" if tried == sum(map(len, splits)) else f"{tried} of"
    if wrong:
        names = f"{', '.join(list(wrong)[:10])}{', ...' if len(wrong) > 10 else ''}"
        return (
            f"{MISSING}{len(wrong)} of {tried} pictures that were tried cannot be read: {names}. Replace or remove "
            f"them, or leave them out with --on-bad-image skip. The first: {next(iter(wrong.values()))}"
        )
    return f"{of} {sum(map(len, splits))} pictures were read without fault"
