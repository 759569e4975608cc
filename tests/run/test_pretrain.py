"""The recipe of the embedded backbone: the same weights whether stopped or not, and a file that loads as any other."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load

from rwf.data.world import plain
from rwf.data.world.symbols import PRETRAIN, STREAM
from rwf.errors import UserError
from rwf.run.pretrain import NAME, Recipe, pretrain, schedule
from rwf.vit.weights import load_backbone

TINY = Recipe(width=32, depth=1, steps=6, batch=4, warmup=2)


def weights(folder: Path) -> bytes:
    return (folder / f"{NAME}.safetensors").read_bytes()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pretrain")
    pretrain(folder, TINY, held_out=1)
    return folder


def test_a_stop_changes_no_bit_of_the_weights(whole: Path, tmp_path: Path) -> None:
    assert pretrain(tmp_path, TINY, stop_after=3, held_out=1) == {}
    assert not (tmp_path / f"{NAME}.safetensors").exists()
    pretrain(tmp_path, TINY, held_out=1)
    stopped, straight = load(weights(tmp_path)), load(weights(whole))
    assert stopped.keys() == straight.keys()
    assert all(torch.equal(stopped[key], straight[key]) for key in straight)
    rows = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows] == [6]


def test_the_card_is_about_the_file(whole: Path) -> None:
    card = json.loads((whole / f"{NAME}.json").read_text())
    assert card["sha256"] == hashlib.sha256(weights(whole)).hexdigest()
    assert card["recipe"]["width"] == 32
    vit = load_backbone(str(whole / card["file"]))
    assert (vit.width, vit.depth, vit.heads, vit.image_size) == (32, 1, 1, 64)
    assert vit.features(torch.zeros(2, 3, 64, 64)).shape == (2, 32)


def test_another_recipe_does_not_go_on_with_this_one(whole: Path) -> None:
    with pytest.raises(UserError, match="belongs to another recipe: go on with that one or choose an empty folder"):
        pretrain(whole, replace(TINY, lr=1e-2), held_out=1)


@pytest.mark.parametrize("wrong", [{"width": 48}, {"depth": 0}, {"steps": 0}])
def test_impossible_recipes_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(UserError, match="the recipe cannot be used"):
        replace(TINY, **wrong)  # type: ignore[arg-type]


def test_the_rate_rises_in_a_line_and_falls_to_nothing() -> None:
    rates = [schedule(step, Recipe()) for step in range(Recipe().steps)]
    assert rates[0] == pytest.approx(1 / 200)
    assert max(rates) == rates[199] == pytest.approx(1)
    assert all(a >= b for a, b in pairwise(rates[199:]))
    assert rates[-1] < 1e-6


def test_no_symbol_of_the_stream_is_among_those_of_pretraining() -> None:
    assert len(set(PRETRAIN)) == len(PRETRAIN) >= 400
    assert not set(PRETRAIN) & set(STREAM.values())


def test_pretraining_pictures_are_a_function_of_the_step() -> None:
    first, again, other = plain.batch(3, 4, 0), plain.batch(3, 4, 0), plain.batch(4, 4, 0)
    assert all((a == b).all() for a, b in zip(first, again, strict=True))
    assert not np.array_equal(first[0], other[0])
