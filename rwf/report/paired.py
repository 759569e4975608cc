"""Methods against one of them on the same seeds, so on the same views and the same test pictures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rwf.metrics import NOT_EVALUATED
from rwf.report.folder import Run
from rwf.report.groups import Group, Row
from rwf.report.sheet import Head, Line, Sheet
from rwf.report.statistics import bootstrap, bootstrap_p, holm, paired_t, percentiles
from rwf.report.versus import signed

Floats = NDArray[np.float64]
HEADS = (
    Head("method"),
    Head("seeds"),
    Head("difference", "points"),
    Head("95 % interval", "bootstrap"),
    Head("drawn anew", words=True),
    Head("p"),
    Head("p after Holm"),
    Head("at 5 %", words=True),
)
NOTE = (
    "Paired comparisons: difference of the final accuracies on the same seeds, the method's minus the other's. The "
    "interval is a percentile bootstrap over seeds and, where guesses were kept, over test pictures within their "
    "classes. p: Student's test on the differences of the seeds; from one seed the bootstrap over pictures, which says "
    "nothing about other seeds. Holm corrects for all comparisons of a table."
)


@dataclass(frozen=True)
class Pair:
    """Two rows on their shared seeds."""

    row: Row
    base: Row
    seeds: tuple[int, ...]
    by_seed: Floats
    """Differences of final accuracy.  # S"""
    by_picture: Floats | None
    """What each picture adds to them.  # S N"""

    @property
    def table(self) -> Floats:
        return self.by_seed[:, None] if self.by_picture is None else self.by_picture

    @property
    def drawn(self) -> str:
        """What the bootstrap draws anew."""
        parts = [*(["seeds"] if len(self.seeds) > 1 else []), *(["pictures"] if self.by_picture is not None else [])]
        return " and ".join(parts) or "nothing"


def paired_sheet(group: Group, against: str) -> Sheet | None:
    """Every row against the other method's row of the same cell; None if there is nothing to compare."""
    pairs = [pair for row, base in couples(group, against) if (pair := pair_up(row, base)) is not None]
    if not pairs:
        return None
    draws = _draws(pairs)
    ps = [_p(pair, drawn) for pair, drawn in zip(pairs, draws, strict=True)]
    known = [p for p in ps if p is not None]
    corrected = iter(holm(known))
    lines = [
        _line(pair, drawn, p, None if p is None else next(corrected))
        for pair, drawn, p in zip(pairs, draws, ps, strict=True)
    ]
    return Sheet(f"Against {against}, paired", HEADS, lines)


def couples(group: Group, against: str) -> list[tuple[Row, Row]]:
    """Rows with the row they are compared with."""
    if group.plain:
        base = group.row(against)
        return [] if base is None else [(row, base) for row in group.rows if row is not base]
    bases: dict[str, Row] = {}
    for row in group.rows:
        if row.method == against:
            bases.setdefault(_cell(row), row)
    found = [(row, bases.get(_cell(row))) for row in group.rows]
    return [(row, base) for row, base in found if base is not None and row is not base]


def _cell(row: Row) -> str:
    return repr(sorted(row.cell.items(), key=lambda item: item[0]))


def pair_up(row: Row, base: Row) -> Pair | None:
    """On the seeds that both have; None if they share none."""
    mine, theirs = ({run.seed: run for run in side.runs} for side in (row, base))
    seeds = tuple(sorted(mine.keys() & theirs.keys()))
    if not seeds:
        return None
    by_seed = np.array([mine[s].result["final_accuracy"] - theirs[s].result["final_accuracy"] for s in seeds], float)
    lines = []
    for seed in seeds:
        one, other = mine[seed].run, theirs[seed].run
        if one is None or other is None or not _same_pictures(one, other):
            return Pair(row, base, seeds, by_seed, None)
        lines.append(shares(one) - shares(other))
    return Pair(row, base, seeds, by_seed, np.stack(lines))


def _same_pictures(one: Run, other: Run) -> bool:
    return np.array_equal(one.predictions["labels"], other.predictions["labels"])


def shares(run: Run) -> Floats:
    """What each test picture adds to the final accuracy, which is their sum.  # N"""
    labels, tasks, last = run.predictions["labels"], run.predictions["tasks"], run.predictions["evaluations"][-1]
    asked = (last != NOT_EVALUATED) & (tasks >= 0)
    sizes = np.bincount(tasks[asked])  # pictures of each task
    weights = 100.0 / ((sizes > 0).sum() * sizes[np.where(asked, tasks, tasks[asked][0])])
    return np.where(asked & (last == labels), weights, 0.0)


def _draws(pairs: Sequence[Pair]) -> list[Floats | None]:
    """Of each pair; pairs with the same pictures are drawn together, so on the same ones."""
    drawn: list[Floats | None] = [None] * len(pairs)
    for width in {pair.table.shape[1] for pair in pairs}:
        own = [i for i, pair in enumerate(pairs) if pair.table.shape[1] == width and pair.drawn != "nothing"]
        if own:
            run = pairs[own[0]].row.first.run
            strata = run.predictions["labels"] if run is not None and width > 1 else None
            for i, values in zip(own, bootstrap([pairs[i].table for i in own], strata), strict=True):
                drawn[i] = values
    return drawn


def _p(pair: Pair, drawn: Floats | None) -> float | None:
    if len(pair.seeds) > 1:
        return paired_t(pair.by_seed)
    return None if drawn is None else bootstrap_p(drawn)


def _line(pair: Pair, drawn: Floats | None, p: float | None, corrected: float | None) -> Line:
    mean = float(pair.by_seed.mean())
    interval = "-" if drawn is None else " to ".join(signed(end) for end in percentiles(drawn))
    if corrected is None:
        said = "-"
    elif corrected < 0.05:
        said = "above" if mean > 0 else "below"
    else:
        said = "not told apart"
    cells = (str(len(pair.seeds)), signed(mean), interval, pair.drawn, small(p), small(corrected), said)
    return Line((pair.row.name, *cells))


def small(p: float | None) -> str:
    """A p with three decimals."""
    return "-" if p is None else "< 0.001" if p < 0.001 else f"{p:.3f}"
