"""The figures of a group: accuracy along the stream, matrices, accuracy against cost, and along what was varied."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from rwf.report.curves import Line, curves
from rwf.report.groups import Group, Row
from rwf.report.maps import routing_section
from rwf.report.markup import Markup, figure, tag
from rwf.report.matrices import accuracy_heat_map, scale_bar
from rwf.report.reading import PERCENT
from rwf.report.routing import Routing
from rwf.report.scatter import Point, scatter

MOST_LINES = 8
MOST_MATRICES = 9


def group_figures(group: Group, against: str) -> list[Markup]:
    """All figures that the runs of a group determine."""
    made: list[Markup | None] = [*varied(group)]
    if group.plain:
        made += [stream(group, against), matrices(group, against)]
    made += [costs(group, against), routing(group)]
    return [one for one in made if one]


def matrix(row: Row) -> NDArray[np.float64] | None:
    """The mean accuracy matrix of a row's seeds; None where they have none of one shape.  # E T"""
    found = [np.array(run.result["accuracy_matrix"], float) for run in row.runs if "accuracy_matrix" in run.result]
    if not found or any(m.shape != found[0].shape for m in found):
        return None
    return np.mean(found, axis=0)


def chosen(group: Group, against: str, most: int) -> list[Row]:
    """The most accurate rows that have a matrix, and the one of interest among them in any case."""
    rows = [row for row in sorted(group.rows, key=lambda row: -row.accuracy) if matrix(row) is not None]
    own = group.row(against)
    if own is None or own not in rows:
        return rows[:most]
    return [own, *(row for row in rows if row is not own)][:most]


def stream(group: Group, against: str) -> Markup | None:
    """Mean accuracy over the tasks met so far, after each of them."""
    lines = []
    for row in chosen(group, against, MOST_LINES):
        found = matrix(row)
        if found is None or len(found) < 2:
            continue
        means = np.array([np.nanmean(r) if (~np.isnan(r)).any() else np.nan for r in found])
        lines.append(Line(row.name, np.arange(1.0, 1 + len(means)), means, note=f"{means[-1]:.1f}{PERCENT}"))
    if not lines:
        return None
    title = "mean accuracy over the tasks met so far, after each task, by method"
    drawing = curves(lines, x="tasks learned", y="accuracy, %", title=title)
    few = f" Shown are {len(lines)} of {len(group.rows)} rows." if len(lines) < len(group.rows) else ""
    caption = f"Mean accuracy over the tasks met so far, mean over seeds.{few}"
    return Markup(tag("h3", "Accuracy over the stream") + figure(drawing, caption))


def matrices(group: Group, against: str) -> Markup | None:
    """What becomes of each task, method by method."""
    rows = chosen(group, against, MOST_MATRICES)
    if not rows:
        return None
    maps = [
        tag("div", tag("h4", row.name), accuracy_heat_map(found, f"accuracy matrix of {row.name}"))
        for row in rows
        if (found := matrix(row)) is not None
    ]
    text = (
        "A row is a moment, a column the pictures of one task. Down a column one sees what becomes of a task: where it "
        "darkens, it is forgotten. Means over seeds."
    )
    bar = scale_bar("0 %", "100 %", "colours of the accuracies")
    return Markup(tag("h3", "What becomes of each task") + tag("p", text) + bar + tag("div", maps, class_="matrices"))


def costs(group: Group, against: str) -> Markup | None:
    """Accuracy against forwards an image, and against what is trained."""
    if len(group.rows) < 2:
        return None
    drawings = []
    for key, x, what in (
        ("forwards_per_image", "forwards an image, while learning", "forwards an image"),
        ("trainable_percent", "trained numbers, % of the ViT", "trained numbers"),
    ):
        own = group.row(against)
        points = [Point(row.name, _mean(row, key), row.accuracy, row is own) for row in group.rows]
        if len({p.x for p in points}) < 2:
            continue
        caption = f"Final accuracy against {what}. The line joins those that nothing cheaper equals."
        drawings.append(figure(scatter(points, x=x, y="final accuracy, %", title=f"accuracy against {what}"), caption))
    return Markup(tag("h3", "Accuracy against cost") + "".join(drawings)) if drawings else None


def _mean(row: Row, key: str) -> float:
    mean = row.mean(key)
    return float("nan") if mean is None else mean.value


def varied(group: Group) -> list[Markup]:
    """Accuracy along each number that the cells of an experiment vary; a line for each of the other cells."""
    made = []
    for key in dict.fromkeys(key for row in group.rows for key in row.cell):
        values = {row.cell.get(key) for row in group.rows if _is_number(row.cell.get(key))}
        if len(values) < 2:
            continue
        lines = _lines([row for row in group.rows if _is_number(row.cell.get(key))], key)
        drawing = curves(lines, x=key.replace("_", " "), y="final accuracy, %", title=f"final accuracy along {key}")
        made.append(Markup(tag("h3", f"Accuracy along {key.replace('_', ' ')}") + figure(drawing, "Means over seeds.")))
    return made


def _lines(rows: Sequence[Row], key: str) -> list[Line]:
    by_name: dict[str, dict[float, float]] = {}
    for row in rows:
        others = [str(v) for k, v in row.cell.items() if k != key and not _is_number(v) and v not in (row.method, None)]
        name = ", ".join([row.method, *others])
        by_name.setdefault(name, {})[float(row.cell[key])] = row.accuracy
    return [
        Line(name, np.array(sorted(points)), np.array([points[x] for x in sorted(points)]))
        for name, points in by_name.items()
    ]


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def routing(group: Group) -> Markup | None:
    """The routing maps of the first run that kept some."""
    for row in group.rows:
        for run in row.runs:
            folder = run.run.folder if run.run is not None else None
            maps = Routing.read(folder / "routing") if folder is not None else None
            if maps is not None and run.run is not None:
                return routing_section(run.run, maps)
    return None
