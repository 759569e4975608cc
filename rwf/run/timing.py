"""Time of steps beside the time of a frozen forward, and what else the machine does: reported, never asserted."""

from __future__ import annotations

import copy
import gc
import os
import re
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from ctypes import CDLL
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import Tensor

from rwf.run.cost import Case, brought_to_work, price, trains_backbone
from rwf.run.input_rates import BATCH, one_thread, picture_bytes, ways
from rwf.vit.attention import attend
from rwf.vit.flops import frozen_forward_flops
from rwf.vit.forward import ViT

Row = dict[str, Any]
Act = Callable[[], object]
UNTIMED: Row = dict.fromkeys(
    "train_time_f predict_time_f train_time_bf16_f predict_time_bf16_f train_ms predict_ms rate_to_forward "
    "rate_to_gemm peak_mb machine".split()
)
"""What a row has instead when nothing is timed."""


class Subject:
    """A case at work on real numbers, and what was measured of it."""

    def __init__(self, case: Case, vit: ViT, batch_size: int) -> None:
        shared = {} if trains_backbone(case) else {id(p): p for p in vit.parameters()}
        self.case, self.price = case, price(case, vit, batch_size)
        self.learner = case.bound(copy.deepcopy(vit, shared), batch_size)
        self.batch = brought_to_work(self.learner, batch_size)
        self.peak = _peak(self.train)
        self.taken: dict[str, list[tuple[float, float]]] = {}
        """Seconds of each act, and of the frozen forward before it."""

    def train(self) -> None:
        self.learner.learn(self.batch)

    def acts(self) -> dict[str, Act]:
        acts: dict[str, Act] = {"predict": lambda: self.learner.predict(self.batch), "train": self.train}
        if self.case.method == "rwf" and self.case.variant == "fast":
            acts |= {f"{name}_bf16": self._in_bf16(act) for name, act in acts.items()}
        return acts

    def _in_bf16(self, act: Act) -> Act:
        def run() -> None:
            self.learner.precision = "bf16"
            act()
            self.learner.precision = "fp32"

        return run

    def row(self, machine: Row) -> Row:
        """The medians."""
        units = {name: median(spent / unit for spent, unit in taken) for name, taken in self.taken.items()}
        ms = {name: 1e3 * median(spent for spent, _ in taken) for name, taken in self.taken.items()}
        rate = self.price.train_f / units["train"]
        return {
            "train_time_f": units["train"],
            "predict_time_f": units["predict"],
            "train_time_bf16_f": units.get("train_bf16"),
            "predict_time_bf16_f": units.get("predict_bf16"),
            "train_ms": ms["train"],
            "predict_ms": ms["predict"],
            "rate_to_forward": rate,
            "rate_to_gemm": rate * machine["forward_gflops"] / machine["gemm_gflops"],
            "peak_mb": self.peak,
            "machine": machine,
        }


def timed(chosen: Sequence[Case], vit: ViT, batch_size: int, rounds: int, say: Callable[[str], None]) -> list[Row]:
    """Rounds through everything; each act is measured beside a frozen forward of its own, medians count."""
    before = os.getloadavg()[0]
    pictures = torch.rand(batch_size, 3, vit.image_size, vit.image_size)
    subjects, units = [], []
    for case in chosen:
        say(f"warming up: {case.title} {case.variant}")
        subjects.append(Subject(case, vit, batch_size))
    for turn in range(rounds):
        for subject in subjects:
            say(f"round {turn + 1} of {rounds}: {subject.case.title} {subject.case.variant}")
            subject.learner.prepare()
            for name, act in subject.acts().items():
                units.append(_seconds(lambda: _frozen(vit, pictures)))
                subject.taken.setdefault(name, []).append((_seconds(act), units[-1]))
    machine = _machine(vit, pictures, median(units), rounds) | {"load": [before, os.getloadavg()[0]]}
    return [subject.row(machine) for subject in subjects]


@torch.no_grad()
def _frozen(vit: ViT, pictures: Tensor, *, half: bool = False) -> None:
    """F: a plain forward, all rows through all blocks."""
    with torch.autocast("cpu", torch.bfloat16, enabled=half):
        vit.encode(pictures, read=slice(None))


