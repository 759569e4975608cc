"""Tables of percentages as small heat maps, and the bar that says which colour is which number."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rwf.report.colour import ink, name, scale
from rwf.report.markup import Markup, tag

CELL = 24.0
ENLARGED = 1.2  # where there is room
LEFT, TOP = 40.0, 40.0
MOST_NUMBERS = 12  # tasks up to which the numbers are written into the cells


def accuracy_heat_map(matrix: NDArray[np.float64], title: str) -> Markup:
    """R of one run: a row an evaluation, a column a task, in percent; what was not asked is left empty.  # E T"""
    rows, columns = matrix.shape
    width, height = LEFT + columns * CELL + 2, TOP + rows * CELL + 2
    return tag(
        "svg",
        tag("text", "pictures of task", x=LEFT + columns * CELL / 2, y=12.0, text_anchor="middle", class_="label"),
        _turned("after task", rows),
        [_head(j, columns, LEFT + (j + 0.5) * CELL, TOP - 8) for j in range(columns)],
        [_head(i, rows, LEFT - 13, TOP + (i + 0.5) * CELL + 4) for i in range(rows)],
        [_cell(i, j, float(matrix[i, j]), columns) for i in range(rows) for j in range(columns)],
        viewBox=f"0 0 {width:g} {height:g}",
        width=ENLARGED * width,
        height=ENLARGED * height,
        role="img",
        aria_label=title,
        class_="matrix",
    )


def _turned(text: str, rows: int) -> Markup:
    place = f"translate(12 {TOP + rows * CELL / 2:g}) rotate(-90)"
    return tag("text", text, class_="label", text_anchor="middle", transform=place)


def _head(i: int, count: int, x: float, y: float) -> Markup | None:
    """The number of a task; of many only some."""
    every = -(-count // MOST_NUMBERS)
    return tag("text", i + 1, x=x, y=y, text_anchor="middle") if i % every == 0 or i == count - 1 else None


def _cell(i: int, j: int, value: float, columns: int) -> Markup | None:
    if not np.isfinite(value):
        return None
    colour = scale(np.array(value / 100))
    x, y = LEFT + j * CELL, TOP + i * CELL
    said = tag("title", f"after task {i + 1}, pictures of task {j + 1}: {value:.1f} %")
    square = tag("rect", said, x=x, y=y, width=CELL - 1, height=CELL - 1, rx=2, fill=name(colour))
    if columns > MOST_NUMBERS:
        return square
    place = {"x": x + (CELL - 1) / 2, "y": y + CELL / 2 + 3.5}
    return Markup(square + tag("text", f"{value:.0f}", text_anchor="middle", fill=ink(colour), class_="value", **place))


def scale_bar(low: str, high: str, title: str) -> Markup:
    """The colours from little to much between two numbers."""
    colours = scale(np.linspace(0, 1, 40))
    bars = [tag("rect", x=i * 4.0, y=0, width=4.5, height=10, fill=name(c)) for i, c in enumerate(colours)]
    bar = tag("svg", bars, viewBox="0 0 160 10", width=160, height=10, role="img", aria_label=title)
    return tag("p", low, " ", bar, " ", high, class_="scale")
