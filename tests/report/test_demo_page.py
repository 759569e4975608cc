"""The page of the demo: everything is on it, nothing outside is needed, and page and terminal agree."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rwf.errors import UserError
from rwf.report.demo import cost, demo_page, sentence
from rwf.report.folder import Run, read_arrays
from rwf.report.maps import routing_section
from rwf.report.markup import page
from rwf.report.table import text_table
from tests.report.made import made_run
from tests.report.test_markup import check_page
from tests.report.test_routing import a_routing

NAMES = ["rwf", "linear_probe", "finetune", "l2p"]


def runs(names: list[str] = NAMES, **more: Any) -> list[Run]:
    return [made_run(name, seed=i, **more) for i, name in enumerate(names)]


@settings(max_examples=12)
@given(
    st.lists(st.sampled_from([*NAMES, "own <method> & more"]), min_size=1, max_size=5, unique=True), st.integers(1, 13)
)
def test_every_method_is_in_table_curves_and_matrices(names: list[str], tasks: int) -> None:
    made = runs(names, tasks=tasks)
    root = check_page(demo_page(made))
    rows = {th.text for table in root.iter("table") for th in table.iter("th") if th.get("scope") == "row"}
    curves = {title.text for svg in root.iter("svg") if svg.get("class") == "curves" for title in svg.iter("title")}
    matrices = [svg.get("aria-label") for svg in root.iter("svg") if svg.get("class") == "matrix"]
    assert rows >= set(names)
    assert curves == set(names)
    assert matrices == [f"accuracy matrix of {name}" for name in names]
    text = "".join(root.itertext())
    assert sentence(made) in text
    assert "drawn by a program" in text


def test_the_page_and_the_terminal_have_the_same_figures() -> None:
    made = [replace(run, cost={"tflop": 1.5 + i}) for i, run in enumerate(runs())]
    root = check_page(demo_page(made))
    table = next(t for t in root.iter("table") if t.get("class") == "figures")
    cells = [[c.text for c in row] for body in table.iter("tbody") for row in body]
    lines = text_table(made).splitlines()
    assert [line.split() for line in lines[2:]] == cells
    assert {len(line) for line in lines} == {len(lines[0])}
    assert len(lines[0]) <= 80
    best = [cell.text for cell in table.iter("td") if cell.get("class") == "best"]
    finals = [f"{run.result['final_accuracy']:.1f}" for run in made]
    assert best == [max(finals, key=float)] * finals.count(max(finals, key=float))
    assert cost(made) == "Counted: 12.00 TFLOP of products for learning and answering together."
    assert cost([made[0], made_run("gdumb")]).endswith("together, without gdumb.")
    assert cost(runs()) == ""


def test_what_a_run_does_not_determine_is_a_dash() -> None:
    one = made_run(tasks=1)
    assert one.result["forgetting"] is None
    assert text_table([one]).splitlines()[2].split()[:3] == ["rwf", f"{one.result['final_accuracy']:.1f}", "-"]
    assert "forg" not in sentence([one])
    check_page(demo_page([one]))


def test_a_run_that_is_not_synthetic_is_not_called_so() -> None:
    real = [replace(run, environment={"benchmark_source": "folder pictures"}) for run in runs()]
    assert "synthetic" not in sentence(real)
    assert "drawn by a program" not in demo_page(real)


def test_the_mean_over_tasks_met_is_that_of_the_rows() -> None:
    run = made_run(tasks=3)
    by_hand = [run.matrix[i, : i + 1].mean() for i in range(3)]
    assert run.after_each == pytest.approx(by_hand)
    assert run.after_each[-1] == pytest.approx(run.result["final_accuracy"])
    assert (run.asked, run.class_count) == (30, 6)


def test_maps_stand_beside_their_picture_and_what_was_said_of_it() -> None:
    run, routing = made_run(tasks=4), a_routing()
    routing.ids[:] = [3, 38]  # of the first and of the last task
    root = check_page(page("t", routing_section(run, routing)))
    cards = list(root.iter("article"))
    assert [card.findtext(".//h3") for card in cards] == ["class 0", "class 7"]
    for card in cards:
        assert len([i for i in card.iter("img") if i.get("class") == "map"]) == 2 * 3 * (1 + 4)
        assert [c.text for c in card.iter("caption")] == ["block 1", "block 3"]
    said = [[(s.get("class"), s.text) for s in card.iter("span")] for card in cards]
    for moment, (verdict, guess) in zip((1, 2, 4), said[0], strict=True):
        expected = str(run.predictions["classes"][run.predictions["evaluations"][moment - 1][3]])
        assert guess == expected
        assert verdict == ("right" if expected == "class 0" else "wrong")
    assert said[1][:2] == [("unasked", "not met")] * 2
    text = "".join(root.itertext())
    assert f"{100 * routing.prefix_share(4, 0):.1f} %" in text
    assert f"{routing.moved(1, 2, 2):.3f}" in text
    assert "kept prompts" not in text


def test_kept_prompts_are_stated() -> None:
    routing = a_routing(tokens=22)
    text = "".join(check_page(page("t", routing_section(made_run(), routing))).itertext())
    assert "to kept prompts" in text
    assert f"{100 * routing.kept_share(4, 2):.1f} %" in text


def test_one_colour_stands_for_one_number_in_all_maps() -> None:
    run, routing = made_run(tasks=4), a_routing()
    for blocks in routing.maps.values():
        for block in blocks:
            blocks[block] = np.full((2, 5, 17), 1 / 17)
    root = check_page(page("t", routing_section(run, routing)))
    assert len({i.get("src") for i in root.iter("img") if i.get("class") == "map"}) == 1
    assert "1 times what an even spread gives" in "".join(root.itertext())


def test_a_damaged_file_of_arrays_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="there is no file"):
        read_arrays(tmp_path / "none.npz")
    (tmp_path / "bad.npz").write_bytes(b"PK\x03\x04 not a zip")
    with pytest.raises(UserError, match="is damaged"):
        read_arrays(tmp_path / "bad.npz")
