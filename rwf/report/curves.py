"""Lines over an axis as SVG: each with a colour, a dash and a mark of its own, so that none needs its colour."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rwf.report.colour import DASHES, LINES, MARKS
from rwf.report.markup import Markup, tag

WIDTH, HEIGHT = 560.0, 330.0
LEFT, RIGHT, TOP, BOTTOM = 52.0, 14.0, 14.0, 48.0
Place = Callable[[float], float]


@dataclass(frozen=True)
class Line:
    """Points to be joined; those that are not finite are left out."""

    name: str
    x: NDArray[np.float64]
    y: NDArray[np.float64]
    note: str = ""
    """What stands beside the name in the legend."""

    def points(self) -> list[tuple[float, float]]:
        pairs = zip(self.x.tolist(), self.y.tolist(), strict=True)
        return [(x, y) for x, y in pairs if math.isfinite(x) and math.isfinite(y)]


def curves(lines: Sequence[Line], *, x: str, y: str, title: str, top: float | None = None) -> Markup:
    """A chart with its legend. ``x`` and ``y`` say what the axes are, ``title`` is for who cannot see it."""
    points = [point for line in lines for point in line.points()]
    if not points:
        return tag("p", "Nothing to draw.", class_="note")
    xs, ys = [p[0] for p in points], [p[1] for p in points]
    x_ticks = ticks(min(xs), max(xs))
    y_ticks = ticks(min(0.0, *ys), max(ys) if top is None else top)
    to_x = _place(min(xs), max(xs), LEFT + 8, WIDTH - RIGHT - 8)
    to_y = _place(y_ticks[0], y_ticks[-1], HEIGHT - BOTTOM, TOP)
    inside = [t for t in x_ticks if min(xs) - 1e-9 <= t <= max(xs) + 1e-9]
    drawn = tag(
        "svg",
        [_grid(t, to_y) for t in y_ticks],
        [_number(t, to_x(t), HEIGHT - BOTTOM + 20, "middle") for t in inside],
        tag("line", x1=LEFT, x2=WIDTH - RIGHT, y1=to_y(y_ticks[0]), y2=to_y(y_ticks[0]), class_="axis"),
        tag("text", x, x=(LEFT + WIDTH - RIGHT) / 2, y=HEIGHT - 6, text_anchor="middle", class_="label"),
        tag(
            "text", y, class_="label", text_anchor="middle", transform=f"translate(13 {HEIGHT / 2 - 12:g}) rotate(-90)"
        ),
        [_line(i, line, to_x, to_y) for i, line in reversed(list(enumerate(lines))) if line.points()],
        viewBox=f"0 0 {WIDTH:g} {HEIGHT:g}",
        role="img",
        aria_label=title,
        class_="curves",
    )
    return Markup(legend(lines) + drawn)


def legend(lines: Sequence[Line]) -> Markup:
    """The names beside a piece of their line, the highest end first."""
    order = sorted(range(len(lines)), key=lambda i: (-(lines[i].points() or [(0, -math.inf)])[-1][1], i))
    return tag("ul", [tag("li", _swatch(i), lines[i].name, _note(lines[i])) for i in order], class_="legend")


def _note(line: Line) -> Markup | None:
    return tag("span", " ", line.note, class_="note") if line.note else None


def _swatch(i: int) -> Markup:
    middle = tag("line", x1=1.0, x2=35.0, y1=8.0, y2=8.0, **_stroke(i))
    return tag("svg", middle, _mark(i, 18.0, 8.0), viewBox="0 0 36 16", width=36, height=16, aria_hidden="true")


def ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Round numbers from at most ``low`` to at least ``high``, about so many."""
    if not high > low:
        low, high = (low - 1.0, high + 1.0) if low else (0.0, 1.0)
    rough = (high - low) / about
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * n for n in (1, 2, 5, 10) if power * n >= rough * (1 - 1e-9))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(i * step, 10) for i in range(first, last + 1)]


def _place(low: float, high: float, start: float, end: float) -> Place:
    """From numbers to places on the paper."""
    span = high - low
    return (lambda v: start + (v - low) / span * (end - start)) if span > 0 else (lambda v: (start + end) / 2)


def _grid(value: float, to_y: Place) -> list[Markup]:
    y = to_y(value)
    return [
        tag("line", x1=LEFT, x2=WIDTH - RIGHT, y1=y, y2=y, class_="grid"),
        _number(value, LEFT - 7, y + 4.5, "end"),
    ]


def _number(value: float, x: float, y: float, anchor: str) -> Markup:
    return tag("text", f"{value:g}", x=x, y=y, text_anchor=anchor)


def _line(i: int, line: Line, to_x: Place, to_y: Place) -> Markup:
    places = [(to_x(x), to_y(y)) for x, y in line.points()]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    marks = [_mark(i, x, y) for x, y in places] if len(places) <= 40 else [_mark(i, *place) for place in places[-1:]]
    return tag("g", tag("title", line.name), tag("polyline", points=path, **_stroke(i)), marks)


def _stroke(i: int) -> dict[str, str | None]:
    return {"class_": f"line c{i % LINES}", "stroke_dasharray": DASHES[i % len(DASHES)] or None}


def _mark(i: int, x: float, y: float) -> Markup:
    """The mark of the i-th line at a place."""
    kind, look = MARKS[i % len(MARKS)], f"mark c{i % LINES}"
    if kind in ("circle", "ring"):
        return tag("circle", cx=x, cy=y, r=3.6, class_=f"{look} hollow" if kind == "ring" else look)
    corners = {
        "square": ((-3.3, -3.3), (3.3, -3.3), (3.3, 3.3), (-3.3, 3.3)),
        "triangle": ((0, -4.5), (4.2, 3.2), (-4.2, 3.2)),
        "diamond": ((0, -4.8), (4.8, 0), (0, 4.8), (-4.8, 0)),
        "cross": ((-4, -2), (-2, -4), (4, 2), (2, 4)),
    }[kind]
    return tag("polygon", points=" ".join(f"{x + dx:.1f},{y + dy:.1f}" for dx, dy in corners), class_=look)
