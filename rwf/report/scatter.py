"""Points with their names beside them as SVG: what is better stands higher, what is dearer further right."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rwf.report.colour import LINES
from rwf.report.curves import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, ticks
from rwf.report.markup import Markup, tag

LETTER, HIGH = 7.2, 13.0  # about the size of a letter


@dataclass(frozen=True)
class Point:
    """One method."""

    name: str
    x: float
    y: float
    first: bool = False
    """Whether it is the one of interest."""


def powers(values: Sequence[float]) -> list[float]:
    """Powers of ten around positive numbers; before them 0 where something is that or less."""
    above = [v for v in values if v > 0] or [1.0]
    low, high = math.floor(math.log10(min(above))), math.ceil(math.log10(max(above)))
    found = [10.0**i for i in range(low, max(high, low + 1) + 1)]
    return [0.0, *found] if any(v <= 0 for v in values) else found


def _finer(marks: Sequence[float]) -> list[float]:
    """With twice and five times each power but the last."""
    return sorted({*marks, *(n * t for t in marks[:-1] for n in (2, 5))})


def _along(value: float, marks: Sequence[float]) -> float:
    """Where a number lies on an axis of powers, from 0 to 1; at the very left what is 0."""
    first = marks[1] if marks[0] == 0 else marks[0]
    steps = math.log10(value / first) + (1 if marks[0] == 0 else 0) if value > 0 else 0.0
    return steps / (len(marks) - 1)


def scatter(points: Sequence[Point], *, x: str, y: str, title: str) -> Markup:
    """The points that are finite, joined where nothing cheaper is as good; to the right in powers of ten."""
    points = [p for p in points if math.isfinite(p.x) and math.isfinite(p.y)]
    if not points:
        return tag("p", "Nothing to draw.", class_="note")
    x_ticks = powers([p.x for p in points])
    y_ticks = ticks(min(0.0, *(p.y for p in points)), max(1e-6, *(p.y for p in points)))

    def place(p: Point) -> tuple[float, float]:
        across = _along(p.x, x_ticks)
        up = (p.y - y_ticks[0]) / (y_ticks[-1] - y_ticks[0])
        return LEFT + 8 + across * (WIDTH - RIGHT - LEFT - 16), HEIGHT - BOTTOM - up * (HEIGHT - BOTTOM - TOP)

    places = [place(p) for p in points]
    edge = [f"{a:.1f},{b:.1f}" for a, b in (place(p) for p in front(points))]
    names = [_name(p, spot) for p, spot in zip(points, label_places(points, places), strict=True)]
    return tag(
        "svg",
        _axes(x_ticks, y_ticks, place, x, y),
        tag("polyline", points=" ".join(edge), class_="line front") if len(edge) > 1 else None,
        [_mark(p, spot) for p, spot in zip(points, places, strict=True)],
        names,
        viewBox=f"0 0 {WIDTH:g} {HEIGHT:g}",
        role="img",
        aria_label=title,
        class_="curves scatter",
    )


def _axes(
    x_ticks: Sequence[float], y_ticks: Sequence[float], place: Callable[[Point], tuple[float, float]], x: str, y: str
) -> list[Markup]:
    """Grid, numbers, and what the axes are."""
    floor, middle = HEIGHT - BOTTOM, f"translate(13 {HEIGHT / 2 - 12:g}) rotate(-90)"
    drawn = []
    for t in y_ticks:
        h = place(Point("", x_ticks[-1], t))[1]
        drawn.append(tag("line", x1=LEFT, x2=WIDTH - RIGHT, y1=h, y2=h, class_="grid"))
        drawn.append(tag("text", f"{t:g}", x=LEFT - 7, y=h + 4.5, text_anchor="end"))
    for t in x_ticks if len(x_ticks) > 3 else _finer(x_ticks):
        across = place(Point("", t, y_ticks[0]))[0]
        drawn.append(tag("text", f"{t:g}", x=across, y=floor + 20, text_anchor="middle"))
    return [
        *drawn,
        tag("line", x1=LEFT, x2=WIDTH - RIGHT, y1=floor, y2=floor, class_="axis"),
        tag("text", x, x=(LEFT + WIDTH - RIGHT) / 2, y=HEIGHT - 6, text_anchor="middle", class_="label"),
        tag("text", y, class_="label", text_anchor="middle", transform=middle),
    ]


def front(points: Sequence[Point]) -> list[Point]:
    """Those that nothing as cheap or cheaper beats, the cheapest first."""
    best, kept = -math.inf, []
    for p in sorted(points, key=lambda p: (p.x, -p.y)):
        if p.y > best:
            best = p.y
            kept.append(p)
    return kept


def label_places(
    points: Sequence[Point], places: Sequence[tuple[float, float]]
) -> list[tuple[float, float, str] | None]:
    """Where each name is written: beside, above or below its point, where nothing is yet; None if there is no room."""
    taken = [(x - 5, y - 5, x + 5, y + 5) for x, y in places]
    found: list[tuple[float, float, str] | None] = [None] * len(points)
    for i in sorted(range(len(points)), key=lambda i: (not points[i].first, -points[i].y)):
        (x, y), wide = places[i], LETTER * len(points[i].name)
        for a, b, anchor in _around(x, y):
            left = a if anchor == "start" else a - wide if anchor == "end" else a - wide / 2
            box = (left, b - HIGH + 3, left + wide, b + 3)
            inside = box[0] >= LEFT + 2 and box[2] <= WIDTH - 2 and box[1] >= 0 and box[3] <= HEIGHT - BOTTOM
            if inside and not any(_meet(box, other) for other in taken):
                taken.append(box)
                found[i] = (a, b, anchor)
                break
    return found


def _around(x: float, y: float) -> list[tuple[float, float, str]]:
    near = [(x + 8, y + 4, "start"), (x - 8, y + 4, "end"), (x, y - 8, "middle"), (x, y + 17, "middle")]
    far = [(x + 8, y + d, "start") for d in (-9, 17, -22, 30)] + [(x - 8, y + d, "end") for d in (-9, 17, -22, 30)]
    return near + far


def _meet(a: tuple[float, ...], b: tuple[float, ...]) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def _mark(p: Point, spot: tuple[float, float]) -> Markup:
    said = tag("title", f"{p.name}: {p.y:.2f} at {p.x:.4g}")
    look = f"mark c{1 % LINES}" if p.first else "mark c0"
    return tag("circle", said, cx=spot[0], cy=spot[1], r=5.5 if p.first else 4.0, class_=look)


def _name(p: Point, spot: tuple[float, float, str] | None) -> Markup | None:
    if spot is None:
        return None
    return tag("text", p.name, x=spot[0], y=spot[1], text_anchor=spot[2], class_="bold" if p.first else None)
