"""The results that the project ships: whole, seen once, and the README's table is made from them."""

from __future__ import annotations

from pathlib import Path

from rwf.registry import METHODS
from rwf.report.gather import gather
from rwf.report.groups import groups
from rwf.report.headline import BEGIN, END, headline

ROOT = Path(__file__).resolve().parents[2]
FOUND = gather([ROOT / "results"])


def test_every_method_has_its_rows_and_none_failed() -> None:
    assert not FOUND.failed
    compared = {run.result["method"] for run in FOUND.runs if run.experiment == "table1"}
    assert compared == {name for name, entry in METHODS.items() if not entry.alias_of}


def test_every_picture_was_handed_out_once() -> None:
    for run in FOUND.runs:
        certificate = run.result["single_pass"]
        assert certificate["seen"] == certificate["images_in_stream"] > 0, run.source
        assert (certificate["most_visits"], certificate["second_looks"]) == (1, 0), run.source


def test_settings_come_from_searches_that_never_saw_a_test_picture_or_a_later_task() -> None:
    assert FOUND.studies
    for study in FOUND.studies:
        assert study["tuned_on"] == "tasks 1 to 3 of 10"
        assert not study["looks_ahead"]
        assert study["budget"]["trials"] == 5
        assert study["seeds"] == [100]
    assert all(run.seed != 100 for run in FOUND.runs)


def test_the_readme_has_the_table_that_the_tool_makes() -> None:
    table = (ROOT / "README.md").read_text().partition(BEGIN)[2].partition(END)[0]
    assert table.strip() == headline(groups(FOUND.runs)).markdown()