def _clock() -> Callable[[], float]:
    """With one thread the processor's own time, which others on the machine do not lengthen; or a wall clock."""
    return time.process_time if torch.get_num_threads() == 1 else time.perf_counter


def _seconds(act: Act) -> float:
    clock = _clock()
    began = clock()
    act()
    return clock() - began


def _peak(act: Act) -> float | None:
    """How far the process's memory rises above what it held before, in MB; None where the system does not say."""
    gc.collect()
    with suppress(OSError, AttributeError):
        CDLL(None).malloc_trim(0)  # what was freed before is given back, or it would hide what is needed now
    try:
        Path("/proc/self/clear_refs").write_text("5")  # the high-water mark starts anew
        held = _status("VmRSS")
        act()
        return (_status("VmHWM") - held) / 1e3
    except (OSError, AttributeError):
        act()
        return None


def _status(key: str) -> int:
    found = re.search(rf"{key}:\s+(\d+)", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1])


# -- the machine -----------------------------------------------------------------------------------------------------


def _machine(vit: ViT, pictures: Tensor, unit: float, rounds: int) -> Row:
    """What the times were measured on, and its own rates."""
    rows = len(pictures) * (vit.patches + vit.prefix_tokens)
    a, b = torch.rand(rows, vit.width), torch.rand(vit.width, 4 * vit.width)
    half_a, half_b = a.bfloat16(), b.bfloat16()
    acts: dict[str, Act] = {
        "gemm": lambda: a @ b,
        "gemm_bf16": lambda: half_a @ half_b,
        "forward_bf16": lambda: _frozen(vit, pictures, half=True),
        **_attention(vit, len(pictures)),
        **_input(),
    }
    found: dict[str, list[float]] = {name: [] for name in acts}
    for _ in range(2 * rounds + 1):
        for name, act in acts.items():
            found[name].append(_seconds(act))
    middle = {name: median(times[1:]) for name, times in found.items()}
    operations = 2 * a.numel() * b.shape[1]
    return {
        "backbone": vit.name,
        "batch_size": len(pictures),
        "rounds": rounds,
        "threads": torch.get_num_threads(),
        "clock": _clock().__name__,
        "torch": torch.__version__,
        "forward_ms": 1e3 * unit,
        "forward_bf16_f": middle["forward_bf16"] / unit,
        "forward_gflops": frozen_forward_flops(vit, len(pictures)) / unit / 1e9,
        "gemm_gflops": operations / middle["gemm"] / 1e9,
        "gemm_bf16_gflops": operations / middle["gemm_bf16"] / 1e9,
        "attention_ms": {name: 1e3 * middle[name] for name in acts if name.startswith(("sdpa", "explicit"))},
        "views_per_second": BATCH / middle["views"],
        "pil_views_per_second": BATCH / middle["views by PIL"],
    }


def _attention(vit: ViT, batch_size: int) -> dict[str, Act]:
    """A block's attention, forward and backward, with either kernel in either format: what ``auto`` stands on."""
    block = vit.timm.blocks[0]
    z = torch.rand(batch_size, vit.patches + vit.prefix_tokens, vit.width, requires_grad=True)

    def act(kernel: Any, half: bool) -> Act:
        def run() -> None:
            with torch.autocast("cpu", torch.bfloat16, enabled=half):
                out = attend(block.attn, block.norm1, z, kernel=kernel)
            torch.autograd.grad(out.float().sum(), z)

        return run

    formats = {"fp32": False, "bf16": True}
    return {f"{kernel} {name}": act(kernel, half) for kernel in ("sdpa", "explicit") for name, half in formats.items()}


def _input() -> dict[str, Act]:
    """From a JPEG's bytes to network input on one thread: ours, and Pillow's pictures through torchvision."""
    acts = ways(picture_bytes(500, 375, "JPEG"))

    def run(act: Act) -> Act:
        def alone() -> None:
            with one_thread():
                act()

        return alone

    return {"views": run(acts["first"]), "views by PIL": run(acts["pillow"])}
