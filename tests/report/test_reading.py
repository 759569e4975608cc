"""The sentence under the table is true of the figures in the table, whatever they are."""

from __future__ import annotations

import re
from math import sqrt

from hypothesis import given
from hypothesis import strategies as st

from rwf.report.reading import Score, reading

NAMES = ["rwf", "linear_probe", "finetune", "l2p", "vpt"]
# A few close values, so that ties and near ties are common, and any others.
percent = st.one_of(st.sampled_from([0.0, 20.0, 20.04, 20.06, 43.21, 100.0]), st.floats(0, 100))
lost = st.one_of(st.none(), st.just(0.0), percent)


@st.composite
def tables(draw: st.DrawFn) -> list[Score]:
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=5, unique=True))
    return [Score(name, draw(percent), draw(lost)) for name in names]


def say(scores: list[Score], asked: int = 500, classes: int = 100, synthetic: bool = True) -> str:
    return reading(scores, asked=asked, classes=classes, synthetic=synthetic).replace("\u00a0", " ")


def names_in(text: str) -> set[str]:
    return set(re.split(r", | and ", text))


def shown(value: float) -> float:
    return float(f"{value:.1f}")


@given(tables())
def test_who_leads_leads_and_by_how_much(scores: list[Score]) -> None:
    figures = {s.name: shown(s.accuracy) for s in scores}
    best = max(figures.values())
    leaders = {name for name, value in figures.items() if value == best}
    text = say(scores)
    if len(scores) == 1:
        assert text.startswith(f"{scores[0].name} ends at {best:.1f} %, with nothing beside it")
    elif len(leaders) == len(scores):
        said = re.match(r"(.+) are level at ([\d.]+) %", text)
        assert said
        assert (names_in(said[1]), float(said[2])) == (leaders, best)
    else:
        said = re.match(r"([^;]+?) leads? (?:together )?with ([\d.]+) %, ([\d.]+) points? above ([^;]+)", text)
        assert said
        assert (names_in(said[1]), float(said[2])) == (leaders, best)
        second = max(value for value in figures.values() if value < best)
        assert names_in(said[4].partition(", too")[0]) == {name for name, value in figures.items() if value == second}
        assert abs(float(said[3]) - (best - second)) < 0.051, "the gap is that of the two figures shown"


@given(tables())
def test_rwf_is_never_said_to_lead_when_it_does_not(scores: list[Score]) -> None:
    figures = {s.name: shown(s.accuracy) for s in scores}
    text = say(scores)
    leads = bool(re.match(r"rwf leads|[^;]*\brwf\b[^;]* lead together|[^;]*\brwf\b[^;]* are level|rwf ends", text))
    assert leads == ("rwf" in figures and figures["rwf"] == max(figures.values()))
    levels = sorted(set(figures.values()), reverse=True)
    place = re.search(r"rwf is (\w+) of (\d+), ([\d.]+) points? behind", text)
    assert bool(place) == ("rwf" in figures and levels.index(figures["rwf"]) >= 2)
    if place:
        above = sum(value > figures["rwf"] for value in figures.values())
        assert ["first", "second", "third", "fourth", "fifth"][above] == place[1]
        assert int(place[2]) == len(scores)
        assert abs(float(place[3]) - (levels[0] - figures["rwf"])) < 0.051


@given(tables(), st.integers(10, 5000))
def test_a_gap_within_the_noise_is_called_so(scores: list[Score], asked: int) -> None:
    levels = sorted({shown(s.accuracy) for s in scores}, reverse=True)
    text = say(scores, asked)
    small = False
    if len(levels) > 1:
        a, b = levels[0] / 100, levels[1] / 100
        small = round(100 * (a - b), 1) < 200 * sqrt((a * (1 - a) + b * (1 - b)) / asked) - 1e-9
    assert (f"too little to tell on {asked:,} test pictures" in text) == small


@given(tables(), st.integers(2, 200))
def test_guessing_is_called_guessing(scores: list[Score], classes: int) -> None:
    text, p = say(scores, 400, classes), 1 / classes
    best = max(shown(s.accuracy) for s in scores)
    assert ("no better than guessing" in text) == (best <= 100 * p + 200 * sqrt(p * (1 - p) / 400))


@given(tables())
def test_who_forgets_most_and_least(scores: list[Score]) -> None:
    lost = {s.name: shown(s.forgetting) for s in scores if s.forgetting is not None}
    text = say(scores)
    if not lost:
        assert "forg" not in text
    elif max(lost.values()) == 0:
        assert "nothing is forgotten" in text or "it forgets nothing" in text
    elif len(lost) > 1 and len(set(lost.values())) > 1:
        said = re.search(r"; ([\w, ]+?) forgets? most, ([\d.]+) points?, and ([\w, ]+?) least, ([\d.]+);", text)
        assert said
        for names, value, end in ((said[1], said[2], max), (said[3], said[4], min)):
            assert names_in(names) == {name for name, v in lost.items() if v == end(lost.values())}
            assert float(value) == end(lost.values())
    else:
        assert re.search(r"(\w+ forgets|all forget) [\d.]+ points?", text)


@given(tables(), st.booleans())
def test_it_is_one_sentence_that_claims_nothing(scores: list[Score], synthetic: bool) -> None:
    text = say(scores, synthetic=synthetic)
    assert text.endswith("proves nothing.")
    assert text.count(". ") == 0
    assert ("synthetic" in text) == synthetic
    assert "nan" not in text


def test_as_it_reads() -> None:
    scores = [
        Score("rwf", 43.21, 20.5),
        Score("linear_probe", 48.34, 9.81),
        Score("finetune", 12.0, 81.0),
        Score("l2p", 45.2, 15.0),
    ]
    assert say(scores) == (
        "linear_probe leads with 48.3 %, 3.1 points above l2p, too little to tell on 500 test pictures; rwf is third "
        "of 4, 5.1 points behind; finetune forgets most, 81.0 points, and linear_probe least, 9.8; it is one seed of a "
        "synthetic benchmark, which shows how it goes and proves nothing."
    )
    assert say(scores[:2], 2000, synthetic=False) == (
        "linear_probe leads with 48.3 %, 5.1 points above rwf; rwf forgets most, 20.5 points, and linear_probe least, "
        "9.8; it is one seed, which shows how it goes and proves nothing."
    )
