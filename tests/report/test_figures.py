"""Drawings: what is higher is drawn higher, what is missing is left out, and nobody needs colours to read them."""

from __future__ import annotations

import io
import math
import re
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from PIL import Image

from rwf.report.colour import ink, scale
from rwf.report.curves import Line, curves, legend, ticks
from rwf.report.matrices import accuracy_heat_map, scale_bar
from rwf.report.png import data_url, png

values = st.floats(-1e4, 1e4, allow_nan=False)


def drawn(markup: str) -> ElementTree.Element:
    return ElementTree.fromstring(f"<div>{markup}</div>")


def numbers(markup: str) -> list[float]:
    """All numbers in attributes that place something."""
    found = []
    for element in drawn(markup).iter():
        for name in ("x", "y", "x1", "x2", "y1", "y2", "cx", "cy", "r", "width", "height", "points", "viewBox"):
            found += [float(n) for n in re.split(r"[ ,]+", element.get(name, "0"))]
    return found


# -- curves ----------------------------------------------------------------------------------------------------------


@given(values, values)
def test_ticks_are_round_and_cover_all(a: float, b: float) -> None:
    low, high = min(a, b), max(a, b)
    made = ticks(low, high)
    assert 2 <= len(made) <= 9
    slack = 1e-6 * max(1.0, abs(low), abs(high))
    assert made[0] <= low + slack
    assert made[-1] >= high - slack
    if high - low > 1e-6:
        step = made[1] - made[0]
        assert round(step / 10 ** math.floor(math.log10(step) + 1e-9), 6) in (1, 2, 5)


lines = st.lists(
    st.lists(st.tuples(st.floats(0, 1e4), st.one_of(values, st.just(math.nan))), min_size=1, max_size=12),
    min_size=1,
    max_size=8,
)


@settings(max_examples=25)
@given(lines)
def test_any_lines_are_drawn_with_finite_numbers_on_the_paper(made: list[list[tuple[float, float]]]) -> None:
    all_lines = [Line(f"line <{i}>", *np.array(points, float).T) for i, points in enumerate(made)]
    markup = curves(all_lines, x="steps", y="%", title="t")
    assert all(map(math.isfinite, numbers(markup)))
    text = "".join(drawn(markup).itertext())
    if any(math.isfinite(y) for points in made for _, y in points):
        assert all(line.name in text for line in all_lines)
        assert "steps" in text
    for element in drawn(markup).iter("polyline"):
        for place in filter(None, element.get("points", "").split(" ")):
            x, y = map(float, place.split(","))
            assert 0 <= x <= 560
            assert 0 <= y <= 330


def test_points_stand_where_their_numbers_say() -> None:
    line = Line("one", np.array([1.0, 2.0, 3.0, 4.0]), np.array([0.0, 100.0, math.nan, 50.0]))
    root = drawn(curves([line], x="x", y="y", title="t"))
    places = [tuple(map(float, p.split(","))) for p in root.find(".//g/polyline").get("points").split()]  # type: ignore[union-attr]
    (x1, y1), (x2, y2), (x4, y4) = places
    assert x2 - x1 == pytest.approx((x4 - x1) / 3, abs=0.2)
    assert y2 < y4 < y1
    assert y4 == pytest.approx((y1 + y2) / 2, abs=0.2)
    labels = {e.text: float(e.get("y", 0)) for e in root.iter("text") if e.get("text-anchor") == "end"}
    assert labels["0"] - labels["100"] == pytest.approx(y1 - y2, abs=0.2)


def test_no_two_of_a_dozen_lines_look_alike_in_grey() -> None:
    twelve = [Line(str(i), np.arange(2.0), np.full(2, float(i))) for i in range(12)]
    looks = set()
    for item in drawn(legend(twelve)).iter("svg"):
        middle, mark = item.find("line"), item[1]
        shape = (mark.tag, "hollow" in mark.get("class", ""), len(mark.get("points", "").split()), mark.get("points"))
        looks.add((middle.get("stroke-dasharray"), *shape))  # type: ignore[union-attr]
    assert len(looks) == 12


def test_the_legend_names_the_highest_end_first() -> None:
    three = [Line(name, np.arange(2.0), np.array([9.0, end])) for name, end in (("low", 1), ("high", 3), ("mid", 2))]
    assert [item[0].tail for item in drawn(legend(three)).iter("li")] == ["high", "mid", "low"]


