"""`rwf experiment`: cells become run folders, the folders are worked off, and their figures become rows."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rwf import __version__
from rwf.errors import UserError
from rwf.experiments import EXPERIMENTS
from rwf.experiments.asked import Asked
from rwf.experiments.cell import Ask, Cell
from rwf.experiments.cost import catalog_of, estimates, forecast_table, in_all
from rwf.experiments.measure import measure
from rwf.experiments.rows import Row, new_row, take_result, write_rows
from rwf.experiments.summary import summary
from rwf.files import FolderLock, make_folder, write_json, write_text
from rwf.registry import entry, load_object
from rwf.run.fingerprint import fingerprint, source_hash
from rwf.run.queue import Job, work_off
from rwf.run.result import RESULT
from rwf.run.work import write_job
from rwf.run.workers import Cluster, Processes, Workers
from rwf.vit.weights import load_backbone

Known = dict[str, str]


def cells_of(name: str, ask: Ask) -> list[Cell]:
    """What the experiment would run."""
    experiment: Callable[[Ask], list[Cell]] = load_object(entry("experiment", EXPERIMENTS, name).target)
    return experiment(ask)


def dry_run(name: str, asked: Asked) -> tuple[Any, str]:
    """The runs with their cost, as a table for a person, and their sum."""
    ask = Ask(asked)
    cells = cells_of(name, ask)
    costs = estimates(ask, cells)
    return forecast_table(cells, costs), in_all(costs, asked.jobs or 1)


def carry_out(name: str, asked: Asked) -> tuple[list[Row], str]:
    """Runs what has not been run yet; the rows, and the table for a person."""
    ask = Ask(asked)
    cells = cells_of(name, ask)
    out = make_folder(asked.out or Path("runs") / _plain(f"{name}-{asked.benchmark}"))
    with FolderLock(out):
        known = what_is_known(ask)
        write_json(out / "experiment.json", {"experiment": name, "rwf": __version__, "asked": _shown(ask), **known})
        rows = Rows(name, out, make_folder(asked.runs or out / "runs"), cells, known)
        jobs = rows.jobs(len(catalog_of(ask).train))
        try:
            if jobs:
                _work_off(asked, jobs, cells[0].run.threads or 1, rows.ended)
        finally:
            measure(name, rows.rows, out)
            rows.write()
        table = summary(rows.rows)
        write_text(out / "table.md", table + "\n")
    return rows.rows, table


def what_is_known(ask: Ask) -> Known:
    """Hashes of data and weights."""
    return {
        "backbone": ask.backbone,
        "backbone_hash": load_backbone(ask.backbone).hash,
        "benchmark_fingerprint": catalog_of(ask).fingerprint,
    }


class Rows:
    """The rows of an experiment while its runs come in."""

    def __init__(self, name: str, out: Path, runs: Path, cells: Sequence[Cell], known: Known) -> None:
        self.out, self.cells = out, cells
        self.rows = [new_row(name, cell, source_hash(cell.method)) for cell in cells]
        self.folders: list[Path | None] = []
        for cell, row in zip(cells, self.rows, strict=True):
            try:
                told = known | ({"watch": cell.watch} if cell.watch else {})
                row["fingerprint"] = fingerprint(cell.method, cell.options, cell.run, told)
            except UserError as error:  # an option that the method has not
                row |= {"status": "failed", "error": str(error)}
                self.folders.append(None)
                continue
            folder = runs / f"{_plain(cell.method.rpartition(':')[2])}-s{cell.run.seed}-{row['fingerprint']}"
            row["folder"] = os.path.relpath(folder, out)
            self.folders.append(folder)

    def jobs(self, pictures: int) -> list[Job]:
        """What is still to be run; finished runs give their rows at once. Cells may share a run."""
        jobs: dict[Path, Job] = {}
        for cell, row, folder in zip(self.cells, self.rows, self.folders, strict=True):
            if folder is None or folder in jobs:
                continue
            if (folder / RESULT).exists():
                take_result(row, folder)
                continue
            write_job(folder, cell.method, cell.options, cell.run, cell.watch)
            jobs[folder] = Job(cell.title, folder, round(cell.run.train_fraction * pictures))
        self.write()
        return list(jobs.values())

    def ended(self, job: Job, said: str) -> None:
        """A run has ended: all rows that it fills."""
        for row, folder in zip(self.rows, self.folders, strict=True):
            if folder == job.folder:
                take_result(row, folder, said)
        self.write()

    def write(self) -> None:
        """rows.json as it is now."""
        write_rows(self.out, self.rows)


def _work_off(asked: Asked, jobs: Sequence[Job], threads: int, ended: Callable[[Job, str], None]) -> None:
    workers: Workers = Processes(threads, asked.jobs or 1)
    if asked.ray:
        workers = Cluster(asked.ray, threads=threads, gpus=asked.gpus)
    try:
        work_off(jobs, workers, asked.jobs or (len(jobs) if asked.ray else 1), ended)
    finally:
        workers.close()


def _shown(ask: Ask) -> dict[str, Any]:
    values = {key: str(value) if isinstance(value, Path) else value for key, value in asdict(ask.asked).items()}
    del values["settings"]  # their content is kept
    return values | {"backbone": ask.backbone, "settings": ask.settings}


def _plain(name: str) -> str:
    return "".join(c if c.isalnum() or c in "-_." else "-" for c in name).strip("-.")
