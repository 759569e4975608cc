"""split-renditions: the same pixels everywhere, every picture a function of its name, a cache that can be trusted."""

from __future__ import annotations

import hashlib
from collections import Counter
from pathlib import Path

import numpy as np
import PIL
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageFilter

from rwf.data import renditions as room
from rwf.data.catalog import Catalog
from rwf.data.world import choose, glyphs, ink, plain, styles, symbols
from rwf.data.world.dice import Dice, luma

PILLOW = "13.0.0"  # the version that the golden hashes belong to
pinned = pytest.mark.skipif(PIL.__version__ != PILLOW, reason=f"the golden pixels are those of Pillow {PILLOW}")


def digest(*arrays: np.ndarray) -> str:
    return hashlib.sha256(b"".join(np.ascontiguousarray(a).tobytes() for a in arrays)).hexdigest()


# ---- the pixels


@pinned
def test_golden_pixels_of_every_style() -> None:
    """Five symbols in all twenty styles."""
    names = ("alef", "anchor", "four", "hash", "umbrella")
    drawn = [room.picture("train", name, i) for name in names for i in range(len(styles.STYLES))]
    assert digest(*drawn) == "d406b9cf6b233a4f36ca6391cd1717ec949f14aabf2784128856180b10560f87"


@pinned
def test_golden_pixels_of_the_plain_pictures() -> None:
    assert digest(*plain.batch(7, 64, 0)) == "0fc5cc465009980fa5d2daf04bf85fa912425b46af096b666d3a4292b87d90f8"


@pinned
@pytest.mark.slow
def test_golden_pixels_of_everything() -> None:
    assert hashlib.sha256(room.draw_all().data).hexdigest() == room.PIXELS


def test_a_picture_does_not_depend_on_what_was_drawn_before() -> None:
    first = room.picture("train", "zhe", 7)
    for cached in (glyphs.silhouette, glyphs.halved, glyphs.fonts_of, glyphs.has, glyphs.load_font):
        cached.cache_clear()
    room.picture("test", "anchor", 3)
    assert (room.picture("train", "zhe", 7) == first).all()
    assert (room.draw_class("zhe")[7] == first).all()
    assert (room.draw_class("zhe")[room.TRAIN + 3] == room.picture("test", "zhe", 3)).all()


def test_no_two_pictures_of_a_class_are_alike_and_the_seed_counts() -> None:
    drawn = room.draw_class("anchor")
    assert len({p.tobytes() for p in drawn}) == len(drawn)
    assert (room.picture("train", "anchor", 0, seed=1) != drawn[0]).any()


def test_every_class_has_every_style_equally_often() -> None:
    assert room.TRAIN % len(styles.STYLES) == room.TEST % len(styles.STYLES) == 0
    assert len(styles.STYLES) >= 12
    assert not set(styles.STYLES) & set(plain.STYLES)


# ---- the symbols


def test_the_symbols_are_what_was_promised() -> None:
    stream = list(symbols.STREAM.values())
    assert len(set(stream)) == len(room.CLASSES) == 100
    assert list(room.CLASSES) == sorted(symbols.STREAM)
    assert len(set(symbols.PRETRAIN)) == len(symbols.PRETRAIN) >= 400
    assert not set(stream) & set(symbols.PRETRAIN)
    for char in (*stream, *symbols.PRETRAIN):
        assert glyphs.fonts_of(char), f"{char!r} is in none of the fonts"
        assert glyphs.ink(glyphs.silhouette(char, glyphs.fonts_of(char)[0])) > 0


def test_the_measure_ranks_pairs_as_a_person_does() -> None:
    chars = "OΘEF38♥♠♞♜"
    alike = choose.likeness(chars, glyphs.FONTS[0])
    pairs = [alike[i, i + 1] for i in range(0, len(chars), 2)]
    assert (alike == alike.T).all()
    assert np.diag(alike) == pytest.approx(1, abs=1e-5)
    assert pairs[:3] == sorted(pairs[:3], reverse=True)
    assert min(pairs[:2]) > 0.85
    assert max(pairs[3:]) < 0.4


def test_placing_a_silhouette_as_it_is_changes_nothing() -> None:
    mask = glyphs.silhouette("G", glyphs.FONTS[0])
    half = glyphs.SOURCE // 2
    same = glyphs.affine(mask, glyphs.SOURCE, turn=0, wide=100, high=100, shear=0, x=half, y=half)
    assert same.tobytes() == mask.tobytes()
    turned = glyphs.affine(mask, glyphs.SOURCE, turn=90, wide=100, high=100, shear=0, x=half, y=half)
    assert turned.tobytes() in {
        mask.transpose(t).tobytes() for t in (Image.Transpose.ROTATE_90, Image.Transpose.ROTATE_270)
    }


@pytest.mark.slow
def test_all_symbols_keep_the_distances() -> None:
    stream = list(symbols.STREAM.values())
    alike = choose.likeness([*stream, *symbols.PRETRAIN])
    np.fill_diagonal(alike, 0)
    assert (100 * alike[:100, :100]).max() < choose.STREAM_LIMIT
    assert (100 * alike[100:]).max() < choose.LIMIT


@pytest.mark.slow
def test_the_pre_training_symbols_are_what_the_rule_chooses() -> None:
    assert choose.choose() == list(symbols.PRETRAIN)


# ---- the drawing


