"""What the report finds: run folders and rows, each run once, and sentences for what cannot be read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rwf.errors import UserError
from rwf.report.gather import gather
from tests.report.made import made_run, made_world, write_run


def row(method: str = "rwf", seed: int = 0, **more: Any) -> dict[str, Any]:
    result = {k: v for k, v in made_run(method, seed_name=seed).result.items() if k != "accuracy_matrix"}
    base = {"experiment": "depth", "cell": {"k": 3}, "method": method, "seed": seed, "folder": None, "status": "done"}
    return base | {"error": None, "result": result} | more


def write_rows(folder: Path, rows: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "rows.json").write_text(json.dumps(rows))
    return folder


def test_run_folders_are_found_at_any_depth_and_once(tmp_path: Path) -> None:
    made_world(tmp_path / "a" / "b", ("rwf", "ncm"), 2)
    found = gather([tmp_path, tmp_path / "a", tmp_path / "a" / "b" / "rwf-s0"])
    assert sorted((run.name, run.seed) for run in found.runs) == [("ncm", 0), ("ncm", 1), ("rwf", 0), ("rwf", 1)]
    assert all(run.run is not None for run in found.runs)


def test_a_row_owns_the_folder_it_names(tmp_path: Path) -> None:
    write_run(made_run("rwf"), tmp_path / "runs" / "rwf-s0")
    write_rows(tmp_path, [row(folder="runs/rwf-s0"), row("ncm", folder="runs/gone")])
    found = gather([tmp_path])
    assert [(run.name, run.experiment, run.cell) for run in found.runs] == [
        ("rwf", "depth", {"k": 3}),
        ("ncm", "depth", {"k": 3}),
    ]
    whole, bare = found.runs
    assert whole.run is not None
    assert "accuracy_matrix" in whole.result
    assert bare.run is None
    assert bare.source.endswith("rows.json, row 2")


def test_failed_rows_are_kept_apart_and_unfinished_ones_left(tmp_path: Path) -> None:
    failed = row(status="failed", error="rwf: no", result=None)
    write_rows(tmp_path, {"rows": [failed, row(status="waiting", result=None), row()]})
    found = gather([tmp_path / "rows.json"])
    assert found.failed == [failed]
    assert len(found.runs) == 1


def test_trials_of_a_search_are_no_results(tmp_path: Path) -> None:
    write_run(made_run("rwf", run={"validation": 3}), tmp_path / "search" / "trials" / "lr-1")
    (tmp_path / "search" / "tune.json").write_text('{"method": "rwf"}')
    found = gather([tmp_path])
    assert found.runs == []
    assert found.studies == [{"method": "rwf"}]
    write_run(made_run("rwf"), tmp_path / "one")
    assert len(gather([tmp_path]).runs) == 1


def test_a_run_without_its_guesses_still_counts(tmp_path: Path) -> None:
    folder = write_run(made_run("rwf"), tmp_path / "one")
    (folder / "predictions.npz").unlink()
    assert gather([tmp_path]).runs[0].run is None


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda p: None, "there is no finished run"),
        (lambda p: (p / "rows.json").write_text("3"), "not a list of rows"),
        (lambda p: (p / "rows.json").write_text("{"), "damaged"),
        (lambda p: (p / "result.json").write_text('{"method": "rwf"}'), "lacks benchmark"),
        (lambda p: (p / "result.json").write_text("[]"), "lacks everything"),
    ],
)
def test_what_cannot_be_read_is_a_sentence(make: Any, said: str, tmp_path: Path) -> None:
    make(tmp_path)
    with pytest.raises(UserError, match=said):
        gather([tmp_path])


def test_a_missing_folder_and_none_at_all_are_sentences(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="there is no folder"):
        gather([tmp_path / "no"])
    with pytest.raises(UserError, match="name the folders"):
        gather([])
