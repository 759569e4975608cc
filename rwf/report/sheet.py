"""One table, written as a page, as Markdown and as LaTeX with the same words in the same order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from rwf.report.markup import Markup, tag

LONG = 24
"""Letters above which a cell is broken into lines on a page."""
WIDE = 7
"""Columns above which a LaTeX table is set as wide as the text."""


@dataclass(frozen=True)
class Head:
    """A column. ``words``: its cells are text and stand at the left."""

    title: str
    unit: str = ""
    words: bool = False


@dataclass(frozen=True)
class Line:
    """A row of cells as they are read; ``best`` are the numbers of the columns to be marked."""

    cells: tuple[str, ...]
    best: frozenset[int] = frozenset()
    first: bool = False
    """Whether the row is the one of interest."""


@dataclass
class Sheet:
    """Heads, rows, and a note below."""

    title: str
    heads: Sequence[Head]
    lines: list[Line] = field(default_factory=list)
    note: str = ""

    def __post_init__(self) -> None:
        for line in self.lines:
            if len(line.cells) != len(self.heads):
                raise ValueError(f"{len(line.cells)} cells under {len(self.heads)} heads in {self.title!r}")

    def page(self) -> Markup:
        """For a page; it scrolls where it is wider than the paper."""
        heads = [
            tag("th", h.title, [tag("br"), tag("small", h.unit)] if h.unit else None, scope="col", class_=_class(h))
            for h in self.heads
        ]
        body = [
            tag(
                "tr",
                tag("th", line.cells[0], scope="row", class_="long" if len(line.cells[0]) > LONG else None),
                [self._cell(line, i) for i in range(1, len(self.heads))],
                class_="first" if line.first else None,
            )
            for line in self.lines
        ]
        whole = tag("table", tag("thead", tag("tr", heads)), tag("tbody", body), class_="figures")
        region = tag("div", whole, class_="scroll", tabindex=0, role="region", aria_label=self.title)
        return Markup(region + (tag("p", self.note, class_="note") if self.note else ""))

    def _cell(self, line: Line, i: int) -> Markup:
        looks = [*(["words"] if self.heads[i].words else []), *(["best"] if i in line.best else [])]
        looks += ["long"] if len(line.cells[i]) > LONG else []
        return tag("td", line.cells[i], class_=" ".join(looks) or None)

    def markdown(self) -> str:
        """A table of pipes, the note below it."""
        heads = [h.title + (f" ({h.unit})" if h.unit else "") for h in self.heads]
        ruler = ["---" if i == 0 or h.words else "---:" for i, h in enumerate(self.heads)]
        lines = [
            [f"**{_piped(c)}**" if i in line.best else _piped(c) for i, c in enumerate(line.cells)]
            for line in self.lines
        ]
        rows = [f"| {' | '.join(row)} |" for row in ([_piped(h) for h in heads], ruler, *lines)]
        return "\n".join([*rows, *(["", _piped(self.note)] if self.note else [])])

    def tex(self) -> str:
        """A booktabs table."""
        columns = "".join("l" if i == 0 or h.words else "r" for i, h in enumerate(self.heads))
        heads = [_tex(h.title) for h in self.heads]
        units = [_tex(h.unit) for h in self.heads]
        lines = [
            [rf"\textbf{{{_tex(c)}}}" if i in line.best else _tex(c) for i, c in enumerate(line.cells)]
            for line in self.lines
        ]
        body = [" & ".join(row) + r" \\" for row in lines]
        top = [" & ".join(heads) + r" \\", *([" & ".join(units) + r" \\"] if any(units) else [])]
        caption = _tex(self.title + (f". {self.note}" if self.note else ""))
        begin, end = (r"\resizebox{\textwidth}{!}{%", "}") if len(self.heads) > WIDE else ("%", "%")
        return "\n".join(
            [
                r"\begin{table}[htbp]",
                r"\centering\small",
                rf"\caption{{{caption}}}",
                begin,
                rf"\begin{{tabular}}{{{columns}}}",
                r"\toprule",
                *top,
                r"\midrule",
                *body,
                r"\bottomrule",
                r"\end{tabular}",
                end,
                r"\end{table}",
            ]
        )


def _class(head: Head) -> str | None:
    return "words" if head.words else None


def _piped(text: str) -> str:
    return text.replace("|", r"\|").replace("<", "&lt;").replace("*", r"\*")


_TEX = {c: "\\" + c for c in "%&#_${}"} | {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": "$<$",
    ">": "$>$",
    "|": "$|$",
    "±": r"$\pm$",
    "−": "$-$",
    "≤": r"$\le$",
    "√": r"$\surd$",
    "²": "$^2$",
    "×": r"$\times$",
    "\u00a0": "~",
}


def _tex(text: str) -> str:
    return "".join(_TEX.get(c, c) for c in text)
