"""Runs over streams without tasks, over pictures that cannot be read, and what they leave behind."""

from __future__ import annotations

import json
import math
import shutil
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rwf.data.catalog import open_benchmark
from rwf.data.orders import ORDERS, WITH_TASKS
from rwf.errors import UserError
from rwf.files import read_jsonl
from rwf.metrics import accuracy_matrix, learned_at
from rwf.run.console import result_table
from rwf.run.start import resume, start

MIXED = sorted(set(ORDERS) - WITH_TASKS)
PERCENT = (
    "final_accuracy",
    "learning_accuracy",
    "average_incremental_accuracy",
    "anytime_accuracy",
    "worst_case_accuracy",
    "online_accuracy",
)
LOSSES = ("forgetting", "forgetting_all_tasks", "stability_gap")


def shown(result: dict[str, Any]) -> str:
    """The result as a person sees it, on one line."""
    return " ".join(str(cell) for column in result_table(result).columns for cell in column.cells)


def numbers_in(value: Any) -> Iterator[float]:
    if isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from numbers_in(part)
    elif isinstance(value, int | float):
        yield value


# -- streams without tasks -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch_size", [1, 8])
@pytest.mark.parametrize("order", MIXED)
def test_without_tasks_every_figure_is_there_and_follows_from_the_predictions(order, batch_size, quick):
    options = quick(order=order, batch_size=batch_size, anytime=2)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", category=RuntimeWarning, message=".*(empty slice|All-NaN|invalid value)")
        result = start("linear_probe", {}, options)
    assert all(0 <= result[key] <= 100 for key in PERCENT)
    assert all(0 <= result[key] <= 100 for key in LOSSES)
    assert -100 <= result["backward_transfer"] == -result["forgetting_after_learning"] <= 100
    assert all(map(math.isfinite, numbers_in(result)))
    with np.load(options.out / "predictions.npz") as file:
        r = accuracy_matrix(file["labels"], file["tasks"], file["evaluations"], 5)
        ends, names = file["evaluated_after"], file["classes"].tolist()
    assert np.diff([0, *ends]).tolist() == ([20] * 5 if batch_size == 1 else [24, 24, 16, 24, 12])
    for row in read_jsonl(options.out / "rows.jsonl"):
        assert "task" not in row  # nobody announces one
    groups = [names.index(name) // 2 for name in stream_labels(options)]
    at = learned_at(groups, ends, 5)
    assert result["learning_accuracy"] == pytest.approx(np.mean([r[at[j], j] for j in range(5)]))
    early = [j for j in range(5) if at[j] < 4]
    assert result["forgetting"] == pytest.approx(np.mean([np.nanmax(r[at[j] :, j]) - r[-1, j] for j in early]))
    assert result["average_incremental_accuracy"] == pytest.approx(np.mean([np.nanmean(row) for row in r]))
    assert result["final_accuracy"] == pytest.approx(r[-1].mean())
    curve = [point["pictures"] for point in result["anytime_curve"]]
    assert len(curve) == 10
    assert curve[-1] == result["single_pass"]["seen"] == 100


def stream_labels(options) -> list[str]:
    """The labels of a run's stream in their order."""
    from rwf.run.start import learner_config
    from rwf.run.world import World

    stream = World(learner_config("linear_probe", {}, options), options).stream
    return [stream.catalog.classes[label] for label in stream.catalog.train.labels[stream.plan.ids]]


def test_a_method_that_needs_tasks_refuses_a_stream_without_them(quick):
    with pytest.raises(UserError, match="needs task boundaries"):
        start("ease", {}, quick(order="drift"))


def test_accuracy_is_over_the_classes_seen_so_far(quick):
    options = quick(order="drift")
    start("linear_probe", {}, options)
    order = stream_labels(options)
    with np.load(options.out / "predictions.npz") as file:
        names = file["classes"].tolist()
        for guesses, end in zip(file["evaluations"], file["evaluated_after"], strict=True):
            met = {names.index(label) for label in order[:end]}
            asked = np.isin(file["labels"], list(met))
            assert (guesses[~asked] == -1).all()
            assert set(guesses[asked].tolist()) <= met


# -- pictures that cannot be read ------------------------------------------------------------------------------------


@pytest.fixture
def damaged(folder, tmp_path) -> Path:
    """The folder of toys with five training pictures and a test picture that are damaged, among them one that is a
    batch of its own."""
    root = tmp_path / "damaged"
    shutil.copytree(folder, root)
    places = sorted((root / "train").glob("*/*.png"))
    for path in places[:3] + places[40:42]:
        path.write_bytes(path.read_bytes()[:40])
    next(iter(sorted((root / "test").glob("*/*.png")))).write_bytes(b"")
    return root


@pytest.mark.parametrize("method", ["linear_probe", "er", "gdumb"])
@pytest.mark.parametrize("batch_size", [1, 8])
def test_pictures_that_cannot_be_read_are_counted_in_the_certificate(method, batch_size, damaged, quick):
    settings = {"epochs": 1} if method == "gdumb" else {}
    options = quick(benchmark=f"folder:{damaged}", batch_size=batch_size, on_bad_image="skip", anytime=1)
    result = start(method, settings, options)
    passes = result["single_pass"]
    assert (passes["images_in_stream"], passes["seen"], passes["skipped"], passes["skipped_tests"]) == (100, 95, 5, 1)
    assert "95 of 100 pictures seen" in shown(result)
    assert "cannot be read and left out: 5, of the test 1" in shown(result)
    assert result["anytime_curve"][-1]["pictures"] == 95
    with np.load(options.out / "predictions.npz") as file:
        assert file["evaluated_after"].tolist() == [17, 37, 55, 75, 95]  # what was learned, not what was planned
        assert (file["evaluations"][-1] == -1).sum() == 1


def test_it_stops_at_a_damaged_picture_and_resumes_without_it(damaged, quick):
    options = quick(benchmark=f"folder:{damaged}")
    with pytest.raises(UserError, match="cannot be read.*in rwf resume: --on-bad-image skip"):
        start("linear_probe", {}, options)
    with pytest.raises(UserError, match="cannot be read"):
        resume(options.out)
    result = resume(options.out, on_bad_image="skip")
    assert result["single_pass"]["skipped"] == 5
    assert json.loads((options.out / "config.json").read_text())["run"]["on_bad_image"] == "skip"
    whole = start("linear_probe", {}, quick(benchmark=f"folder:{damaged}", on_bad_image="skip", out=options.out / "b"))
    assert result["accuracy_matrix"] == whole["accuracy_matrix"]


# -- what a run leaves ------------------------------------------------------------------------------------------------


def test_the_manifest_of_the_split_is_in_env_json(folder, quick):
    options = quick(benchmark=f"folder:{folder / 'train'}")  # no test folder: split by rank
    result = start("linear_probe", {}, options)
    catalog = open_benchmark(options.benchmark)
    environment = json.loads((options.out / "env.json").read_text())
    assert environment["benchmark_fingerprint"] == result["benchmark_fingerprint"] == catalog.fingerprint
    assert (environment["train_pictures"], environment["test_pictures"]) == (80, 20)
    assert any("80 training and 20 test pictures were chosen by ranking" in notice for notice in environment["notices"])


def test_a_start_that_fails_leaves_no_folder(quick, tmp_path):
    for benchmark in ("split-digit", f"folder:{tmp_path}/none"):
        with pytest.raises(UserError):
            start("linear_probe", {}, quick(benchmark=benchmark, out=tmp_path / "new"))
        assert not (tmp_path / "new").exists()
    (tmp_path / "mine").mkdir()
    with pytest.raises(UserError):
        start("linear_probe", {}, quick(benchmark="split-digit", out=tmp_path / "mine"))
    assert (tmp_path / "mine").is_dir()
