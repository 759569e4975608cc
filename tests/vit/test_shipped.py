"""The weights that ship with the package are those that their card speaks of, and good at what it says."""

from __future__ import annotations

import hashlib
import json

import pytest

from rwf.data.world import plain
from rwf.data.world.glyphs import font_hashes
from rwf.data.world.symbols import PRETRAIN
from rwf.run.pretrain import Recipe, accuracy, build
from rwf.vit.weights import SHIPPED, load_backbone


@pytest.mark.parametrize("name", sorted(SHIPPED))
def test_the_card_is_about_the_shipped_file(name: str) -> None:
    card = json.loads(SHIPPED[name].with_suffix(".json").read_text())
    assert card["name"] == name
    assert card["sha256"] == hashlib.sha256(SHIPPED[name].read_bytes()).hexdigest()
    assert card["symbols_sha256"] == hashlib.sha256("".join(PRETRAIN).encode()).hexdigest()
    assert card["fonts"] == font_hashes()
    assert Recipe(**card["recipe"]) == Recipe(), "the recipe's defaults are those of the shipped weights"


def test_the_shipped_weights_know_plain_symbols() -> None:
    from safetensors.torch import load_file

    name = "vit_nano_patch8_64.renditions"
    model = build(Recipe())
    model.load_state_dict({key: value.float() for key, value in load_file(SHIPPED[name]).items()})
    pixels, labels = plain.held_out(1, 0)
    assert accuracy(model, pixels, labels, bf16=False) > 99
    vit = load_backbone(name)
    assert (vit.width, vit.depth, vit.heads, vit.image_size) == (128, 8, 4, 64)
