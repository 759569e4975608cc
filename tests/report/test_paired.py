"""Paired comparisons: shares of pictures add up to the accuracy, and only shared seeds are compared."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rwf.metrics import NOT_EVALUATED
from rwf.report.gather import Measured
from rwf.report.groups import Group, groups
from rwf.report.paired import couples, pair_up, paired_sheet, shares, small
from tests.report.made import made_run


def measured(
    method: str, seed: int, right: float, *, guesses: bool = True, cell: dict[str, Any] | None = None
) -> Measured:
    run = made_run(method, seed=seed, seed_name=seed, right=right)
    return Measured(
        run.result, f"{method}{seed}{cell}", run if guesses else None, "some" if cell is not None else "", cell or {}
    )


def group(*runs: Measured) -> Group:
    (one,) = groups(runs)
    return one


@settings(max_examples=20)
@given(st.integers(1, 5), st.integers(0, 100))
def test_shares_add_up_to_the_final_accuracy(tasks: int, seed: int) -> None:
    run = made_run(tasks=tasks, seed=seed)
    assert shares(run).sum() == pytest.approx(run.result["final_accuracy"])


def test_pictures_that_were_not_asked_and_tasks_of_other_sizes_count_right() -> None:
    guesses = np.array([[0, 0, 1, NOT_EVALUATED, 1]])
    predictions = {"labels": np.array([0, 0, 1, 1, 0]), "tasks": np.array([0, 0, 1, 1, -1]), "evaluations": guesses}
    run = replace(made_run(), predictions=predictions)
    assert shares(run).tolist() == [25.0, 25.0, 50.0, 0.0, 0.0]


def test_only_shared_seeds_are_compared() -> None:
    both = group(*(measured("rwf", s, 0.7) for s in (0, 1, 2)), *(measured("ncm", s, 0.6) for s in (1, 2, 3)))
    ((row, base),) = couples(both, "rwf")
    pair = pair_up(row, base)
    assert pair is not None
    assert pair.seeds == (1, 2)
    assert pair.by_picture is not None
    assert pair.by_picture.sum(1) == pytest.approx(pair.by_seed)
    assert pair.drawn == "seeds and pictures"
    assert pair_up(group(measured("rwf", 0, 0.5)).rows[0], group(measured("ncm", 1, 0.5)).rows[0]) is None


def test_the_sheet_tells_clear_differences_from_none() -> None:
    runs = [measured("rwf", s, 0.9) for s in range(5)]
    runs += [measured("ncm", s, 0.88) for s in range(5)] + [measured("finetune", s, 0.1) for s in range(5)]
    sheet = paired_sheet(group(*runs), "rwf")
    assert sheet is not None
    said = {line.cells[0]: line.cells[-1] for line in sheet.lines}
    assert said == {"ncm": "not told apart", "finetune": "below"}
    assert sheet.lines == (paired_sheet(group(*runs), "rwf") or sheet).lines  # the same draws again


def test_rows_without_guesses_are_compared_by_seed_and_one_seed_by_its_pictures() -> None:
    sheet = paired_sheet(
        group(*(measured(m, s, r, guesses=False) for m, r in (("rwf", 0.8), ("ncm", 0.3)) for s in range(3))), "rwf"
    )
    assert sheet is not None
    assert sheet.lines[0].cells[4] == "seeds"
    sheet = paired_sheet(group(measured("rwf", 0, 0.9), measured("ncm", 0, 0.1)), "rwf")
    assert sheet is not None
    assert sheet.lines[0].cells[4] == "pictures"
    assert sheet.lines[0].cells[-1] == "below"
    sheet = paired_sheet(group(*(measured(m, 0, 0.5, guesses=False) for m in ("rwf", "ncm"))), "rwf")
    assert sheet is not None
    assert sheet.lines[0].cells[3:] == ("-", "nothing", "-", "-", "-")


def test_nothing_to_compare_with_is_no_sheet() -> None:
    assert paired_sheet(group(measured("ncm", 0, 0.5)), "rwf") is None


def test_cells_of_an_experiment_are_compared_with_their_own() -> None:
    cells = [{"mask": "task"}, {"mask": "none"}]
    runs = [measured(m, s, 0.5, cell=c) for c in cells for m in ("rwf", "linear_probe") for s in (0, 1)]
    found = couples(group(*runs, measured("ncm", 0, 0.5, cell={"mask": "n/a"})), "rwf")
    assert [(row.cell, base.cell) for row, base in found] == [(cell, cell) for cell in cells]
    assert all(row.method == "linear_probe" and base.method == "rwf" for row, base in found)


def test_small_numbers() -> None:
    assert [small(p) for p in (None, 0.0004, 0.0126, 1.0)] == ["-", "< 0.001", "0.013", "1.000"]