def test_growing_is_what_pillow_does() -> None:
    mask = Image.fromarray(Dice("grow").bytes(50, 70))
    for by in (0, 1, 2, 5):
        assert ink.grow(mask, by).tobytes() == mask.filter(ImageFilter.MaxFilter(2 * by + 1)).tobytes()
        assert ink.shrink(mask, by).tobytes() == mask.filter(ImageFilter.MinFilter(2 * by + 1)).tobytes()


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**32 - 1), st.sampled_from(room.CLASSES))
def test_what_lies_on_top_hides_at_most_a_fifth(seed: int, name: str) -> None:
    mask = glyphs.place(symbols.STREAM[name], Dice("place", seed))
    before = Image.new("RGB", mask.size)
    after = np.asarray(styles.occlude(before.copy(), mask, Dice("occlude", seed)))
    hidden = after.any(-1) & (np.asarray(mask) > 127)
    assert hidden.sum() * 5 <= (np.asarray(mask) > 127).sum()


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**32 - 1), st.sampled_from(room.CLASSES))
def test_a_symbol_keeps_its_ink_inside_the_picture(seed: int, name: str) -> None:
    """At most a tenth of the contour's pixels reach the border, whatever was drawn."""
    mask = np.asarray(glyphs.place(symbols.STREAM[name], Dice("place", seed))) > 127
    border = mask[0].sum() + mask[-1].sum() + mask[:, 0].sum() + mask[:, -1].sum()
    assert 200 < mask.sum() < mask.size // 2
    assert border * 10 <= mask.sum()


def test_the_dice_are_fair_and_fixed() -> None:
    assert [Dice("fixed", 1).integer(0, 999), Dice("fixed", 2).integer(0, 999)] == [891, 935]
    dice = Dice("fair")
    counts = Counter(dice.integer(-2, 3) for _ in range(6000))
    assert sorted(counts) == [-2, -1, 0, 1, 2, 3]
    assert max(abs(n - 1000) for n in counts.values()) < 150  # five standard deviations
    for _ in range(50):
        one, two = dice.pair(110)
        assert abs(luma(one) - luma(two)) >= 110
        assert 40 <= luma(dice.colour(40, 60)) <= 60


def test_held_out_pictures_are_none_of_the_training_ones() -> None:
    train = {plain.picture(3, i, 0)[0].tobytes() for i in range(50)}
    assert not train & {plain.picture(3, i, 0, "test")[0].tobytes() for i in range(50)}


def test_plain_pictures_have_two_colours_and_say_where_the_ink_is() -> None:
    for label in range(0, len(symbols.PRETRAIN), 131):
        pixels, where = plain.picture(label, 1, 0)
        ground = pixels[:, 0, 0].astype(int)
        distance = np.abs(pixels.astype(int) - ground[:, None, None]).sum(0)  # 64 64
        coarse = distance.reshape(16, 4, 16, 4).mean((1, 3))
        assert np.corrcoef(coarse.ravel(), where)[0, 1] > 0.999


# ---- the catalog and its cache


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two classes of three pictures, so that drawing takes no time."""
    for name, value in (("CLASSES", ("anchor", "zhe")), ("TRAIN", 2), ("TEST", 1)):
        monkeypatch.setattr(room, name, value)


def pixels_of(catalog: Catalog) -> bytes:
    return b"".join(
        split.picture(i).numpy().tobytes() for split in (catalog.train, catalog.test) for i in range(len(split))
    )


@pytest.mark.usefixtures("small")
def test_the_catalog_is_drawn_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RWF_CACHE", str(tmp_path / "kept"))
    drawn = room.renditions()
    assert list(drawn.train.names) == ["train/anchor/00", "train/anchor/01", "train/zhe/00", "train/zhe/01"]
    assert drawn.train.labels.tolist() == [0, 0, 1, 1]
    assert (drawn.test.picture(1).numpy() == room.picture("test", "zhe", 0)).all()
    assert any("drawn a little differently" in notice for notice in drawn.notices)  # it is not the whole world
    assert len(list((tmp_path / "kept").iterdir())) == 1

    monkeypatch.setattr(room, "draw_all", lambda: pytest.fail("drawn a second time"))
    again = room.renditions()
    assert (again.fingerprint, again.notices) == (drawn.fingerprint, drawn.notices)
    assert pixels_of(again) == pixels_of(drawn)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("damage", ["flip", "cut", "empty", "foreign"])
def test_a_damaged_cache_is_noticed_and_drawn_again(tmp_path: Path, damage: str) -> None:
    whole = room.renditions(tmp_path)
    (path,) = tmp_path.iterdir()
    content = bytearray(path.read_bytes())
    if damage == "flip":
        content[-1000] ^= 1
    wrong = {"flip": content, "cut": content[:-1], "empty": b"", "foreign": b"not ours" * 9}
    path.write_bytes(bytes(wrong[damage]))
    mended = room.renditions(tmp_path)
    assert any("was damaged" in notice for notice in mended.notices)
    assert mended.fingerprint == whole.fingerprint
    assert pixels_of(mended) == pixels_of(whole)
    assert not any("was damaged" in notice for notice in room.renditions(tmp_path).notices)


@pytest.mark.usefixtures("small")
def test_a_cache_that_cannot_be_written_costs_a_sentence_only(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    catalog = room.renditions(tmp_path / "file")
    assert any("could not be kept" in notice for notice in catalog.notices)
    assert len(catalog.train) == 4


@pytest.mark.usefixtures("small")
def test_the_fingerprint_covers_every_pixel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = room.renditions(tmp_path / "one").fingerprint
    pixels = room.draw_all()
    pixels[-1, -1, -1, -1] ^= 1
    monkeypatch.setattr(room, "draw_all", lambda: pixels)
    assert room.renditions(tmp_path / "two").fingerprint != one


def test_without_the_fonts_there_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(glyphs.UserError, match="install matplotlib"):
        glyphs.font_folder()
