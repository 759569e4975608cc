"""What is measured after the runs, against numbers worked out by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from rwf.experiments.measure import measure, online_by_task
from rwf.experiments.moves import correlation, distance, moved, without_line
from rwf.experiments.rows import new_row, take_result
from rwf.experiments.summary import spread, summary
from rwf.files import JsonLines, make_folder, write_json
from rwf.run.routing_figures import among_prompts, between_pictures, class_figures, effective_rank, entropy


def row(cell: dict, accuracy: float, seed: int = 0, folder: str = "f") -> dict:
    result = {"final_accuracy": accuracy, "needs": []}
    made = {"cell": cell, "method": cell["method"], "seed": seed, "folder": folder, "status": "done", "error": None}
    return made | {"result": result, "measured": {}}


def test_drops_are_taken_within_a_method_rate_and_seed(tmp_path) -> None:
    rows = [
        row({"method": "a", "fraction": f, "lr": 1}, accuracy, seed)
        for seed, f, accuracy in ((0, 1.0, 80.0), (0, 0.2, 60.0), (1, 1.0, 50.0), (1, 0.2, 40.0))
    ] + [row({"method": "a", "fraction": 0.2, "lr": 2}, 10.0)]
    measure("few-shot", rows, tmp_path)
    assert [r["measured"].get("drop") for r in rows] == [0, 20, 0, 10, None]
    assert [r["measured"].get("relative_drop") for r in rows] == [0, 25, 0, 20, None]


def test_gains_are_over_the_probe_with_the_same_detail_and_seed(tmp_path) -> None:
    rows = [row({"method": m, "detail": d}, a) for m, d, a in (("linear_probe", 8, 50.0), ("rwf", 8, 58.0))]
    rows.append(row({"method": "rwf", "detail": 4}, 40.0))
    measure("resolution", rows, tmp_path)
    assert [r["measured"] for r in rows] == [{}, {"above_probe": 8.0}, {}]


def test_the_first_batches_after_each_change_of_task(tmp_path) -> None:
    lines: list[dict[str, Any]] = [{"task": 0, "classes": ["a"]}, {"step": 1, "online": 1.0}, {"evaluation": 1}]
    lines += [{"task": 1, "classes": ["b"]}, *({"online": v} for v in (0.0, 0.5, 1.0, 1.0))]
    lines += [{"task": 2, "classes": ["c"]}, *({"online": v} for v in (0.2, 0.5))]
    assert online_by_task(lines) == [[1.0], [0.0, 0.5, 1.0, 1.0], [0.2, 0.5]]
    with JsonLines(make_folder(tmp_path / "f") / "rows.jsonl") as file:
        for line in lines:
            file.append(line)
    (made,) = rows = [row({"method": "a"}, 1.0)]
    measure("switch", rows, tmp_path)
    got = [made["measured"][f"first_{n}"] for n in (1, 2, 4, 8)]
    assert got == pytest.approx([10.0, (25 + 35) / 2, (62.5 + 35) / 2, (62.5 + 35) / 2])
    assert made["measured"]["last_8"] == pytest.approx((62.5 + 35) / 2)


def test_entropy_rank_and_distances_of_known_maps() -> None:
    flat, sharp = torch.full((1, 2, 4), 0.25), torch.eye(4)[None, :2]
    assert entropy(flat).tolist() == [[1.0, 1.0]]
    assert entropy(sharp).abs().max() == 0
    assert among_prompts(flat).tolist() == [0.0]
    assert among_prompts(sharp).tolist() == [0.5]
    assert effective_rank(torch.eye(3)[None]).tolist() == pytest.approx([3.0])
    assert effective_rank(torch.ones(1, 3, 5)).tolist() == pytest.approx([1.0], abs=1e-3)
    both = torch.cat([flat, sharp])
    assert torch.allclose(between_pictures(both), torch.tensor([[0.0, 0.75], [0.75, 0.0]]))


def test_classes_that_routing_tells_apart_and_classes_that_it_does_not() -> None:
    classes = torch.tensor([0, 0, 1, 1])
    apart = torch.tensor([[0, 1, 4, 4], [1, 0, 4, 4], [4, 4, 0, 1], [4, 4, 1, 0.0]])
    assert class_figures(apart, classes) == {
        "within_classes": 1.0,
        "between_classes": 4.0,
        "class_ratio": 4.0,
        "nearest_own": 100.0,
    }
    mixed = apart[:, [0, 2, 1, 3]][[0, 2, 1, 3]]
    assert class_figures(mixed, classes)["nearest_own"] == 0.0
    assert class_figures(apart[:1, :1], classes[:1])["class_ratio"] is None


def test_a_map_that_moves_where_pictures_are_forgotten(tmp_path) -> None:
    """Two tasks of two pictures; picture 0 moves by 1/2 and is forgotten, picture 1 stays and is kept."""
    folder = make_folder(tmp_path / "routing")
    start = np.array([[[1.0, 0.0]], [[1.0, 0.0]], [[0.0, 1.0]], [[0.0, 1.0]]])  # P m L
    after = start.copy()
    after[0, 0] = [0.5, 0.5]
    np.savez(folder / "pictures.npz", ids=np.arange(4))
    for number, maps in enumerate((start, start, after)):
        np.savez(folder / f"{number:03d}.npz", block_0=maps)
    np.savez(
        tmp_path / "predictions.npz",
        labels=np.array([0, 1, 2, 3]),
        tasks=np.array([0, 0, 1, 1]),
        evaluations=np.array([[0, 1, -1, -1], [2, 1, 2, 3]]),
    )
    got = moved(tmp_path)
    assert got["moved_in_first_task"] == 0.0
    assert got["moved_in_last_task"] == pytest.approx(0.125)
    assert got["moved_since_learned"] == pytest.approx(0.25)
    assert got["moved_of_forgotten"] == pytest.approx(0.5)
    assert got["moved_of_kept"] == 0.0
    assert got["correlation_with_forgetting"] is None  # one earlier task
    assert moved(tmp_path / "nothing") == {}


def test_correlation_with_and_without_the_age_of_a_task() -> None:
    line, bump = np.arange(6.0), np.array([0, 1, 0, -1, 1, 0.0])
    assert correlation(line + bump, line - bump) > 0.3
    assert correlation(without_line(line + bump), without_line(line - bump)) == pytest.approx(-1.0)
    assert math.isnan(correlation(line, np.ones(6)))
    assert math.isnan(correlation(line[:2], line[:2]))
    assert distance(np.array([[[1.0, 0.0]]]), np.array([[[0.0, 1.0]]])).tolist() == [1.0]


def test_the_table_has_a_line_a_cell_and_says_what_failed() -> None:
    rows = [row({"method": "a", "lr": 0.5}, value, seed) for seed, value in enumerate((70.0, 72.0))]
    rows[0]["measured"], rows[1]["measured"] = {"drop": 1.0, "note": "x"}, {"drop": 3.0}
    failed = row({"method": "b", "k": 1}, 0.0) | {"status": "failed", "error": "it burst.", "result": None}
    text = summary([*rows, failed])
    head, _, first, second = text.splitlines()[:4]
    assert head.startswith("| method | lr | k | runs | final accuracy |")
    assert "| drop |" in head
    assert first.startswith("| a | 0.5 |  | 2 | 71.00 ± 1.41 |")
    assert "2.00 ± 1.41" in first
    assert second.startswith("| b |  | 1 | 0 of 1 |")
    assert "- method b, k 1, seed 0: it burst." in text
    assert (spread([1.0]), spread([None]), spread([])) == ("1.00", "", "")


def test_long_arrays_of_a_result_stay_in_the_folder(tmp_path) -> None:
    from rwf.experiments.cell import Cell
    from rwf.options import RunOptions

    write_json(tmp_path / "result.json", {"a": 1, "short": [[1] * 20] * 20, "long": [[1] * 21] * 20})
    made = new_row("x", Cell(method="ncm", options={}, run=RunOptions(benchmark="b")), "")
    take_result(made, tmp_path)
    assert made["result"].keys() == {"a", "short"}
    assert made["status"] == "done"
