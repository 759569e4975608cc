"""Which runs may stand in one row and in one table: never two data, never two weights, never one seed twice."""

from __future__ import annotations

import math
from typing import Any

import pytest

from rwf.options import RunOptions
from rwf.report.gather import Measured
from rwf.report.groups import STREAM, USUAL, groups, number
from rwf.report.results import measured_sheet
from tests.report.made import made_run


def measured(
    method: str = "rwf", seed: int = 0, *, experiment: str = "", cell: Any = None, besides: Any = None, **result: Any
) -> Measured:
    run = made_run(method, seed=seed, seed_name=seed, **result)
    return Measured(run.result, f"{method}-{seed}", run, experiment, cell or {}, besides or {})


def test_seeds_become_one_row_with_their_mean() -> None:
    runs = [measured(seed=s, final_accuracy=v) for s, v in enumerate((10.0, 20.0, 30.0))]
    (group,) = groups(runs)
    (row,) = group.rows
    mean = row.mean("final_accuracy")
    assert mean is not None
    assert (row.name, mean.value, mean.count) == ("rwf", 20.0, 3)
    assert row.mean("timing.learned_images_per_second") is not None
    assert row.mean("nothing") is None


def test_two_data_and_two_weights_are_never_mixed() -> None:
    hashes = [{}, {"benchmark_fingerprint": "other"}, {"backbone_hash": "other"}]
    made = groups([measured(seed=i, **more) for i, more in enumerate(hashes)])
    assert [len(group.rows[0].runs) for group in made] == [1, 1, 1]


@pytest.mark.parametrize("option", [{"tasks": 5}, {"train_fraction": 0.2}, {"class_order": "shuffled"}])
def test_another_stream_is_another_table_and_its_title_says_so(option: dict[str, Any]) -> None:
    made = groups([measured(), measured(seed=1, run={"batch_size": 16} | option)])
    assert len(made) == 2
    assert made[0].setting != made[1].setting
    (name,) = option
    assert name == "tasks" or any(name.replace("_", " ") in text for text in made[1].unusual)


def test_an_experiment_has_one_table_whose_rows_are_its_cells() -> None:
    runs = [
        measured(seed=s, experiment="tasks", cell={"tasks": t}, run={"tasks": t, "batch_size": 16})
        for t in (5, 10)
        for s in (0, 1)
    ]
    (group,) = groups(runs)
    assert [row.name for row in group.rows] == ["rwf (tasks 5)", "rwf (tasks 10)"]
    assert [len(row.runs) for row in group.rows] == [2, 2]
    assert group.tasks == [5, 10]


def test_an_experiment_that_varies_nothing_is_a_plain_table() -> None:
    (group,) = groups([measured(m, experiment="table1", final_accuracy=v) for m, v in (("ncm", 1.0), ("rwf", 2.0))])
    assert group.plain
    assert [row.name for row in group.rows] == ["rwf", "ncm"]


def test_what_an_experiment_measured_besides_has_a_table() -> None:
    runs = [measured(seed=s, experiment="few_shot", cell={"fraction": 1.0}, besides={"drop": s}) for s in (1, 3)]
    (group,) = groups(runs)
    sheet = measured_sheet(group)
    assert sheet is not None
    assert sheet.heads[1].title == "drop"
    assert sheet.lines[0].cells[1].startswith("2.000 ±")
    (bare,) = groups([measured(besides={"text": "no number"})])
    assert measured_sheet(bare) is None


def test_rows_of_one_method_are_named_after_what_differs() -> None:
    runs = [measured(options={"mask": mask, "lr": 0.1}) for mask in ("task", "none")] + [measured("ncm")]
    (group,) = groups(runs)
    assert {row.name for row in group.rows} == {"rwf (mask task)", "rwf (mask none)", "ncm"}


def test_the_same_seed_twice_counts_once_and_a_difference_is_said() -> None:
    same, other = measured(final_accuracy=10.0), measured(final_accuracy=11.0)
    (group,) = groups([same, same])
    assert len(group.rows[0].runs) == 1
    assert group.double == []
    (group,) = groups([same, other])
    assert group.rows[0].accuracy == 10.0
    assert "left out" in group.double[0]


def test_the_row_that_speaks_for_a_method_is_not_chosen_by_its_accuracy() -> None:
    runs = [measured(options={"lr": lr}, final_accuracy=v) for lr, v in ((0.1, 40.0), (0.2, 60.0))]
    (group,) = groups(runs)
    assert [row.label for row in group.rows] == ["lr 0.2", "lr 0.1"]
    row = group.row("rwf")
    assert row is not None
    assert row.label == "lr 0.1"
    assert group.row("ncm") is None


def test_a_figure_that_is_not_there_is_nan() -> None:
    assert math.isnan(number({"a": {"b": None}}, "a.b"))
    assert math.isnan(number({"a": 1}, "a.b"))
    assert number({"a": {"b": 2}}, "a.b") == 2.0


def test_what_is_usual_is_what_a_run_has_if_nothing_is_said() -> None:
    run = RunOptions(benchmark="b")
    assert {name: getattr(run, name) for name in STREAM[1:]} == USUAL
