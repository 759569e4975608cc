"""One table of all methods over several benchmarks, and its place in a README: what a reader sees first."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rwf.errors import UserError
from rwf.files import write_text
from rwf.report.groups import FIRST, Group, Row
from rwf.report.results import highest_shown, plain, spread, told
from rwf.report.sheet import Head, Line, Sheet

BEGIN, END = "<!-- rwf report: begin -->", "<!-- rwf report: end -->"


def headline(made: Sequence[Group]) -> Sheet:
    """A line a method, accuracy and forgetting on each benchmark; the one with most methods first, and its best.

    Of the groups only those in which methods alone are compared: plain runs, and the experiment table1.
    """
    compared = [group for group in made if group.plain and group.setting.experiment in FIRST]
    compared.sort(key=lambda group: -len(group.rows))
    if not compared:
        raise UserError("there is no table in which methods alone are compared: give runs, or rows of table1.")
    heads = [Head("method")]
    for group in compared:
        heads += [Head(group.setting.benchmark, "final accuracy, %"), Head("forgetting", "points"), Head("runs")]
    heads += [Head("told or kept", words=True), Head("trained", "% of ViT"), Head("forwards", "an image")]
    methods = dict.fromkeys(row.method for group in compared for row in group.rows)
    highest = [highest_shown(group) for group in compared]
    lines = []
    for method in methods:
        rows = [group.row(method) for group in compared]
        cells, best = [method], set[int]()
        for row, top in zip(rows, highest, strict=True):
            if row is not None and f"{row.accuracy:.2f}" == top:
                best.add(len(cells))
            cells += _three(row)
        first = next(row for row in rows if row is not None)
        trained, forwards = (plain(first.mean(key), 2) for key in ("trainable_percent", "forwards_per_image"))
        lines.append(Line((*cells, told(first), trained, forwards), frozenset(best)))
    return Sheet("All methods", heads, lines)


def _three(row: Row | None) -> list[str]:
    if row is None:
        return ["-", "-", "-"]
    return [spread(row.mean("final_accuracy"), 2), spread(row.mean("forgetting"), 1), str(len(row.runs))]


def put_into(path: Path, sheet: Sheet) -> None:
    """Writes the table between two marks of a Markdown file, in place of what stands there; the rest stays."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path} cannot be read as text ({error}): name a Markdown file.") from error
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise UserError(f"{path} has no place for the table: write {BEGIN} and {END} on lines of their own.")
    write_text(path, f"{before}{BEGIN}\n\n{sheet.markdown()}\n\n{END}{after}")
