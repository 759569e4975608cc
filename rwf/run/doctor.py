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

from rwf.data.benchmarks.standing import LOOKS, standing
from rwf.data.catalog import open_benchmark
from rwf.data.duplicates import duplicate_notice
from rwf.errors import UserError
from rwf.registry import BENCHMARKS
from rwf.run.world import pick_device
from rwf.vit.weights import load_backbone

LITTLE_DISK = 2 << 30
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
        "backbone": lambda: _backbone(backbone),
        "benchmark": lambda: _benchmark(benchmark, data_dir),
    }
    width, missing = shutil.get_terminal_size().columns, 0
    for name, ask in questions.items():
        try:
            lines = ask()
        except UserError as error:
            missing += 1
            lines = [f"MISSING: {error}"]
        for i, line in enumerate(lines):
            print(
                textwrap.fill(line, width, initial_indent=f"{name if i == 0 else '':<11}", subsequent_indent=" " * 13)
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
        raise UserError(f"{free / 2**30:.1f} GB free here: free some space, or write runs elsewhere with --out.")
    return [f"{free / 2**30:.1f} GB free here"]


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
            raise UserError(" ".join(found.lines))
        if found.state == "archive":
            return found.lines
        lines += found.lines
    catalog = open_benchmark(name, data_dir=data_dir)
    lines += [
        f"{catalog.name}: {len(catalog.classes)} classes, {len(catalog.train)} training and {len(catalog.test)} "
        f"test pictures, hash {catalog.fingerprint[:12]}"
    ]
    for title, split in (("training", catalog.train), ("test", catalog.test)):
        counts = np.bincount(split.labels, minlength=len(catalog.classes))
        low, high = counts.min(), counts.max()
        lines.append(f"{low if low == high else f'{low} to {high}'} {title} pictures a class")
        for i in {0, len(split) - 1} if len(split) else ():
            split.picture(i)  # a sentence if it cannot be read
    notice = duplicate_notice(catalog)
    return [*lines, *catalog.notices, *([notice] if notice and notice not in catalog.notices else [])]
