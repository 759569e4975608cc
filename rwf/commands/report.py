"""The command `rwf report`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Report:
    """tables and figures of finished runs, on one page

    FOLDERS are looked through at any depth: folders of `rwf run`, and rows.json of `rwf experiment`. Writes
    report.html (one page that needs no network), report.md, report.tex (booktabs) and report.csv. Runs on other data
    or other weights stand in tables of their own.
    """

    usage = "report FOLDERS..."
    folders: tuple[Path, ...]
    """Where runs and rows lie."""
    out: Path = field(default=Path("."), kw_only=True)
    """Folder of the report."""
    against: str = field(default="rwf", kw_only=True)
    """The method that the others are compared with."""
    into: Path | None = field(default=None, kw_only=True)
    """A Markdown file that gets one table of all methods, between its marks."""

    def __call__(self) -> int:
        from rwf.report.write import write_report

        print(write_report(self.folders, self.out, against=self.against, into=self.into))
        return 0
