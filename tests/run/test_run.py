"""A run from start to result: what it writes, that it can be broken off anywhere, and what it refuses."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from rwf.errors import UserError
from rwf.files import FolderLock, read_jsonl
from rwf.metrics import accuracy_matrix, summary
from rwf.run.loop import Stopped
from rwf.run.record import Record
from rwf.run.start import resume, start

KEYS = """method benchmark backbone seed mask needs final_accuracy forgetting accuracy_matrix learning_accuracy
average_incremental_accuracy anytime_accuracy online_accuracy trainable_parameters trainable_percent memory_bytes
forwards_per_image single_pass timing""".split()
OPTIONS = {"rwf": {"lr": 1e-2, "prompts": 4}, "linear_probe": {"lr": 1e-2}}


def without_timing(result: dict) -> dict:
    return {key: value for key, value in result.items() if key not in ("timing", "run")}


def contents(folder: Path) -> dict:
    """What two runs of one configuration must agree in, bit for bit."""
    rows = [{k: v for k, v in row.items() if k != "seconds"} for row in read_jsonl(folder / "rows.jsonl")]
    with np.load(folder / "predictions.npz") as file:
        predictions = {name: file[name].tolist() for name in file.files}
    return {"result": without_timing(json.loads((folder / "result.json").read_text())), "rows": rows} | predictions


def test_a_run_writes_what_the_contract_says(quick):
    options = quick()
    result = start("rwf", OPTIONS["rwf"], options)
    assert set(KEYS) <= result.keys()
    assert result == json.loads((options.out / "result.json").read_text())
    assert {p.name for p in options.out.iterdir()} >= {
        "config.json",
        "env.json",
        "rows.jsonl",
        "predictions.npz",
        "result.json",
        "state.safetensors",
    }
    passes = result["single_pass"]
    assert passes["images_in_stream"] == passes["seen"] == 100
    assert (passes["most_visits"], passes["second_looks"], passes["replays"]) == (1, 0, 0)
    assert passes["gradient_steps"] == 15
    assert result["forwards_per_image"] == 1.0
    assert result["needs"] == []
    assert result["final_accuracy"] > 30


def test_every_figure_follows_from_the_predictions(quick):
    options = quick()
    result = start("linear_probe", OPTIONS["linear_probe"], options)
    with np.load(options.out / "predictions.npz") as file:
        matrix = accuracy_matrix(file["labels"], file["tasks"], file["evaluations"], 5)
        classes = file["classes"]
    again = summary(matrix)
    for key in ("final_accuracy", "forgetting", "learning_accuracy", "accuracy_matrix"):
        assert result[key] == again[key]
    assert np.isnan(matrix[np.triu_indices(5, 1)]).all()
    assert len(classes) == 10
    online = [row["online"] for row in read_jsonl(options.out / "rows.jsonl") if "online" in row]
    assert len(online) == 15


class Broken(Exception):
    """Stands for whatever ends a process."""


@pytest.mark.parametrize("method", ["rwf", "linear_probe"])
@pytest.mark.parametrize("step", [1, 3, 8])
def test_broken_off_and_resumed_it_ends_the_same(quick, method, step, tmp_path, monkeypatch):
    whole, broken = quick(out=tmp_path / "whole"), quick(out=tmp_path / "broken", checkpoint_every=1e-9)
    start(method, OPTIONS[method], whole)
    after = Record.after

    def breaks(self, *args):
        after(self, *args)
        if self.progress.step == step + 1:
            raise Broken

    with monkeypatch.context() as patch:
        patch.setattr(Record, "after", breaks)
        with pytest.raises(Broken):
            start(method, OPTIONS[method], broken)
    resume(broken.out)
    assert contents(whole.out) == contents(broken.out)


def test_asked_to_end_it_saves_and_says_how_to_go_on(quick, tmp_path, monkeypatch):
    whole, stopped = quick(out=tmp_path / "whole"), quick(out=tmp_path / "stopped", checkpoint_every=1e9)
    start("rwf", OPTIONS["rwf"], whole)
    after = Record.after

    def asks(self, *args):
        after(self, *args)
        if self.progress.step == 6:
            signal.raise_signal(signal.SIGTERM)

    with monkeypatch.context() as patch:
        patch.setattr(Record, "after", asks)
        with pytest.raises(Stopped, match="rwf resume"):
            start("rwf", OPTIONS["rwf"], stopped)
    resume(stopped.out)
    assert contents(whole.out) == contents(stopped.out)


def kill_and_resume(options, method: str, rows: int, whole: dict) -> None:
    """SIGKILL to a real process once it has written so many rows; resumed, everything is as if it had not been."""
    fields = dataclasses.asdict(options) | OPTIONS[method]
    arguments = [f"--{key.replace('_', '-')}={value}" for key, value in fields.items() if value is not None]
    command = [sys.executable, "-m", "rwf.cli", "run", method, *arguments]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    file, deadline = options.out / "rows.jsonl", time.monotonic() + 120
    while process.poll() is None and time.monotonic() < deadline:
        if file.exists() and file.read_bytes().count(b"\n") >= rows:
            break
        time.sleep(0.002)
    assert process.poll() is None, f"it ended before it could be killed, with {process.returncode}"
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    resume(options.out)
    assert contents(options.out) == whole


@pytest.mark.parametrize(("method", "rows"), [("rwf", 4), ("linear_probe", 9)])
def test_killed_it_goes_on(quick, method, rows, tmp_path):
    start(method, OPTIONS[method], quick(out=tmp_path / "whole"))
    kill_and_resume(quick(out=tmp_path / "killed"), method, rows, contents(tmp_path / "whole"))


@pytest.mark.slow
@pytest.mark.parametrize("method", ["rwf", "linear_probe"])
def test_killed_five_times_it_goes_on(quick, method, tmp_path):
    start(method, OPTIONS[method], quick(out=tmp_path / "whole"))
    for rows in (1, 2, 6, 11, 18):
        kill_and_resume(quick(out=tmp_path / f"killed{rows}"), method, rows, contents(tmp_path / "whole"))


def test_a_finished_run_gives_its_result_again(quick):
    options = quick()
    assert start("linear_probe", {}, options) == resume(options.out)


def test_a_folder_is_used_once(quick):
    options = quick()
    start("linear_probe", {}, options)
    with pytest.raises(UserError, match="holds a finished run"):
        start("linear_probe", {}, options)


def test_a_locked_folder_is_refused(quick):
    options = quick()
    options.out.mkdir()
    with FolderLock(options.out), pytest.raises(UserError, match="another process"):
        start("linear_probe", {}, options)


def test_resuming_under_other_conditions_is_refused(quick, monkeypatch):
    options = quick()
    start("linear_probe", {}, options)
    (options.out / "result.json").unlink()
    env = json.loads((options.out / "env.json").read_text())
    env["packages"]["torch"] = "0.4.1"
    (options.out / "env.json").write_text(json.dumps(env))
    with pytest.raises(UserError, match="torch 0.4.1"):
        resume(options.out)


@pytest.mark.parametrize(
    ("method", "changes", "options", "sentence"),
    [
        ("rwf", {"tasks": 11}, {}, "11"),
        ("rwf", {"tasks": 0}, {}, "0"),
        ("rwf", {"batch_size": 0}, {}, "batch"),
        ("rwf", {"train_fraction": 0.0}, {}, "0"),
        ("rwf", {"threads": 0}, {}, "threads is 0"),
        ("rwf", {"device": "abacus"}, {}, "abacus"),
        ("rwf", {"backbone": "resnet50"}, {}, "ResNet"),
        ("rwf", {"benchmark": "folder:/nowhere"}, {}, "/nowhere"),
        ("rwf", {"order": "iid"}, {"mask": "task"}, "boundaries"),
        ("rwf", {}, {"blocks": 9}, "blocks=9"),
        ("rwf", {"anytime": -1}, {}, "anytime is -1"),
        ("nothing", {}, {}, "no method 'nothing'"),
    ],
)
def test_impossible_runs_get_a_sentence(quick, method, changes, options, sentence):
    with pytest.raises(UserError, match=sentence):
        start(method, options, quick(**changes))


def test_joint_is_an_iid_stream_seen_once(quick):
    result = start("joint", {}, quick())
    assert result["single_pass"]["most_visits"] == 1
    assert 0 <= result["learning_accuracy"] <= 100  # of groups of classes: nobody announced a task
    assert result["final_accuracy"] is not None


def test_a_mask_that_needs_boundaries_says_so_on_the_record(quick):
    result = start("linear_probe", {"mask": "task"}, quick())
    assert result["needs"] == ["boundaries", "task_classes"]


def test_a_full_disk_loses_nothing(quick, monkeypatch):
    options = quick(checkpoint_every=1e-9)
    after = Record.after

    def full(self, *args):
        after(self, *args)
        if self.progress.step == 5:
            raise UserError("cannot write: the disk is full.")

    with monkeypatch.context() as patch:
        patch.setattr(Record, "after", full)
        with pytest.raises(UserError, match="disk is full"):
            start("linear_probe", {}, options)
    assert resume(options.out)["single_pass"]["seen"] == 100