def test_nothing_to_draw_is_said() -> None:
    assert "Nothing to draw" in curves([Line("a", np.array([1.0]), np.array([math.nan]))], x="", y="", title="")


# -- matrices and colours --------------------------------------------------------------------------------------------


def test_a_heat_map_has_a_cell_for_each_number_and_none_for_the_rest() -> None:
    matrix = np.array([[87.5, math.nan], [12.4, 100.0]])
    root = drawn(accuracy_heat_map(matrix, "t"))
    titles = ["".join(rect.itertext()) for rect in root.iter("rect")]
    assert titles == [
        "after task 1, pictures of task 1: 87.5 %",
        "after task 2, pictures of task 1: 12.4 %",
        "after task 2, pictures of task 2: 100.0 %",
    ]
    assert [e.text for e in root.iter("text") if e.get("class") == "value"] == ["88", "12", "100"]
    (first, below, beside) = root.iter("rect")
    assert (first.get("x"), below.get("y")) == (below.get("x"), beside.get("y"))
    assert first.get("fill") != below.get("fill")


@pytest.mark.parametrize("tasks", [1, 12, 13, 40])
def test_heat_maps_of_any_size_are_finite_and_number_their_tasks(tasks: int) -> None:
    markup = accuracy_heat_map(np.tril(np.full((tasks, tasks), 50.0)), "t")
    assert all(map(math.isfinite, numbers(markup)))
    heads = [e.text for e in drawn(markup).iter("text") if e.get("class") is None]
    assert heads.count("1") == heads.count(str(tasks)) == 2
    assert len(heads) <= 2 * 14


def lightness(colours: np.ndarray) -> np.ndarray:
    """Relative luminance."""
    c = colours.astype(float) / 255
    linear = np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)
    return linear @ np.array([0.2126, 0.7152, 0.0722])


def test_more_is_brighter() -> None:
    steps = lightness(scale(np.linspace(0, 1, 101)))
    assert (np.diff(steps) > 0).all()
    assert (scale(np.array([-3.0, 7.0, math.nan])) == scale(np.array([0.0, 1.0, 0.0]))).all()


@given(st.floats(0, 1))
def test_numbers_can_be_read_on_their_colour(value: float) -> None:
    colour = scale(np.array(value))
    paper, text = float(lightness(colour)), {"#000": 0.0, "#fff": 1.0}[ink(colour)]
    assert (max(paper, text) + 0.05) / (min(paper, text) + 0.05) >= 4.5


def test_the_bar_goes_from_one_end_to_the_other() -> None:
    bar = drawn(scale_bar("low", "high", "t"))
    fills = [e.get("fill") for e in bar.iter("rect")]
    assert (fills[0], fills[-1]) == ("#440154", "#fde725")
    assert "".join(bar.itertext()).split() == ["low", "high"]


# -- pictures --------------------------------------------------------------------------------------------------------


@given(hnp.arrays(np.uint8, st.tuples(st.integers(1, 9), st.integers(1, 9), st.just(3))))
def test_a_png_holds_its_pixels(pixels: np.ndarray) -> None:
    with Image.open(io.BytesIO(png(pixels))) as picture:
        picture.load()
        assert picture.mode == "RGB"
        assert (np.asarray(picture) == pixels).all()


def test_an_enlarged_picture_repeats_its_pixels() -> None:
    import base64

    pixels = np.arange(12, dtype=np.uint8).reshape(2, 2, 3)
    url = data_url(pixels, 3)
    with Image.open(io.BytesIO(base64.b64decode(url.removeprefix("data:image/png;base64,")))) as picture:
        assert picture.size == (6, 6)
        assert (np.asarray(picture)[::3, ::3] == pixels).all()
        assert (np.asarray(picture)[2::3, 2::3] == pixels).all()


@pytest.mark.parametrize("wrong", [np.zeros((2, 2), np.uint8), np.zeros((2, 2, 3)), np.zeros((0, 2, 3), np.uint8)])
def test_what_is_no_picture_is_refused(wrong: np.ndarray) -> None:
    with pytest.raises(ValueError, match="uint8 H W 3"):
        png(wrong)
