"""The table of methods, with the same figures on a page and on a terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rwf.report.folder import Run
from rwf.report.markup import Markup, tag


@dataclass(frozen=True)
class Column:
    """One figure of each run."""

    title: str
    unit: str
    value: Callable[[Run], Any]
    digits: int
    best: bool = False
    """Whether the highest is the best, and to be marked."""

    def text(self, run: Run) -> str:
        value = self.value(run)
        return "-" if value is None else f"{value:,.{self.digits}f}"


COLUMNS = (
    Column("final accuracy", "%", lambda run: run.result["final_accuracy"], 1, best=True),
    Column("forgetting", "points", lambda run: run.result["forgetting"], 1),
    Column("trained", "% of ViT", lambda run: run.result["trainable_percent"], 2),
    Column("forwards", "an image", lambda run: run.result["forwards_per_image"], 2),
    Column("learned", "images/s", lambda run: run.result["timing"]["learned_images_per_second"], 0),
)
COST = Column("counted", "TFLOP", lambda run: run.cost.get("tflop"), 2)


def columns(runs: Sequence[Run]) -> tuple[Column, ...]:
    """The columns, with the cost where it was counted."""
    return (*COLUMNS, COST) if any(COST.value(run) for run in runs) else COLUMNS


def table(runs: Sequence[Run]) -> Markup:
    """For a page; it scrolls where it is wider than the paper."""
    shown = columns(runs)
    heads = [tag("th", c.title, tag("br"), tag("small", c.unit), scope="col") for c in shown]
    best = {c.title: max((c.text(run) for run in runs), key=_number) for c in shown if c.best}
    rows = [
        tag(
            "tr",
            tag("th", run.name, scope="row"),
            [tag("td", c.text(run), class_="best" if best.get(c.title) == c.text(run) else None) for c in shown],
            class_="first" if run.name == "rwf" else None,
        )
        for run in runs
    ]
    whole = tag(
        "table", tag("thead", tag("tr", tag("th", "method", scope="col"), heads)), tag("tbody", rows), class_="figures"
    )
    return tag("div", whole, class_="scroll", tabindex=0, role="region", aria_label="table of methods")


def text_table(runs: Sequence[Run]) -> str:
    """For a terminal."""
    shown = columns(runs)
    lines = [
        ["method", *(c.title for c in shown)],
        ["", *(c.unit for c in shown)],
        *([run.name, *(c.text(run) for c in shown)] for run in runs),
    ]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(_padded(line, widths) for line in lines)


def _padded(cells: Sequence[str], widths: Sequence[int]) -> str:
    first, *others = zip(cells, widths, strict=True)
    return "  ".join([f"{first[0]:<{first[1]}}", *(f"{cell:>{width}}" for cell, width in others)])


def _number(text: str) -> float:
    return float(text.replace(",", "")) if text != "-" else float("-inf")
