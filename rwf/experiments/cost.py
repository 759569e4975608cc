"""What the runs of an experiment will cost: pictures through the backbone, counted, and hours on this machine."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from rich.table import Table

from rwf.data.catalog import Catalog, open_benchmark
from rwf.errors import UserError
from rwf.experiments.cell import Ask, Cell
from rwf.run.cost import Case, Price, price
from rwf.vit.forward import ViT

ANYTIME = 500


@dataclass(frozen=True)
class Estimate:
    """Of one run."""

    forwards: float = 0.0
    hours: float = 0.0
    error: str = ""
    """Why it cannot be run."""


def estimates(ask: Ask, cells: Sequence[Cell]) -> list[Estimate]:
    """One for each cell: a step and an answer counted, times the pictures; seconds from one timed forward."""
    catalog = catalog_of(ask)
    prices: dict[str, Price | str] = {}
    second = seconds_a_picture(ask.vit)
    return [_estimate(ask, cell, catalog, prices, second) for cell in cells]


def _estimate(ask: Ask, cell: Cell, catalog: Catalog, prices: dict[str, Price | str], second: float) -> Estimate:
    key = repr((cell.method, sorted((k, v) for k, v in cell.options.items() if k not in ("lr", "head_lr"))))
    if key not in prices:
        try:
            prices[key] = price(Case(cell.method, options=cell.options), ask.vit, cell.run.batch_size)
        except UserError as error:
            prices[key] = str(error)
    cost = prices[key]
    if isinstance(cost, str):
        return Estimate(error=cost)
    learned, asked = pictures(catalog, cell)
    evaluations = cost.evaluation_f * cell.run.batch_size * cell.run.tasks
    seconds = second * (learned * cost.train_f + asked * cost.predict_f + evaluations)
    return Estimate(learned * cost.train_forwards + asked * cost.predict_forwards, seconds / 3600)


def pictures(catalog: Catalog, cell: Cell) -> tuple[int, int]:
    """About how many are learned, and how many are asked for: at T evaluations over the classes met so far."""
    run, tests = cell.run, round(cell.run.test_fraction * len(catalog.test))
    half = (run.tasks + 1) / 2
    return round(run.train_fraction * len(catalog.train)), round((tests + run.anytime * min(ANYTIME, tests)) * half)


def catalog_of(ask: Ask) -> Catalog:
    """The benchmark that was asked for."""
    asked = ask.asked
    data = None if asked.data_dir is None else Path(asked.data_dir)
    return open_benchmark(asked.benchmark, data_dir=data, train_list=asked.train_list, duplicates=False)


def seconds_a_picture(vit: ViT, enough: float = 0.3, most: int = 64) -> float:
    """A frozen forward, timed in ever larger batches until one takes long enough; the quickest counts."""
    count, best = 1, float("inf")
    while True:
        x = torch.zeros(count, 3, vit.image_size, vit.image_size)
        began = time.perf_counter()
        with torch.no_grad():
            vit.features(x)
        took = time.perf_counter() - began
        best = min(best, took / count)
        if took > enough or count >= most:
            return best
        count *= 2


def forecast_table(cells: Sequence[Cell], costs: Sequence[Estimate]) -> Table:
    """The runs for a person."""
    table = Table(box=None, pad_edge=False)
    for title in ("run", "forwards", "hours"):
        table.add_column(title, justify="left" if title == "run" else "right")
    for cell, cost in zip(cells, costs, strict=True):
        table.add_row(cell.title, *([f"cannot be: {cost.error}", ""] if cost.error else _figures(cost)))
    return table


def in_all(costs: Sequence[Estimate], jobs: int) -> str:
    """The sum of all runs, as a sentence."""
    hours, forwards = sum(cost.hours for cost in costs), sum(cost.forwards for cost in costs)
    text = f"{len(costs)} runs, {forwards:,.0f} pictures through the backbone, about {hours:.2f} hours"
    return text + (f" of one job, {hours / jobs:.2f} with {jobs}." if jobs > 1 else ".")


def _figures(cost: Estimate) -> list[str]:
    return [f"{cost.forwards:,.0f}", f"{cost.hours:.3f}"]
