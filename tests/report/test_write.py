"""`rwf report`: four files with the same figures, and a page that needs nothing but itself."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rwf.cli import main
from rwf.report.sheet import WIDE, Head, Line, Sheet
from tests.report.made import made_run, made_world, write_run
from tests.report.test_gather import row, write_rows
from tests.report.test_markup import check_page
from tests.report.test_routing import a_routing

METHODS = ("rwf", "coda_prompt", "finetune")


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = made_world(tmp_path_factory.mktemp("runs"), METHODS, 3)
    assert main(["report", str(root), "--out", str(root / "out")]) == 0
    return root / "out"


def test_all_files_hold_the_same_figures(out: Path) -> None:
    texts = {kind: (out / f"report.{kind}").read_text() for kind in ("html", "md", "tex", "csv")}
    rows = list(csv.DictReader((out / "report.csv").open()))
    assert {r["method"] for r in rows} == set(METHODS)
    for r in rows:
        value = f"{float(r['final_accuracy']):.2f}"
        assert r["seeds"] == "0 1 2"
        assert all(value in texts[kind] for kind in ("html", "md", "tex"))
    assert r"coda\_prompt" in texts["tex"]
    assert texts["tex"].count(r"\toprule") == texts["tex"].count(r"\bottomrule") > 0
    check_page(texts["html"])


def test_every_row_says_what_a_method_needs_and_costs(out: Path) -> None:
    root = check_page((out / "report.html").read_text())
    table = next(root.iter("table"))
    heads = ["".join(th.itertext()) for th in next(iter(table.iter("tr")))]
    assert any("told" in head for head in heads)
    assert any("trained" in head for head in heads)
    cells = ["".join(td.itertext()) for td in table.iter("td")]
    assert cells.count("nothing") == len(METHODS)
    assert cells.count("2.13") == len(METHODS)


def test_failures_and_mixtures_are_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_run(made_run(benchmark_fingerprint="one"), tmp_path / "a")
    write_run(made_run(benchmark_fingerprint="two"), tmp_path / "b")
    write_rows(tmp_path / "c", [row("ncm", status="failed", error="Traceback\nrwf: it broke", result=None)])
    assert main(["report", str(tmp_path), "--out", str(tmp_path / "out")]) == 0
    assert "2 different data" in capsys.readouterr().out
    text = (tmp_path / "out" / "report.md").read_text()
    assert "rwf: it broke" in text
    assert "Traceback" not in text


def test_maps_that_a_run_kept_are_shown(tmp_path: Path) -> None:
    run = made_run(tasks=4)
    folder = write_run(run, tmp_path / "one")
    maps = a_routing()
    (folder / "routing").mkdir()
    about: dict[str, Any] = {"ids": maps.ids, "pixels": maps.pixels.transpose(0, 3, 1, 2), "prefix": 1, "patches": 16}
    np.savez(folder / "routing" / "pictures.npz", **about)
    for moment, blocks in maps.maps.items():
        kept: dict[str, Any] = {f"block {b}": a for b, a in blocks.items()}
        np.savez(folder / "routing" / f"{moment:04d}.npz", **kept)
    assert main(["report", str(tmp_path), "--out", str(tmp_path / "out")]) == 0
    page = (tmp_path / "out" / "report.html").read_text()
    assert "Where RwF looks" in page
    check_page(page)


def test_a_method_that_is_not_there_is_said(tmp_path: Path) -> None:
    made_world(tmp_path, ("ncm", "slda"), 1)
    assert main(["report", str(tmp_path), "--out", str(tmp_path), "--against", "joint"]) == 0
    assert "there is no run of joint to compare with" in (tmp_path / "report.md").read_text()


def test_nothing_to_report_is_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(tmp_path)]) == 2
    assert "there is no finished run" in capsys.readouterr().err


def test_a_sheet_escapes_in_every_language() -> None:
    sheet = Sheet("a & b", [Head("x_y"), Head("v", "%", words=True)], [Line(("p|q", "1 ± 2"), frozenset({1}), True)])
    assert "a &amp; b" in sheet.page()
    assert "p\\|q" in sheet.markdown()
    assert r"x\_y" in sheet.tex()
    assert r"\textbf{1 $\pm$ 2}" in sheet.tex()
    assert "**1 ± 2**" in sheet.markdown()
    with pytest.raises(ValueError, match="1 cells under 2 heads"):
        Sheet("t", [Head("a"), Head("b")], [Line(("1",))])


def test_rows_alone_make_a_report(tmp_path: Path) -> None:
    write_rows(tmp_path, [row(seed=s, cell={"k": k}) for k in (1, 3) for s in (0, 1)])
    assert main(["report", str(tmp_path), "--out", str(tmp_path / "out")]) == 0
    text = (tmp_path / "out" / "report.md").read_text()
    assert "rwf (k 1)" in text
    assert "Experiment depth" in text
    assert json.loads((tmp_path / "rows.json").read_text())


@pytest.mark.parametrize("columns", [WIDE, WIDE + 1])
def test_wide_latex_tables_are_as_wide_as_the_text(columns: int) -> None:
    tex = Sheet("t", [Head("h")] * columns, [Line(("1",) * columns)]).tex()
    assert (r"\resizebox{\textwidth}" in tex) == (columns > WIDE)
    assert tex.count("{") == tex.count("}")
