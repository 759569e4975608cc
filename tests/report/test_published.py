"""The paper's numbers: all of them, as its tables print them, and in agreement with what is written elsewhere."""

from __future__ import annotations

import ast
import tomllib
from collections import Counter
from importlib.resources import files
from pathlib import Path

import pytest

from rwf import registry
from rwf.report.published import ABOUT, TABLES, Value, published

ROOT = Path(__file__).resolve().parents[2]


def value(table: str, method: str, benchmark: str, key: str = "final_accuracy", **more: object) -> Value:
    found = [
        place.figures[key]
        for place in published()
        if (place.table, place.method, place.benchmark) == (table, method, benchmark)
        and all(getattr(place, name) == wanted for name, wanted in more.items())
    ]
    assert len(found) == 1
    return found[0]


def test_every_table_is_whole() -> None:
    assert Counter(place.table for place in published()) == {
        "Table 1": 20 * 3,
        "Table 2": 7 * 4,
        "Table 3": 3 * (1 + 5 * 2 + 1),
        "Table 4": 7,
        "Figure 2": 2,
    }
    assert TABLES.keys() == ABOUT.keys()


@pytest.mark.parametrize(
    ("found", "mean", "deviation"),
    [
        (value("Table 1", "rwf", "split-imagenet-r"), 74.09, 0.29),
        (value("Table 1", "rwf", "split-imagenet-sketch", "forgetting"), 7.23, 0.35),
        (value("Table 1", "gdumb", "split-cifar100"), 41.00, 19.97),
        (value("Table 2", "inflora", "split-imagenet-r", train_fraction=0.2), 6.65, 0.08),
        (value("Table 3", "rwf", "split-cifar100", blocks=3, placement="last"), 60.81, 4.12),
        (value("Table 3", "finetune", "split-cifar100", blocks=0), 15.83, 0.25),
        (value("Table 4", "coda_prompt", "", "trainable_percent"), 5.00, None),
        (value("Figure 2", "rwf", "split-imagenet-r", tasks=40), 66.49, None),
    ],
)
def test_numbers_are_those_of_the_paper(found: Value, mean: float, deviation: float | None) -> None:
    assert (found.mean, found.deviation) == (mean, deviation)


def test_all_names_are_registered() -> None:
    assert {place.method for place in published()} <= registry.METHODS.keys()
    assert {place.benchmark for place in published()} - {""} <= registry.BENCHMARKS.keys()


def test_joint_and_gdumb_have_no_forgetting() -> None:
    bare = {place.method for place in published() if place.table == "Table 1" and "forgetting" not in place.figures}
    assert bare == {"joint", "gdumb"}


def test_the_numbers_of_rwf_params_are_the_same() -> None:
    tree = ast.parse((ROOT / "rwf" / "run" / "params.py").read_text())
    (stated,) = [
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "PAPER_PERCENT"
    ]
    assert stated == {p.method: p.figures["trainable_percent"].mean for p in published() if p.table == "Table 4"}


def test_a_built_package_holds_them() -> None:
    setuptools = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    assert "*.csv" in setuptools["package-data"]["*"]
    assert "rwf.*" in setuptools["packages"]["find"]["include"]
    held = {file.name for file in files("rwf.report.paper").iterdir()}
    assert set(TABLES.values()) | {"__init__.py"} <= held  # without __init__.py the folder would not be packed
