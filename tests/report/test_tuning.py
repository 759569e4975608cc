"""A search as text."""

from __future__ import annotations

from typing import Any

from rwf.report.tuning import chart, tuning


def search(means: list[float | None], **more) -> dict:
    """What tune.json holds of rates 1e-4, 1e-3, ... with these means; None for one that failed."""
    rows: list[dict[str, Any]] = []
    for i, mean in enumerate(means):
        row: dict[str, Any] = {
            "options": {"lr": 10.0 ** (i - 4)},
            "image_forwards": 100,
            "chosen": mean == max(m or 0 for m in means),
        }
        rows.append(row | ({"error": "the loss became nan."} if mean is None else {"accuracy": [mean], "mean": mean}))
    budget = {"trials": len(rows), "trials_left": 0, "runs": len(rows), "image_forwards": 100 * len(rows)}
    whole: dict[str, Any] = {
        "method": "rwf",
        "benchmark": "b",
        "rate": "lr",
        "seeds": [0],
        "tuned_on": "tasks 1 to 3 of 10",
    }
    return whole | {"rows": rows, "budget": budget, "edge": None} | more


def test_every_setting_is_shown_and_the_chosen_one_marked() -> None:
    lines = tuning(search([10.0, 45.5, 30.0])).splitlines()
    assert lines[0].split() == ["lr", "seed", "0"]
    assert [line.split() for line in lines[1:4]] == [
        ["0.0001", "10.00"],
        ["0.001", "45.50", "chosen"],
        ["0.01", "30.00"],
    ]
    assert lines[-1] == (
        "rwf on b: 3 settings, 3 runs, 300 image-forwards; chosen on training pictures of tasks 1 to 3 of 10."
    )


def test_the_curve_is_a_line_of_blocks() -> None:
    assert chart(search([10.0, 45.0, 27.5])) == "0.0001 ▁█▅ 0.01 (from 10.0 to 45.0)"
    assert chart(search([3.0, 3.0])) == "0.0001 ▁▁ 0.001 (from 3.0 to 3.0)"
    assert chart(search([3.0])) == ""
    assert chart(search([1.0, 2.0], rate=None)) == ""


def test_of_two_options_the_curve_shows_the_best_at_each_rate() -> None:
    found = search([10.0, 20.0])
    found["rows"] += [{"options": {"lr": 1e-4}, "mean": 40.0, "accuracy": [40.0], "chosen": False}]
    assert chart(found) == "0.0001 █▁ 0.001 (from 20.0 to 40.0)"


def test_what_went_wrong_and_what_is_left_is_said() -> None:
    found = search([10.0, None], edge="lowest")
    found["budget"]["trials_left"] = 4
    text = tuning(found)
    assert "the loss became nan." in text
    assert "4 settings were not tried: the budget was spent." in text
    assert "The chosen rate is the lowest of those tried" in text
    assert "0.001       -" in text
