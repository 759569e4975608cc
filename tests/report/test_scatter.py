"""Points with names: what is better is higher, no two names meet, and the line joins what nothing cheaper equals."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rwf.report.figures import group_figures
from rwf.report.groups import groups
from rwf.report.scatter import LETTER, Point, front, label_places, powers, scatter
from tests.report.test_figures import drawn
from tests.report.test_groups import measured

numbers = st.tuples(st.just(0.0) | st.floats(0.001, 200), st.floats(0, 100))


def test_the_front_is_what_nothing_cheaper_equals() -> None:
    points = [Point("a", 1, 50), Point("b", 2, 40), Point("c", 2, 60), Point("d", 0.5, 10), Point("e", 3, 60)]
    assert [p.name for p in front(points)] == ["d", "a", "c"]


@settings(max_examples=30)
@given(st.lists(numbers, min_size=1, max_size=12))
def test_every_point_is_inside_and_higher_where_it_is_better(pairs: list[tuple[float, float]]) -> None:
    points = [Point(f"m{i}", x, y) for i, (x, y) in enumerate(pairs)]
    root = drawn(scatter(points, x="cost", y="accuracy", title="t"))
    marks = list(root.iter("circle"))
    assert len(marks) == len(points)
    for mark, (_, y) in zip(marks, pairs, strict=True):
        assert 0 <= float(mark.get("cx", "")) <= 560
        for other, (_, below) in zip(marks, pairs, strict=True):
            if y > below + 1:
                assert float(mark.get("cy", "")) < float(other.get("cy", ""))


@settings(max_examples=30)
@given(st.lists(st.tuples(st.integers(60, 540), st.integers(20, 280)), min_size=1, max_size=15))
def test_names_do_not_meet(places: list[tuple[int, int]]) -> None:
    points = [Point("linear_probe", 0, 0) for _ in places]
    boxes = []
    for spot in label_places(points, [(float(x), float(y)) for x, y in places]):
        if spot is not None:
            wide = LETTER * len("linear_probe")
            left = {"start": spot[0], "end": spot[0] - wide, "middle": spot[0] - wide / 2}[spot[2]]
            boxes.append((left, spot[1] - 10, left + wide, spot[1] + 3))
    for i, a in enumerate(boxes):
        for b in boxes[:i]:
            assert not (a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3])


@pytest.mark.parametrize(
    ("values", "expected"),
    [([1.0, 6.0], [1, 10]), ([0.0, 0.05, 99.0], [0, 0.01, 0.1, 1, 10, 100]), ([0.0], [0, 1, 10])],
)
def test_powers(values: list[float], expected: list[float]) -> None:
    assert powers(values) == pytest.approx(expected)


def test_what_is_not_finite_is_left_out() -> None:
    assert "Nothing to draw" in scatter([Point("a", math.nan, 1.0)], x="", y="", title="")


def test_a_group_has_its_figures() -> None:
    runs = [measured(m, s, forwards_per_image=i + 1.0) for i, m in enumerate(("rwf", "er")) for s in (0, 1)]
    (plain,) = groups(runs)
    text = "".join(group_figures(plain, "rwf"))
    assert all(heading in text for heading in ("Accuracy over the stream", "What becomes of", "against cost"))
    cells = [
        measured((s % 2 and "ncm") or "rwf", s // 2, experiment="x", cell={"m": m}) for m in (1, 2) for s in range(4)
    ]
    (varied,) = groups(cells)
    root = drawn("".join(group_figures(varied, "rwf")))
    (chart,) = [svg for svg in root.iter("svg") if svg.get("class") == "curves"]
    assert {title.text for title in chart.iter("title")} == {"rwf", "ncm"}
    assert "Accuracy over the stream" not in "".join(root.itertext())
