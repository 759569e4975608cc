"""An experiment from cells to rows: several processes, broken off and gone on with, Ray, a run that fails."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import rwf.experiments.carry_out as carrying
import rwf.run.queue as queue
from rwf.cli import main
from rwf.errors import UserError
from rwf.experiments.asked import Asked
from rwf.experiments.carry_out import carry_out
from rwf.experiments.rows import Row, read_rows
from rwf.experiments.summary import summary
from rwf.files import FolderLock
from rwf.run.work import work
from rwf.run.workers import ROOT

CHANGES = {"methods": ("rwf", "ncm"), "lr": (0.01, -1.0)}
"""Three runs: rwf, rwf with a learning rate that cannot be, ncm."""
STILL = ("moved_in_first_task", "moved_in_last_task", "moved_since_learned")
SLOW = """
import time
from dataclasses import dataclass
from rwf.methods.linear_probe import LinearProbe

@dataclass(kw_only=True, eq=False, repr=False)
class Slow(LinearProbe):
    pause: float = 0.0

    def update(self, batch, rows):
        time.sleep(self.pause)
        return super().update(batch, rows)
"""


class Here:
    """One job after another, without a process."""

    def start(self, folder: Path) -> str:
        try:
            work(folder)
        except UserError as error:
            return str(error)
        return ""

    def ended(self, handle: str) -> str:
        return handle

    def stop(self, handles: Sequence[str]) -> None: ...

    def close(self) -> None: ...


def what_counts(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """The rows without clocks and places."""
    keys = ("experiment", "cell", "method", "seed", "status", "error", "measured", "fingerprint", "source")
    results = [row["result"] and {k: v for k, v in row["result"].items() if k not in ("timing", "run")} for row in rows]
    return [{key: row[key] for key in keys} | {"result": result} for row, result in zip(rows, results, strict=True)]


@pytest.fixture
def here(monkeypatch):
    """Runs are made in this process."""

    def carry(name: str, asked: Asked) -> list[Row]:
        with monkeypatch.context() as patched:
            patched.setattr(carrying, "Processes", lambda *_how: Here())
            return carry_out(name, asked)[0]

    return carry


def test_two_jobs_end_with_the_rows_of_one_and_a_bad_option_fails_its_row_only(asked, here, tmp_path) -> None:
    one = here("table1", asked(**CHANGES, out=tmp_path / "one"))
    two, table = carry_out("table1", asked(**CHANGES, out=tmp_path / "two", jobs=2))
    assert what_counts(two) == what_counts(one)
    assert [row["status"] for row in two] == ["done", "failed", "done"]
    assert two[1]["error"] == "lr is -1.0; give a finite number that is not negative."
    assert two[1]["result"] is None
    assert two[1]["error"] in table
    assert table == summary(one)
    assert read_rows(tmp_path / "two") == two
    kept = json.loads((tmp_path / "two" / two[0]["folder"] / "result.json").read_text())
    assert two[0]["result"] == kept  # nothing in it is long


def test_finished_runs_are_not_run_again_and_what_matters_makes_a_new_run(asked, here, tmp_path) -> None:
    options = {"methods": ("ncm",), "runs": tmp_path / "runs"}
    first = here("table1", asked(**options))
    stamp = os.stat(tmp_path / "out" / first[0]["folder"] / "result.json").st_mtime_ns
    again = here("switch", asked(**options, threads=2, out=tmp_path / "other"))  # another experiment, the same run
    assert again[0]["result"] == first[0]["result"]
    assert os.stat(tmp_path / "other" / again[0]["folder"] / "result.json").st_mtime_ns == stamp
    for change in ({"seeds": (1,)}, {"batch_size": 4}, {"backbone": "random:64x4"}, {"class_order": "shuffled"}):
        other = here("table1", asked(**options, **change))
        assert other[0]["folder"] != first[0]["folder"], change


def test_cells_that_are_the_same_run_share_it(asked, here) -> None:
    rows = here("table1", asked(methods=("ncm", "ncm")))
    assert rows[0] == rows[1]
    assert rows[0]["status"] == "done"


def test_what_experiments_measure_besides_stands_in_their_rows(asked, here, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("rwf.experiments.routing.PROMPTS", (1, 3))
    rows = here("prompts", asked(out=tmp_path / "prompts"))
    assert [(row["cell"]["m"], row["cell"]["weight"]) for row in rows] == [(1, "m"), (3, "m"), (3, "one")]
    for row in rows:
        assert 0 < row["measured"]["entropy"] < 1
        assert 1 <= row["measured"]["effective_rank"] + 1e-9 <= row["cell"]["m"] + 1e-6
    (row,) = here("drift", asked(out=tmp_path / "drift"))
    assert 0 < row["measured"]["moved_in_first_task"] < 1
    assert 0 < row["measured"]["moved_since_learned"] < 1
    (row,) = here("drift", asked(settings=(frozen(tmp_path),)))
    assert [row["measured"][name] for name in STILL] == [0.0] * 3
    (row,) = here("parameters", asked(methods=("rwf",), out=tmp_path / "parameters"))
    result = row["result"]
    assert row["measured"]["per_task"] == result["trainable_parameters"] - result["head_parameters"]
    assert row["measured"]["paper_percent"] == 2.13


def frozen(tmp_path: Path) -> Path:
    """Settings under which no query is trained."""
    path = tmp_path / "frozen.json"
    path.write_text(json.dumps({"rwf": {"train": "none"}}))
    return path


@pytest.fixture
def slow(tmp_path):
    """A method whose steps take a moment, by its settings only."""
    file = tmp_path / "slow.py"
    file.write_text(SLOW)
    return f"{file}:Slow"


def settings(tmp_path: Path, spec: str, pause: float) -> Path:
    path = tmp_path / "settings.json"
    path.write_text(json.dumps({spec: {"pause": pause}}))
    return path


def test_a_queue_that_is_broken_off_saves_its_runs_and_goes_on_to_the_same_rows(
    asked, here, slow, tmp_path, monkeypatch
) -> None:
    options = {"methods": (slow,), "settings": (settings(tmp_path, slow, 0.3),)}
    look = queue.pictures_learned

    def interrupt(folder: Path) -> int:
        if look(folder) >= 8:
            raise KeyboardInterrupt
        return 0

    with monkeypatch.context() as patched:
        patched.setattr(queue, "pictures_learned", interrupt)
        with pytest.raises(KeyboardInterrupt):
            carry_out("switch", asked(**options))
    (row,) = read_rows(tmp_path / "out")
    folder = tmp_path / "out" / row["folder"]
    assert row["status"] == "pending"
    assert (folder / "state.safetensors").exists()
    assert not (folder / "result.json").exists()
    assert "rwf resume" in (folder / "log.txt").read_text()
    learned = look(folder)
    assert 8 <= learned < 80
    (ended,) = here("switch", asked(**options))
    assert ended["folder"] == row["folder"]
    assert what_counts([ended]) == what_counts(here("switch", asked(**options, out=tmp_path / "whole")))


@pytest.mark.slow
def test_a_queue_that_is_killed_takes_its_runs_with_it_and_they_are_saved(asked, here, slow, folder, tmp_path) -> None:
    options = {"methods": (slow,), "settings": (settings(tmp_path, slow, 1.0),)}
    line = ["experiment", "table1", "--benchmark", f"folder:{folder}", "--backbone", "random:32x4", "--seeds", "0"]
    line += ["--tasks", "2", "--batch-size", "8", "--threads", "1", "--anytime", "0", "--out", str(tmp_path / "out")]
    line += ["--methods", slow, "--settings", str(options["settings"][0])]
    command = subprocess.Popen([sys.executable, "-m", "rwf.cli", *line], cwd=ROOT, stderr=subprocess.DEVNULL)
    runs, deadline = tmp_path / "out" / "runs", time.monotonic() + 120
    while not any(queue.pictures_learned(run) >= 8 for run in runs.glob("*")):
        assert time.monotonic() < deadline
        assert command.poll() is None
        time.sleep(0.1)
    command.send_signal(signal.SIGKILL)
    command.wait()
    (run,) = runs.glob("*")
    while True:  # the lock is free once the run has gone
        try:
            with FolderLock(run):
                break
        except UserError:
            assert time.monotonic() < deadline
            time.sleep(0.1)
    assert not (run / "result.json").exists()
    assert what_counts(here("table1", asked(**options))) == what_counts(
        here("table1", asked(**options, out=tmp_path / "whole"))
    )


@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="ray, an optional extra, is not installed")
def test_ray_ends_with_the_same_rows(asked, here, tmp_path) -> None:
    changes = CHANGES | {"methods": ("rwf",)}
    one = here("table1", asked(**changes, out=tmp_path / "one"))
    other, table = carry_out("table1", asked(**changes, out=tmp_path / "ray", ray="local"))
    assert what_counts(other) == what_counts(one)
    assert table == summary(one)
    assert os.environ["RAY_USAGE_STATS_ENABLED"] == "0"


def test_the_exit_code_says_that_a_row_failed(asked, folder, tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(carrying, "Processes", lambda *_how: Here())
    line = ["experiment", "table1", "--benchmark", f"folder:{folder}", "--backbone", "random:32x4", "--seeds", "0"]
    line += ["--tasks", "2", "--threads", "1", "--methods", "linear_probe", "--out", str(tmp_path / "o")]
    assert main([*line, "--lr", "0.01"]) == 0
    assert main([*line, "--lr", "0.01", "-1"]) == 1
    out = capsys.readouterr().out
    assert "| linear_probe | 0.01 |" in out
    assert "lr is" in out


def test_what_is_wrong_for_all_runs_is_said_at_once(asked) -> None:
    with pytest.raises(UserError, match="no method 'rfw'"):
        carry_out("table1", asked(methods=("rfw",)))
    with pytest.raises(UserError, match="no experiment 'table'; did you mean"):
        carry_out("table", asked())
    with pytest.raises(UserError, match="sets kv, which l2p has not"):
        carry_out("projections", asked(methods=("l2p",)))
    with pytest.raises(UserError, match="there is no"):
        carry_out("table1", asked(benchmark="split-nothing"))
    for wrong in ({"jobs": 0}, {"threads": -1}, {"seeds": ()}, {"gpus": 0.5}, {"tasks": 0}):
        with pytest.raises(UserError, match=f"--{next(iter(wrong))}"):
            carry_out("table1", asked(**wrong))
