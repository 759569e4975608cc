"""`rwf bench`: what each method costs, counted exactly on one ViT and timed on a small one, side by side."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict

from rwf.errors import UserError
from rwf.run.allocator import keep_freed_memory
from rwf.run.cost import TASKS, Case, cases, is_told_of_tasks, price
from rwf.run.timing import UNTIMED, Row, timed
from rwf.run.world import set_threads
from rwf.vit.forward import ViT
from rwf.vit.weights import load_backbone


def bench(
    *,
    backbone: str,
    batch_size: int,
    methods: Sequence[str],
    time: bool,
    time_backbone: str,
    time_batch: int,
    rounds: int,
    threads: int | None = None,
) -> list[Row]:
    """A row for each method and variant. Only shapes count, so weights are drawn and not downloaded."""
    keep_freed_memory()
    set_threads(threads)
    for name, value in (("batch-size", batch_size), ("time-batch", time_batch), ("rounds", rounds)):
        if value < 1:
            raise UserError(f"--{name} is {value}: give 1 or more.")
    chosen, vit = cases(methods), load_backbone(backbone, pretrained=False)
    rows = []
    for i, case in enumerate(chosen):
        _say(f"counting {i + 1} of {len(chosen)}: {case.title}")
        rows.append(_counted(case, vit, batch_size))
    if time:
        more = timed(chosen, load_backbone(time_backbone, pretrained=False), time_batch, rounds, _say)
        rows = [row | times for row, times in zip(rows, more, strict=True)]
    _say("")
    return rows


def _say(what: str) -> None:
    """A line that passes, for a person who waits."""
    if sys.stderr.isatty():
        print(f"\r{what[:79]:<79}", end="\r", file=sys.stderr, flush=True)


def _counted(case: Case, vit: ViT, batch_size: int) -> Row:
    last = price(case, vit, batch_size, tasks=TASKS) if is_told_of_tasks(case) else None
    return {
        "method": case.method,
        "variant": case.variant,
        "options": dict(case.options),
        "backbone": vit.name,
        "batch_size": batch_size,
        **asdict(price(case, vit, batch_size)),
        "last_train_f": None if last is None else last.train_f,
        "last_predict_f": None if last is None else last.predict_f,
        "last_held_mb": None if last is None else last.held_mb,
        **UNTIMED,
    }


# -- Markdown --------------------------------------------------------------------------------------------------------


def markdown(rows: Sequence[Row]) -> str:
    """The rows for a person and for docs/performance.md."""
    first = rows[0]
    parts = [
        f'Counted on {first["backbone"]} at batch {first["batch_size"]}, in units of one frozen forward F. "last task" '
        f"is the last of {TASKS}, for methods that are told of tasks; forwards are pictures through the backbone for "
        "each picture; saved is what a step keeps for its backward passes, attention maps included; held is what "
        "lasts between steps (weights, moments, averages; at the last task where that is counted), pictures apart.",
        _table(
            ["method", "variant", "step", "prediction", "last task", "forwards", "saved MB", "held MB"],
            [[*_name(row), *_counts(row)] for row in rows],
        ),
    ]
    parts += [
        f"{row['method']}: each evaluation after new pictures costs {row['evaluation_f']:.0f} F more."
        for row in rows
        if row["evaluation_f"]
    ]
    machine = first["machine"]
    if machine:
        parts += [
            f"Timed on {machine['backbone']} at batch {machine['batch_size']}, medians of {machine['rounds']} rounds, "
            f"each beside a frozen forward of its own; threads {machine['threads']} ({machine['clock']}), torch "
            f"{machine['torch']}, load {machine['load'][0]:.1f} before and {machine['load'][1]:.1f} after. The rate is "
            "that of a step's products as a part of the frozen forward's.",
            _table(
                ["method", "variant", "step", "prediction", "step bf16", "prediction bf16", "rate", "peak MB"],
                [[*_name(row), *_times(row)] for row in rows],
            ),
            _machine(machine),
        ]
    return "\n\n".join(parts)


def _name(row: Row) -> list[str]:
    return [" ".join([row["method"], *(f"{name}={value}" for name, value in row["options"].items())]), row["variant"]]


def _counts(row: Row) -> list[str]:
    last = "" if row["last_train_f"] is None else f"{row['last_train_f']:.2f} / {row['last_predict_f']:.2f}"
    forwards = f"{row['train_forwards']:.3g} / {row['predict_forwards']:.3g}"
    held = row["held_mb"] if row["last_held_mb"] is None else row["last_held_mb"]
    memory = [f"{row['saved_mb']:.0f}", f"{held:.0f}"]
    return [f"{row['train_f']:.2f}", f"{row['predict_f']:.2f}", last, forwards, *memory]


def _times(row: Row) -> list[str]:
    names = ("train_time_f", "predict_time_f", "train_time_bf16_f", "predict_time_bf16_f", "rate_to_forward")
    figures = ["" if row[name] is None else f"{row[name]:.2f}" for name in names]
    return [*figures, "" if row["peak_mb"] is None else f"{row['peak_mb']:.0f}"]


def _machine(machine: Row) -> str:
    kernels = ", ".join(f"{name} {ms:.1f} ms" for name, ms in machine["attention_ms"].items())
    return (
        f"The machine: F {machine['forward_ms']:.0f} ms ({machine['forward_gflops']:.0f} GFLOP/s), in bf16 "
        f"{machine['forward_bf16_f']:.2f} of it; matrix products {machine['gemm_gflops']:.0f} GFLOP/s, in bf16 "
        f"{machine['gemm_bf16_gflops']:.0f}; attention of a block, forward and backward: {kernels}; views from JPEG "
        f"{machine['views_per_second']:.0f} a second and core, through Pillow and torchvision "
        f"{machine['pil_views_per_second']:.0f}."
    )


def _table(titles: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Markdown with columns of even width; figures to the right."""
    widths = [max(map(len, column)) for column in zip(titles, *lines, strict=True)]

    def line(cells: Sequence[str]) -> str:
        padded = [c.ljust(w) if i < 2 else c.rjust(w) for i, (c, w) in enumerate(zip(cells, widths, strict=True))]
        return f"| {' | '.join(padded)} |"

    rule = [w * "-" if i < 2 else (w - 1) * "-" + ":" for i, w in enumerate(widths)]
    return "\n".join([line(titles), line(rule), *map(line, lines)])
