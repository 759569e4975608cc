"""One sentence that says what a table of accuracies shows, and what it does not: made from the figures alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")

PERCENT = "\u00a0%"  # no line ends before the sign


@dataclass(frozen=True)
class Score:
    """What the sentence needs of a run; percent, and None where a run does not determine it."""

    name: str
    accuracy: float
    forgetting: float | None


def reading(scores: Sequence[Score], *, asked: int, classes: int, synthetic: bool, about: str = "rwf") -> str:
    """The sentence. Figures are compared as they are shown, with one decimal, so that a reader can check it.

    ``asked`` test pictures of ``classes`` classes were asked at the end; ``about`` is the method of interest.
    """
    parts = [_lead(scores, asked), _chance(scores, asked, classes), _place(scores, about), _forgetting(scores)]
    kind = "one seed of a synthetic benchmark" if synthetic else "one seed"
    return "; ".join([part for part in parts if part] + [f"it is {kind}, which shows how it goes and proves nothing."])


def shown(value: float) -> float:
    """A figure as the table has it."""
    return round(value, 1)


def _levels(scores: Sequence[Score]) -> list[tuple[float, list[str]]]:
    """Shown accuracies from the highest down, with the methods that have them."""
    values = sorted({shown(s.accuracy) for s in scores}, reverse=True)
    return [(value, [s.name for s in scores if shown(s.accuracy) == value]) for value in values]


def _lead(scores: Sequence[Score], asked: int) -> str:
    levels = _levels(scores)
    best, leaders = levels[0]
    if len(scores) == 1:
        return f"{leaders[0]} ends at {best:.1f}{PERCENT}, with nothing beside it"
    if len(levels) == 1:
        return f"{_list(leaders)} are level at {best:.1f}{PERCENT}"
    second, others = levels[1]
    verb = "leads" if len(leaders) == 1 else "lead together"
    gap = shown(best - second)
    text = f"{_list(leaders)} {verb} with {best:.1f}{PERCENT}, {gap:.1f} {_points(gap)} above {_list(others)}"
    return text + (f", too little to tell on {asked:,} test pictures" if gap < 2 * _spread(best, second, asked) else "")


def _chance(scores: Sequence[Score], asked: int, classes: int) -> str:
    """Said where even the best may be guessing."""
    chance = 100 / classes
    best = max(shown(s.accuracy) for s in scores)
    if best > chance + 2 * sqrt(chance * (100 - chance) / asked):
        return ""
    return f"no better than guessing, which would give {chance:.1f}{PERCENT}"


def _place(scores: Sequence[Score], about: str) -> str:
    """Where the method of interest stands, if the lead does not say it already."""
    levels = _levels(scores)
    mine = next((i for i, (_, names) in enumerate(levels) if about in names), 0)
    if mine < 2:
        return ""
    above = sum(len(names) for _, names in levels[:mine])
    gap = shown(levels[0][0] - levels[mine][0])
    place = ORDINALS[above] if above < len(ORDINALS) else f"number {above + 1}"
    return f"{about} is {place} of {len(scores)}, {gap:.1f} {_points(gap)} behind"


def _forgetting(scores: Sequence[Score]) -> str:
    known = [(shown(s.forgetting), s.name) for s in scores if s.forgetting is not None]
    if not known:
        return ""
    most, least = max(known)[0], min(known)[0]
    if most == 0:
        return "nothing is forgotten" if len(known) > 1 else "it forgets nothing"
    if len(known) == 1:
        return f"{known[0][1]} forgets {most:.1f} {_points(most)}"
    if most == least:
        return f"all forget {most:.1f} {_points(most)}"
    worst, best = ([name for value, name in known if value == end] for end in (most, least))
    most_said = f"{_list(worst)} {_forget(worst)} most, {most:.1f} {_points(most)}"
    return f"{most_said}, and {_list(best)} least, {least:.1f}"


def _spread(a: float, b: float, asked: int) -> float:
    """Standard error of a difference of two percentages, each of so many pictures."""
    return sqrt((a * (100 - a) + b * (100 - b)) / asked)


def _forget(names: Sequence[str]) -> str:
    return "forgets" if len(names) == 1 else "forget"


def _points(value: float) -> str:
    return "point" if value == 1 else "points"


def _list(names: Sequence[str]) -> str:
    """Names as a sentence has them."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
