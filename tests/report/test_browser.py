"""The pages in headless Chromium: no word on the console, tables and drawings there, nothing wider than a phone."""

from __future__ import annotations

import pytest

from rwf.report.demo import demo_page
from rwf.report.folder import Run
from rwf.report.markup import page, tag
from rwf.report.write import write_report
from tests.report.browser import Seen, browser, look
from tests.report.made import made_run, made_world
from tests.report.test_gather import row, write_rows

PHONE, DESKTOP = 360, 1280

pytestmark = pytest.mark.skipif(
    browser() is None, reason="there is no chromium: apt-get install chromium (.ci/run does it where it may)"
)


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    """The report and the demo's page at two widths, and a page that has every fault."""
    root = tmp_path_factory.mktemp("pages")
    names = ("rwf", "linear_probe", "a_method_of_somebody_with_a_very_long_name", "inflora")
    needs = {"needs": ["boundaries", "task_classes", "second_look", "task_count"]}
    made_world(root / "runs", names, 2, run={"tasks": 4, "batch_size": 64, "class_order": "shuffled"}, **needs)
    made_world(root / "real", ("rwf", "finetune"), 2, benchmark="split-cifar100", run={"tasks": 10})
    write_rows(root, [row(seed=s, cell={"k": k, "placement": "first"}) for k in (1, 3, 5) for s in (0, 1)])
    write_report([root], root / "out")
    report = (root / "out" / "report.html").read_text()
    runs: list[Run] = [made_run(name, seed=i, tasks=10) for i, name in enumerate(names)]
    demo = demo_page(runs)
    faulty = page("faulty", tag("div", "wide", style="width: 900px")).replace(
        "</body>", '<script>console.error("seen")</script></body>'
    )
    pages = {"report phone": (report, PHONE), "report desktop": (report, DESKTOP), "faulty": (faulty, PHONE)}
    return look(pages | {"demo phone": (demo, PHONE), "demo desktop": (demo, DESKTOP)}, root)


def test_the_browser_sees_faults(seen: Seen) -> None:
    assert [line for line in seen.console if "seen" in line]
    assert seen.frames["faulty"]["wide"] > seen.frames["faulty"]["room"]
    assert seen.frames["faulty"]["tables"] == 0


def test_nothing_is_written_on_the_console(seen: Seen) -> None:
    assert [line for line in seen.console if "seen" not in line] == []


@pytest.mark.parametrize("name", ["report phone", "report desktop", "demo phone", "demo desktop"])
def test_no_page_is_wider_than_its_window(name: str, seen: Seen) -> None:
    frame = seen.frames[name]
    assert frame["room"] > 300
    assert frame["wide"] <= frame["room"]


def test_tables_and_drawings_are_there(seen: Seen) -> None:
    report, demo = seen.frames["report phone"], seen.frames["demo phone"]
    assert report["title"] == "rwf report"
    assert report["tables"] >= 6  # two of plain runs with their comparisons, an experiment, the paper's
    assert report["rows"] > 30
    assert report["drawings"] > 10
    assert demo["tables"] == 1
    assert demo["rows"] == 4
    assert demo["drawings"] > 5
