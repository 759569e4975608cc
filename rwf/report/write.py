"""`rwf report`: a page, and the same tables as Markdown, LaTeX and CSV."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rwf.files import make_folder, write_text
from rwf.report import versus
from rwf.report.figures import group_figures
from rwf.report.gather import Gathered, gather
from rwf.report.groups import Group, groups
from rwf.report.headline import headline, put_into
from rwf.report.markup import Markup, page, section, tag
from rwf.report.paired import NOTE as PAIRED
from rwf.report.paired import paired_sheet
from rwf.report.part import Part
from rwf.report.results import NOTE, measured_sheet, results_csv, results_sheet, spread, title
from rwf.report.sheet import Head, Line, Sheet
from rwf.report.tuned import tuned_parts
from rwf.report.versus import versus_sheets

NAME = "report"


def write_report(folders: Sequence[Path], out: Path, *, against: str = "rwf", into: Path | None = None) -> str:
    """Writes report.html, .md, .tex and .csv, and one table ``into`` a file; gives the sentences for a terminal."""
    found = gather(folders)
    made = groups(found.runs)
    if into is not None:
        put_into(into, headline(made))
    parts = all_parts(found, made, against)
    make_folder(out)
    lead = summary(found, made)
    write_text(out / f"{NAME}.html", html(lead, parts))
    write_text(out / f"{NAME}.md", markdown(lead, parts))
    write_text(out / f"{NAME}.tex", tex(lead, parts))
    write_text(out / f"{NAME}.csv", results_csv(made))
    problems = [note for part in parts if part.heading == LEFT_OUT for note in part.text]
    return "\n".join([lead, *problems, f"page: {out / NAME}.html (and .md, .tex, .csv)"])


LEFT_OUT = "Left out"


def all_parts(found: Gathered, made: Sequence[Group], against: str) -> list[Part]:
    """The sections in their order."""
    parts = [group_part(group, against) for group in made]
    parts += tuned_parts(found.studies)
    beside = versus_sheets(made)
    if beside:
        parts.append(Part("Beside the paper", [versus.NOTE], beside))
    mixed = apart(made)
    notes = [*found.notes, *(note for group in made for note in group.double), *mixed]
    if notes:
        parts.append(Part(LEFT_OUT, notes))
    if found.failed:
        parts.append(failures(found))
    parts.append(Part("How to read the tables", [NOTE, PAIRED]))
    return parts


def group_part(group: Group, against: str) -> Part:
    """A table, what it says in a sentence, and its figures."""
    sheets = [results_sheet(group, against), measured_sheet(group), paired_sheet(group, against)]
    kept = [sheet for sheet in sheets if sheet is not None]
    return Part(title(group), [reading(group, against)], kept, group_figures(group, against))


def reading(group: Group, against: str) -> str:
    """Who leads and where the method of interest stands: figures as the table has them."""
    ranked = sorted(group.rows, key=lambda row: -row.accuracy)
    best = ranked[0]
    text = f"Highest: {best.name} with {spread(best.mean('final_accuracy'), 2)} %"
    own = group.row(against)
    if own is not None and own is not best and group.plain:
        rank = ranked.index(own) + 1
        text += f"; {own.name} with {spread(own.mean('final_accuracy'), 2)} % is number {rank} of {len(ranked)}"
    if own is None:
        text += f"; there is no run of {against} to compare with"
    runs = [len(row.runs) for row in group.rows]
    count = f"{runs[0]} run{'s' if runs[0] != 1 else ''}" if len(set(runs)) == 1 else f"{min(runs)} to {max(runs)} runs"
    return f"{text}. {count} a row."


def summary(found: Gathered, made: Sequence[Group]) -> str:
    """What the report is made of."""
    methods = len({run.name for run in found.runs})
    tables = len(made)
    runs = len(found.runs)
    text = f"{runs} run{_s(runs)} of {methods} method{_s(methods)} in {tables} table{_s(tables)}"
    return text + (f"; {len(found.failed)} failed." if found.failed else ".")


def _s(count: int) -> str:
    return "" if count == 1 else "s"


def apart(made: Sequence[Group]) -> list[str]:
    """Sentences on tables that look alike and are not: other data or other weights under the same name."""
    notes = []
    for kind, name, value in (("data", "benchmark", "data"), ("weights", "backbone", "weights")):
        hashes: dict[str, list[str]] = {}
        for group in made:
            own = hashes.setdefault(getattr(group.setting, name), [])
            if getattr(group.setting, value) not in own:
                own.append(getattr(group.setting, value))
        notes += [
            f"{what} has {len(own)} different {kind} ({', '.join(h[:12] or 'unknown' for h in own)}): they are in "
            "tables of their own and never in one mean."
            for what, own in hashes.items()
            if len(own) > 1
        ]
    return notes


def failures(found: Gathered) -> Part:
    """Rows of runs that ended with an error."""
    heads = (Head("experiment"), Head("method", words=True), Head("seed"), Head("cell", words=True))
    lines = [
        Line(
            (
                str(row.get("experiment") or "-"),
                str(row.get("method") or "-"),
                str(row.get("seed", "-")),
                ", ".join(f"{key} {value}" for key, value in (row.get("cell") or {}).items() if key != "method") or "-",
                str(row.get("error") or "no reason is known").strip().splitlines()[-1],
            )
        )
        for row in found.failed
    ]
    return Part("Failed", [], [Sheet("Runs that failed", (*heads, Head("error", words=True)), lines)])


def html(lead: str, parts: Sequence[Part]) -> str:
    """The page."""
    head = tag("header", tag("h1", "Report"), tag("p", lead, class_="lead"))
    return page("rwf report", head, [_section(part) for part in parts])


def _section(part: Part) -> Markup:
    texts = [tag("p", text, class_=_look(part, i)) for i, text in enumerate(part.text)]
    sheets = [[tag("h3", sheet.title) if sheet.title != part.heading else None, sheet.page()] for sheet in part.sheets]
    return section(part.heading, texts, sheets, part.figures)


def _look(part: Part, i: int) -> str | None:
    return "reading" if i == 0 and part.figures else "note" if part.heading != LEFT_OUT else None


def markdown(lead: str, parts: Sequence[Part]) -> str:
    """The tables with what is said about them."""
    blocks = ["# Report", lead]
    for part in parts:
        blocks += [f"## {part.heading}", *part.text]
        for i, sheet in enumerate(part.sheets):
            blocks += [*([f"### {sheet.title}"] if i or sheet.title != part.heading else []), sheet.markdown()]
    return "\n\n".join(blocks) + "\n"


def tex(lead: str, parts: Sequence[Part]) -> str:
    """The tables, to be read with \\input; they need the packages booktabs and graphicx."""
    head = f"% {lead}\n% Needs \\usepackage{{booktabs,graphicx}}."
    return "\n\n".join([head, *(sheet.tex() for part in parts for sheet in part.sheets)]) + "\n"
