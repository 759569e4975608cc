"""The table a reader sees first: every method once, the figures of the report, and nothing else of the file touched."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rwf.cli import main
from rwf.errors import UserError
from rwf.report.gather import gather
from rwf.report.groups import groups
from rwf.report.headline import BEGIN, END, headline, put_into
from rwf.report.sheet import Head, Line, Sheet
from tests.report.made import made_world

AROUND = ("# A title\n\n" + BEGIN, END + "\n\nThe rest.\n")


@pytest.fixture
def worlds(tmp_path: Path) -> Path:
    made_world(tmp_path / "runs" / "a", ("rwf", "ncm", "finetune"))
    made_world(tmp_path / "runs" / "b", ("rwf", "slda"), benchmark="split-other", needs=["memory"])
    return tmp_path


def test_every_method_has_one_line_with_the_means_of_its_runs(worlds: Path) -> None:
    made = groups(gather([worlds / "runs"]).runs)
    sheet = headline(made)
    lines = {line.cells[0]: line for line in sheet.lines}
    assert list(lines) == [*(row.method for row in made[0].rows), "slda"]
    for i, group in enumerate(made):
        start = 1 + 3 * i
        assert sheet.heads[start].title == group.setting.benchmark
        for row in group.rows:
            mean = np.mean([run.result["final_accuracy"] for run in row.runs])
            assert lines[row.method].cells[start].startswith(f"{mean:.2f} ±")
            assert lines[row.method].cells[start + 2] == "3"
        best = [name for name, line in lines.items() if start in line.best]
        assert best == [max(group.rows, key=lambda row: row.accuracy).method]
    assert lines["slda"].cells[1:4] == ("-", "-", "-")
    assert (lines["slda"].cells[7], lines["ncm"].cells[7]) == ("memory", "nothing")


def test_the_table_takes_the_place_of_the_one_before(worlds: Path) -> None:
    readme = worlds / "README.md"
    readme.write_text(AROUND[0] + "\nwhat stood there\n" + AROUND[1])
    for _ in range(2):
        assert main(["report", str(worlds / "runs"), "--out", str(worlds / "out"), "--into", str(readme)]) == 0
        sheet = headline(groups(gather([worlds / "runs"]).runs))
        assert readme.read_text() == AROUND[0] + "\n\n" + sheet.markdown() + "\n\n" + AROUND[1]


@pytest.mark.parametrize("text", ["# no marks\n", BEGIN + "\n", END + "\n" + BEGIN + "\n"])
def test_a_file_without_a_place_stays_as_it_is(tmp_path: Path, text: str) -> None:
    path = tmp_path / "README.md"
    path.write_text(text)
    with pytest.raises(UserError, match="has no place for the table"):
        put_into(path, Sheet("t", [Head("method")], [Line(("rwf",))]))
    assert path.read_text() == text


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be read as text"):
        put_into(tmp_path / "none.md", Sheet("t", [Head("method")]))


def test_nothing_to_compare_is_said() -> None:
    with pytest.raises(UserError, match="methods alone"):
        headline([])
