"""`rwf bench`: rows with every key, for machines and for people; what is timed is there and finite, never judged."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from rwf.cli import main
from rwf.errors import UserError
from rwf.run.bench import bench, markdown
from rwf.run.timing import UNTIMED, Row

SMALL: dict[str, Any] = {
    "backbone": "random:32x4",
    "batch_size": 4,
    "methods": ("rwf", "ncm", "agem"),
    "time_backbone": "random:32x4",
    "time_batch": 2,
    "rounds": 1,
}
COUNTED = "train_f predict_f evaluation_f train_forwards predict_forwards saved_mb held_mb".split()
TIMED = "train_time_f predict_time_f train_ms predict_ms rate_to_forward rate_to_gemm".split()
VARIANTS = [
    ("rwf", "fast"),
    ("rwf", "literal"),
    ("rwf", "fast"),
    ("rwf", "literal"),
    ("ncm", "fast"),
    ("ncm", "cached"),
    ("agem", "fast"),
]


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return bench(**SMALL, time=True)


def test_a_row_for_each_method_and_variant(rows: list[Row]) -> None:
    assert [(row["method"], row["variant"]) for row in rows] == VARIANTS
    assert [row["options"] for row in rows[:4]] == [{}, {}, {"kv": "random"}, {"kv": "random"}]
    assert {(row["backbone"], row["batch_size"]) for row in rows} == {("random:32x4", 4)}


def test_what_is_counted_and_timed_is_there(rows: list[Row]) -> None:
    for row in rows:
        assert all(math.isfinite(row[key]) and row[key] >= 0 for key in COUNTED + TIMED)
        assert row["train_ms"] > 0
        assert row["peak_mb"] is None or row["peak_mb"] >= 0


def test_half_precision_is_timed_of_the_fast_form_of_rwf_only(rows: list[Row]) -> None:
    with_half = {(row["method"], row["variant"]) for row in rows if row["train_time_bf16_f"] is not None}
    assert with_half == {("rwf", "fast")}


def test_the_machine_is_on_the_record(rows: list[Row]) -> None:
    machine = rows[0]["machine"]
    assert all(row["machine"] == machine for row in rows)
    assert len(machine["load"]) == 2
    assert machine["rounds"] == 1
    assert machine["threads"] >= 1
    assert machine["clock"] in ("process_time", "perf_counter")
    assert set(machine["attention_ms"]) == {f"{k} {f}" for k in ("sdpa", "explicit") for f in ("fp32", "bf16")}
    rates = "forward_ms forward_gflops forward_bf16_f gemm_gflops gemm_bf16_gflops views_per_second".split()
    assert all(machine[key] > 0 for key in [*rates, "pil_views_per_second"])


def test_markdown_has_a_line_for_each_row_in_both_tables(rows: list[Row]) -> None:
    text = markdown(rows)
    lines = [line for line in text.splitlines() if line.startswith("|")]
    assert len(lines) == 2 * (2 + len(rows))
    assert len({line.count("|") for line in lines[: len(lines) // 2]}) == 1
    assert sum(line.startswith("| rwf kv=random | literal") for line in lines) == 2
    assert "load" in text


def test_counting_alone_leaves_the_times_empty() -> None:
    rows = bench(**SMALL | {"methods": ("gdumb", "ease")}, time=False)
    assert all(row[key] is None for row in rows for key in UNTIMED)
    text = markdown(rows)
    assert "Timed on" not in text
    assert "gdumb: each evaluation after new pictures costs" in text
    assert rows[0]["last_train_f"] is None
    assert rows[1]["last_train_f"] > rows[1]["train_f"], "finished sets of adapters are asked too"


def test_the_command_prints_rows_as_json_or_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["bench", "--no-time", "--methods", "l2p", "--backbone", "random:32x4", "--batch-size", "4"]
    assert main([*command, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [(row["method"], row["variant"]) for row in rows] == [("l2p", "fast"), ("l2p", "cached")]
    assert {"train_f", "predict_f", "train_time_f", "predict_time_f"} <= rows[0].keys()
    assert rows[0]["train_forwards"] == 2
    assert main(command) == 0
    assert "| l2p    | cached  |" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["batch_size", "time_batch", "rounds"])
def test_an_impossible_number_is_one_sentence(name: str) -> None:
    with pytest.raises(UserError, match=f"--{name.replace('_', '-')} is 0: give 1 or more"):
        bench(**SMALL | {name: 0}, time=False)


def test_an_unknown_method_ends_with_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--no-time", "--methods", "rwff"]) == 2
    assert "there is no method 'rwff'; did you mean 'rwf'" in capsys.readouterr().err
