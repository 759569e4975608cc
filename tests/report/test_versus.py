"""Beside the paper: the right row, the right verdict, and no verdict where data or weights are others."""

from __future__ import annotations

from typing import Any

import pytest

from rwf.report.gather import Measured
from rwf.report.groups import groups
from rwf.report.published import Value, published
from rwf.report.statistics import Mean
from rwf.report.versus import matches, signed, unlike, verdict, versus_sheets
from tests.report.made import made_run

RUN = {"tasks": 10, "batch_size": 64}


def ours(method: str = "rwf", seed: int = 0, run: Any = None, **result: Any) -> Measured:
    content = {
        "benchmark": "split-cifar100",
        "backbone": "vit_base_patch16_224.augreg_in21k",
        "single_pass": {"images_in_stream": 50_000},
        "run": RUN | (run or {}),
    }
    made = made_run(method, seed=seed, seed_name=seed, **(content | result))
    return Measured(made.result, f"{method}{seed}{run}{result}", made)


def place(table: str, **wanted: Any) -> Any:
    return next(p for p in published() if p.table == table and all(getattr(p, k) == v for k, v in wanted.items()))


RWF = place("Table 1", method="rwf", benchmark="split-cifar100")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({}, None),
        ({"backbone": "vit_base_patch16_224.orig_in21k"}, None),
        ({"backbone": "vit_base_patch16_224.augreg_in21k_ft_in1k"}, "weights"),
        ({"single_pass": {"images_in_stream": 25_000}}, "25000 training pictures, not 50000"),
        ({"single_pass": {}}, "unknown number"),
        ({"run": {"batch_size": 16}}, "batch size 16"),
        ({"run": {"order": "blurry"}}, "order blurry"),
        ({"run": {"image_size": 64}}, "image size 64"),
    ],
)
def test_what_is_not_the_papers_is_named(change: dict[str, Any], reason: str | None) -> None:
    found = unlike(ours(**change), RWF)
    assert found == [] if reason is None else len(found) == 1 and reason in found[0]


def test_a_run_matches_its_own_place_only() -> None:
    at = {
        "k3": ours(),
        "k5": ours(options={"blocks": 5}),
        "last": ours(options={"placement": "last"}),
        "all": ours(options={"blocks": 12, "placement": "last"}),
    }
    of = {"method": "rwf", "benchmark": "split-cifar100"}
    places = {
        "k3": [RWF, place("Table 3", blocks=3, placement="first", **of)],
        "k5": [place("Table 3", blocks=5, placement="first", **of)],
        "last": [place("Table 3", blocks=3, placement="last", **of)],
        "all": [place("Table 3", blocks=12, **of)],
    }
    for name, run in at.items():
        for other, own in places.items():
            assert all(matches(p, run) is (name == other) for p in own)
    assert not matches(RWF, ours(run={"tasks": 5}))
    assert not matches(RWF, ours(run={"train_fraction": 0.5}))
    assert not matches(RWF, ours("finetune"))
    assert not matches(RWF, ours(benchmark="split-imagenet-r"))
    assert matches(place("Table 3", method="finetune", benchmark="split-cifar100"), ours("finetune"))


@pytest.mark.parametrize(
    ("mean", "paper", "reasons", "said"),
    [
        (Mean(82.5, 3, 0.3, 0.1), Value(82.48, 0.31), [], "yes"),
        (Mean(84.0, 3, 0.3, 0.1), Value(82.48, 0.31), [], "no"),
        (Mean(82.5, 1, None, None), Value(82.48, 0.31), [], "one run"),
        (Mean(82.5, 3, 0.3, 0.1), Value(82.48, None), [], "no deviation stated"),
        (Mean(82.5, 3, 0.3, 0.1), Value(82.48, 0.31), ["other weights"], "not comparable"),
    ],
)
def test_the_verdict(mean: Mean, paper: Value, reasons: list[str], said: str) -> None:
    assert verdict(mean, paper, reasons) == said


def test_the_tables_show_every_row_of_the_paper_and_ours_beside_it() -> None:
    runs = [ours(seed=s, final_accuracy=82.4 + 0.1 * s, forgetting=6.7 + 0.1 * s) for s in range(3)]
    runs += [ours("finetune", s, backbone="random:4x4") for s in range(2)]
    first, third, fourth = versus_sheets(groups(runs))
    lines = {line.cells[0]: line.cells[1:] for line in first.lines}
    assert len(lines) == 20
    assert lines["rwf"] == (
        *("3", "82.48 ± 0.31", "82.50 ± 0.25", "+0.02", "yes"),
        *("6.71 ± 0.43", "6.80 ± 0.25", "+0.09", "yes", "-"),
    )
    assert lines["ease"] == ("-", "84.81 ± 1.19", "-", "-", "-", "4.86 ± 0.38", "-", "-", "-", "-")
    assert lines["finetune"][4] == "not comparable"
    assert lines["finetune"][-1] == "weights random:4x4"
    assert len(third.lines) == 12
    assert {line.cells[0]: line.cells[1:] for line in fourth.lines}["rwf"] == ("2.13", "2.130", "0.000")


def test_a_benchmark_that_the_paper_has_not_gives_no_table() -> None:
    assert versus_sheets(groups([ours(benchmark="split-renditions", backbone="vit_nano")])) == []


def test_signs() -> None:
    assert [signed(v) for v in (1.234, -1.234, 0.001, -0.001)] == ["+1.23", "−1.23", "0.00", "0.00"]
