"""Trained numbers, against the closed forms and the paper's percentages."""

from __future__ import annotations

from typing import Any

import pytest

from rwf.registry import METHODS
from rwf.run.params import rows, table
from rwf.vit.weights import load_backbone

WIDTH, DEPTH, CLASSES = 64, 3, 20


@pytest.fixture(scope="module")
def small() -> dict[str, dict[str, Any]]:
    return {row["method"]: row for row in rows(f"random:{WIDTH}x{DEPTH}", CLASSES)}


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
    heads = {row["method"]: row["head"] for row in rows("random:32x3", classes)}
    assert heads["linear_probe"] in (classes * 32, classes * 33)


@pytest.mark.slow
def test_rwf_on_vit_b16_has_the_papers_percentage() -> None:
    found = {row["method"]: row for row in rows("vit_base_patch16_224.augreg_in21k", 100)}
    assert found["rwf"]["ever"] == 3 * 615_168
    assert found["rwf"]["percent"] == pytest.approx(100 * 3 * 615_168 / 86_567_656)
    assert int(100 * found["rwf"]["percent"]) / 100 == found["rwf"]["paper_percent"] == 2.13


def test_the_table_has_every_row(small: dict[str, Any]) -> None:
    assert table(list(small.values())).row_count == len(small)
