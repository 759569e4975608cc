"""A section of the report, before it is written as page, Markdown or LaTeX."""

from __future__ import annotations

from dataclasses import dataclass, field

from rwf.report.markup import Markup
from rwf.report.sheet import Sheet


@dataclass
class Part:
    """A section: its heading, what it says, its tables; figures are for the page alone."""

    heading: str
    text: list[str] = field(default_factory=list)
    sheets: list[Sheet] = field(default_factory=list)
    figures: list[Markup] = field(default_factory=list)
