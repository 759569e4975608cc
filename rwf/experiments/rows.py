"""rows.json: one row a run, in the order of the cells; docs/experiments.md says what is in it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rwf.errors import UserError
from rwf.experiments.cell import Cell
from rwf.files import read_json, write_text
from rwf.run.result import RESULT

ROWS = "rows.json"
LONG = 400
"""Numbers that an array of a result may have to be kept in its row."""

Row = dict[str, Any]


def new_row(experiment: str, cell: Cell, source: str) -> Row:
    """What is known before the run."""
    return {
        "experiment": experiment,
        "cell": dict(cell.labels),
        "method": cell.method,
        "seed": cell.run.seed,
        "folder": None,
        "status": "pending",
        "error": None,
        "result": None,
        "measured": {},
        "asked": {"options": dict(cell.options), "run": cell.run.as_json()},
        "fingerprint": None,
        "source": source,
    }


def take_result(row: Row, folder: Path, said: str = "") -> None:
    """A run has ended: its figures, or why there are none."""
    if said:
        row |= {"status": "failed", "error": said}
        return
    result = read_json(folder / RESULT)
    kept = {key: value for key, value in result.items() if _numbers(value) <= LONG}
    row |= {"status": "done", "error": None, "result": kept}


def _numbers(value: Any) -> int:
    if isinstance(value, dict):
        return sum(map(_numbers, value.values()))
    return sum(map(_numbers, value)) if isinstance(value, list) else 1


def write_rows(folder: Path, rows: Sequence[Row]) -> None:
    """All rows, a line each."""
    lines = ",\n".join(json.dumps(row, ensure_ascii=False, allow_nan=False) for row in rows)
    write_text(folder / ROWS, f"[\n{lines}\n]\n")


def read_rows(path: Path) -> list[Row]:
    """The rows of an experiment's folder, or of a file."""
    path = path / ROWS if path.is_dir() else path
    rows = read_json(path)
    if not isinstance(rows, list) or not all(isinstance(row, dict) and "cell" in row for row in rows):
        raise UserError(f"{path} holds no rows of `rwf experiment`: give a folder that it wrote.")
    return rows
