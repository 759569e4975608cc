"""What a search found is shown whole: budget, choice, every point, the curve."""

from __future__ import annotations

from typing import Any

from rwf.report.tuned import tuned_parts
from tests.report.test_figures import drawn

STUDY: dict[str, Any] = {
    "method": "rwf",
    "benchmark": "split-made",
    "backbone": "random:32x4",
    "rate": "lr",
    "tuned_on": "tasks 1 to 3 of 5",
    "looks_ahead": False,
    "chosen": {"lr": 0.001},
    "edge": None,
    "budget": {"runs": 3, "image_forwards": 4800, "pruned": 0},
    "rows": [
        {"options": {"lr": lr}, "mean": mean, "chosen": lr == 0.001}
        for lr, mean in ((1e-4, 40.0), (1e-3, 60.5), (1e-2, 20.0))
    ],
}


def test_a_study_is_shown_with_its_budget_and_every_point() -> None:
    (part,) = tuned_parts([STUDY])
    studies, points = part.sheets
    assert studies.lines[0].cells == ("rwf", "tasks 1 to 3 of 5", "lr 0.001", "no", "60.50", "3", "4,800", "0")
    assert [line.cells[1:] for line in points.lines] == [
        ("lr 0.0001", "40.00"),
        ("lr 0.001", "60.50"),
        ("lr 0.01", "20.00"),
    ]
    assert len(list(drawn(part.figures[0]).iter("circle"))) >= 3


def test_studies_of_one_benchmark_share_a_section_and_what_is_unknown_is_a_dash() -> None:
    parts = tuned_parts([STUDY, STUDY | {"method": "ncm", "rows": [], "budget": {}, "looks_ahead": True}])
    (part,) = parts
    assert part.sheets[0].lines[1].cells[1].endswith("later tasks too")
    assert part.sheets[0].lines[1].cells[4:] == ("-", "-", "-", "-")
    assert len(tuned_parts([STUDY, STUDY | {"benchmark": "other"}])) == 2
    assert tuned_parts([{}])[0].figures == []
