"""From folders to finished runs: run folders at any depth, and the rows that experiments leave in ``rows.json``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rwf.errors import UserError
from rwf.files import read_json
from rwf.report.folder import Run

RESULT, PREDICTIONS, ENVIRONMENT, ROWS = "result.json", "predictions.npz", "env.json", "rows.json"
STUDY = "tune.json"
NEEDED = ("method", "benchmark", "backbone", "seed", "final_accuracy")


@dataclass(frozen=True)
class Measured:
    """One finished run, out of its folder or out of a row."""

    result: Mapping[str, Any]
    source: str
    """Where it was read."""
    run: Run | None = None
    """The folder with its guesses, where there is one."""
    experiment: str = ""
    cell: Mapping[str, Any] = field(default_factory=dict)
    """What the experiment calls this place of its table."""
    measured: Mapping[str, Any] = field(default_factory=dict)
    """Figures that the experiment adds to the run's."""

    @property
    def name(self) -> str:
        """The method; of a user's file only the class."""
        return str(self.result["method"]).rpartition(":")[2]

    @property
    def seed(self) -> int:
        return int(self.result["seed"])

    def option(self, name: str, default: Any = None) -> Any:
        """An option of the run (--tasks, --batch-size and the like)."""
        return self.result.get("run", {}).get(name, default)


@dataclass
class Gathered:
    """All that was found, and sentences on what could not be used."""

    runs: list[Measured] = field(default_factory=list)
    failed: list[Mapping[str, Any]] = field(default_factory=list)
    """Rows of runs that ended with an error."""
    notes: list[str] = field(default_factory=list)
    studies: list[Mapping[str, Any]] = field(default_factory=list)
    """What `rwf tune` wrote; its trials are no results, as they were judged on validation pictures."""


def gather(folders: Sequence[Path]) -> Gathered:
    """Every run below the folders, each once; a run that a row names belongs to the row's experiment."""
    if not folders:
        raise UserError("name the folders of the report: rwf report FOLDERS... [--out DIR].")
    found = Gathered()
    row_files, results, studies = _files(folders)
    found.studies = [content for path in studies if isinstance(content := read_json(path), dict)]
    trials = [path.parent.resolve() for path in studies]
    named: set[Path] = set()
    for path in row_files:
        for number, row in enumerate(_rows(path), 1):
            _take_row(found, path, number, row, named)
    for path in results:
        place = path.parent.resolve()
        if place not in named and not any(study in place.parents for study in trials):
            found.runs.append(from_folder(path.parent))
    if not found.runs and not found.failed and not found.studies:
        raise UserError(
            f"there is no finished run in {', '.join(map(str, folders))}: give folders that `rwf run` or "
            "`rwf experiment` wrote."
        )
    return found


def _files(folders: Sequence[Path]) -> tuple[list[Path], list[Path], list[Path]]:
    """The rows.json, result.json and tune.json at and below these paths, each once."""
    rows: dict[Path, Path] = {}
    results: dict[Path, Path] = {}
    studies: dict[Path, Path] = {}
    for folder in folders:
        if folder.is_file() and folder.suffix == ".json":
            rows.setdefault(folder.resolve(), folder)
            continue
        if not folder.is_dir():
            raise UserError(f"there is no folder {folder}: give folders that `rwf run` or `rwf experiment` wrote.")
        for target, name in ((rows, ROWS), (results, RESULT), (studies, STUDY)):
            for path in sorted(folder.rglob(name)):
                target.setdefault(path.resolve(), path)
    return list(rows.values()), list(results.values()), list(studies.values())


def _rows(path: Path) -> Iterable[Mapping[str, Any]]:
    content = read_json(path)
    rows = content.get("rows") if isinstance(content, dict) else content
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise UserError(f"{path} is not a list of rows, as `rwf experiment` writes it: give another folder.")
    return rows


def _take_row(found: Gathered, path: Path, number: int, row: Mapping[str, Any], named: set[Path]) -> None:
    folder = _folder(path, row.get("folder"))
    if folder is not None:
        named.add(folder.resolve())
    result = row.get("result") or None
    whole = from_folder(folder) if folder is not None else None
    if whole is None and result is None:
        if row.get("error") or row.get("status") == "failed":
            found.failed.append(row)
        return
    if result is None:
        assert whole is not None
        result = whole.result
    source, run = (whole.source, whole.run) if whole is not None else (f"{path}, row {number}", None)
    _check(result, source)
    cell = {key: value for key, value in (row.get("cell") or {}).items() if key not in ("method", "seed")}
    # What a row leaves out, such as the accuracy matrix, is in the folder.
    content = dict(whole.result) | dict(result) if whole is not None else result
    experiment, measured = str(row.get("experiment") or ""), row.get("measured") or {}
    found.runs.append(Measured(content, source, run, experiment, cell, measured))


def _folder(path: Path, said: Any) -> Path | None:
    """The folder that a row names, if its result is there: as it is written, or from where the rows lie."""
    if not said:
        return None
    for place in (path.parent / str(said), Path(str(said)), path.parent / Path(str(said)).name):
        if (place / RESULT).is_file():
            return place
    return None


def from_folder(folder: Path) -> Measured:
    """A run from its folder; without guesses where these were not kept."""
    if (folder / PREDICTIONS).exists() and (folder / ENVIRONMENT).exists():
        run = Run.read(folder)
        _check(run.result, str(folder))
        return Measured(run.result, str(folder), run)
    result = read_json(folder / RESULT)
    _check(result, str(folder))
    return Measured(result, str(folder))


def _check(result: Any, source: str) -> None:
    missing = [key for key in NEEDED if key not in result] if isinstance(result, dict) else ["everything"]
    if missing:
        raise UserError(f"the result of {source} lacks {', '.join(missing)}: it was not written by this rwf.")
