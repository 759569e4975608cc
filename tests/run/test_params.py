"""Trained numbers, against the closed forms and the paper's percentages."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rwf import cli
from rwf.registry import METHODS
from rwf.run.params import TASKS, rows, shallow_copy, table
from rwf.vit.weights import load_backbone

WIDTH, DEPTH, CLASSES = 64, 3, 20


@pytest.fixture(scope="module")
def small() -> dict[str, dict[str, Any]]:
    return defaults(f"random:{WIDTH}x{DEPTH}", CLASSES)


def defaults(backbone: str, classes: int) -> dict[str, dict[str, Any]]:
    """The first row of each method: its default configuration."""
    found: dict[str, dict[str, Any]] = {}
    for row in rows(backbone, classes):
        found.setdefault(row["method"], row)
    return found


def test_there_is_a_row_for_every_method(small: dict[str, Any]) -> None:
    assert list(small) == [name for name, entry in METHODS.items() if not entry.alias_of]
    for row in small.values():
        assert 0 <= row["per_task"] <= row["ever"]
        assert row["percent"] >= 0


def test_closed_forms(small: dict[str, Any]) -> None:
    whole = sum(p.numel() for p in load_backbone(f"random:{WIDTH}x{DEPTH}").timm.parameters())
    assert small["linear_probe"]["ever"] == 0
    assert small["linear_probe"]["head"] in (CLASSES * WIDTH, CLASSES * (WIDTH + 1))  # cosine, linear
    assert small["finetune"]["ever"] == small["joint"]["ever"] == whole
    assert small["rwf"]["ever"] == 3 * (30 * WIDTH + WIDTH * WIDTH + WIDTH + 2 * WIDTH)


@pytest.mark.parametrize("classes", [1, 7, 10, 33])
def test_the_head_holds_every_class_whatever_the_split(classes: int) -> None:
    assert defaults("random:32x3", classes)["linear_probe"]["head"] in (classes * 32, classes * 33)


def test_what_was_put_away_counts_as_ever_trained(small: dict[str, Any]) -> None:
    rank, bottleneck = 8, 64
    inflora, ease = small["inflora"], small["ease"]
    assert inflora["per_task"] == DEPTH * 2 * WIDTH * rank
    assert ease["per_task"] == DEPTH * (2 * WIDTH * bottleneck + bottleneck + WIDTH)
    for row in (inflora, ease):
        assert row["ever"] == TASKS * row["per_task"]
    assert ease["stored"] >= ease["ever"]
    assert small["ema_der_pp"]["stored"] >= 2 * small["der_pp"]["stored"]
    assert small["ncm"]["stored"] == CLASSES * (WIDTH + 1)  # a sum and a count


def test_a_method_may_unfreeze_its_copy_and_no_other() -> None:
    vit = load_backbone("random:32x2")
    first, second = shallow_copy(vit), shallow_copy(vit)
    first.requires_grad_(True)
    assert not any(p.requires_grad for model in (vit, second) for p in model.parameters())
    kept = [model.timm.blocks[0].mlp.fc1.weight.data_ptr() for model in (vit, first, second)]
    assert len(set(kept)) == 1


def test_vit_b16_beside_table_4() -> None:
    """docs/parameters.md explains each difference."""
    found = {(row["method"], row["variant"]): row for row in rows("vit_base_patch16_224.augreg_in21k", 100)}

    def percent(method: str, variant: str = "default") -> float:
        return round(found[method, variant]["percent"], 3)

    assert found["rwf", "hopfield_pooling"]["ever"] == 3 * 615_168
    assert found["rwf", "equations"]["ever"] == 3 * 612_864
    assert int(100 * percent("rwf", "hopfield_pooling")) / 100 == found["rwf", "hopfield_pooling"]["paper_percent"]
    assert found["l2p", "pool 10 x 5"]["per_task"] == 46_080
    assert found["dual_prompt", "expert 5"]["per_task"] == 253_440
    assert found["dual_prompt", "expert 20"]["per_task"] == 944_640
    assert found["coda_prompt", "default"]["per_task"] == 3_840_000
    assert found["inflora", "rank 8"]["ever"] == 1_474_560
    assert found["inflora", "rank 10"]["ever"] == 1_843_200
    assert (percent("inflora", "rank 8"), percent("inflora", "rank 10")) == (1.703, 2.129)
    assert found["aper_adapter", "default"]["per_task"] == found["ease", "default"]["per_task"] == 1_189_632
    assert (percent("aper_adapter"), percent("ease"), percent("online_lora")) == (1.374, 1.374, 0.170)
    assert found["finetune", "default"]["per_task"] == 85_798_656
    for (method, _), row in found.items():
        assert METHODS[method].trainable_percent == pytest.approx(defaults_percent(found, method), abs=5e-4), row


def test_json_has_the_keys_that_other_tools_read(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["params", "--backbone", "random:32x3", "--classes", "12", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {row["method"] for row in found} == {name for name, entry in METHODS.items() if not entry.alias_of}
    for row in found:
        assert {"method", "variant", "per_task", "ever", "stored", "percent", "paper_percent"} <= row.keys()
        assert ("reading" in row) == (row["method"] == "rwf")


def defaults_percent(found: dict[tuple[str, str], dict[str, Any]], method: str) -> float:
    """Of the first variant of a method, what one task trains."""
    row = next(row for (name, _), row in found.items() if name == method)
    return 100 * row["per_task"] / 86_567_656


def test_the_table_has_every_row(small: dict[str, Any]) -> None:
    assert table(list(small.values())).row_count == len(small)
