"""The paper's tables as *paper | ours | difference | in band?*, and "not comparable" where data or weights differ."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rwf.report.gather import Measured
from rwf.report.groups import Group, Row, stream_option
from rwf.report.published import ABOUT, Place, Value, published
from rwf.report.results import spread
from rwf.report.sheet import Head, Line, Sheet
from rwf.report.statistics import Mean, within_band

WEIGHTS = ("vit_base_patch16_224.augreg_in21k", "vit_base_patch16_224.orig_in21k")
"""ViT-B/16 pre-trained on ImageNet-21k and not fine-tuned: the paper does not say which of them it had."""
PICTURES = {"split-cifar100": 50_000, "split-imagenet-r": 24_000, "split-imagenet-sketch": 40_711}
"""Training pictures of the whole benchmark."""
ROUNDING = 0.02  # by which the number may differ: fractions and splits are rounded class by class
NOTE = (
    "In band: |ours - paper| ≤ 2 √(s_p²/3 + s_o²/n) and at most 2 points, with the paper's deviation s_p over three "
    "runs and ours s_o over n. Not comparable: data, weights or protocol are not the paper's, for the reason given."
)


def versus_sheets(groups: Sequence[Group]) -> list[Sheet]:
    """A sheet for each of the paper's tables and benchmarks on which there is at least one run."""
    rows = _distinct(groups)
    sheets = []
    for table in ABOUT:
        places = [place for place in published() if place.table == table]
        for benchmark in dict.fromkeys(place.benchmark for place in places):
            own = [place for place in places if place.benchmark == benchmark]
            found = {place.name: [row for row in rows if matches(place, row.first)] for place in own}
            if any(found.values()):
                sheets.append(_sheet(table, benchmark, own, found))
    return sheets


def _distinct(groups: Iterable[Group]) -> list[Row]:
    """All rows; one that is in two experiments counts once."""
    rows: dict[tuple[str, ...], Row] = {}
    for group in groups:
        for row in group.rows:
            rows.setdefault(tuple(sorted(run.source for run in row.runs)), row)
    return list(rows.values())


def matches(place: Place, run: Measured) -> bool:
    """Whether a run has the place's method and configuration; data and weights may still differ."""
    if run.name != place.method:
        return False
    if place.table == "Table 4":
        return str(run.result["backbone"]).startswith("vit_base_patch16_224")
    if run.result["benchmark"] != place.benchmark or stream_option(run, "tasks") != place.tasks:
        return False
    if abs(float(stream_option(run, "train_fraction")) - place.train_fraction) > 1e-9:
        return False
    if run.name != "rwf":
        return True
    options = run.result.get("options", {})
    blocks, placement = options.get("blocks", 3), options.get("placement", "first")
    return blocks == (place.blocks or 3) and (place.placement == "all" or placement == (place.placement or "first"))


def unlike(run: Measured, place: Place) -> list[str]:
    """Why a run cannot be compared with the paper's; empty if it can."""
    reasons = []
    backbone = str(run.result["backbone"])
    if backbone not in WEIGHTS:
        reasons.append(f"weights {backbone}")
    pictures = run.result.get("single_pass", {}).get("images_in_stream")
    whole = PICTURES[place.benchmark] * place.train_fraction
    if pictures is None or abs(pictures - whole) > ROUNDING * whole:
        reasons.append(f"{pictures or 'an unknown number of'} training pictures, not {whole:.0f}")
    usual = {"batch_size": 64, "order": "split", "imbalance": 1.0}
    reasons += [
        f"{name.replace('_', ' ')} {stream_option(run, name)}"
        for name, value in usual.items()
        if stream_option(run, name) != value
    ]
    if stream_option(run, "image_size") not in (None, 224):
        reasons.append(f"image size {stream_option(run, 'image_size')}")
    return reasons


def verdict(ours: Mean, paper: Value, reasons: Sequence[str]) -> str:
    """Whether our mean lies in the paper's band, or why that cannot be said."""
    if reasons:
        return "not comparable"
    if ours.deviation is None:
        return "one run"
    if paper.deviation is None:
        return "no deviation stated"
    return "yes" if within_band(ours, paper.mean, paper.deviation) else "no"


def _sheet(table: str, benchmark: str, places: Sequence[Place], found: dict[str, list[Row]]) -> Sheet:
    keys = [
        key for key in ("final_accuracy", "forgetting", "trainable_percent") if any(key in p.figures for p in places)
    ]
    if table == "Table 4":
        return _parameters(places, found)
    keys = [key for key in keys if key != "trainable_percent"]
    heads = [Head("method"), Head("runs")]
    for key in keys:
        what = {"final_accuracy": "accuracy", "forgetting": "forgetting"}[key]
        heads += [Head("paper", what), Head("ours", what), Head("difference"), Head("in band?", words=True)]
    heads.append(Head("remark", words=True))
    lines = []
    for place in places:
        rows: list[Row | None] = [*found[place.name]] or [None]
        for row in rows:
            reasons = unlike(row.first, place) if row else []
            cells = [cell for key in keys for cell in _four(place.figures.get(key), row, key, reasons)]
            name = place.name + (f" ({row.label})" if row and row.label else "")
            lines.append(Line((name, str(len(row.runs)) if row else "-", *cells, "; ".join(reasons) or "-")))
    return Sheet(f"{table} of the paper, {ABOUT[table]}: {benchmark}", heads, lines)


def _four(paper: Value | None, row: Row | None, key: str, reasons: Sequence[str]) -> tuple[str, str, str, str]:
    """paper, ours, difference, in band?"""
    ours = row.mean(key) if row else None
    stated = "-" if paper is None else f"{paper.mean:.2f}" + (f" ± {paper.deviation:.2f}" if paper.deviation else "")
    if paper is None or ours is None:
        return stated, spread(ours, 2), "-", "-"
    return stated, spread(ours, 2), signed(ours.value - paper.mean), verdict(ours, paper, reasons)


def _parameters(places: Sequence[Place], found: dict[str, list[Row]]) -> Sheet:
    heads = [Head("method"), Head("paper", "% of the ViT"), Head("ours", "% of the ViT"), Head("difference")]
    lines = []
    for place in places:
        paper = place.figures["trainable_percent"].mean
        counted = [mean.value for row in found[place.name] if (mean := row.mean("trainable_percent")) is not None]
        for ours in dict.fromkeys(round(value, 6) for value in counted) or [None]:
            own = ("-", "-") if ours is None else (f"{ours:.3f}", signed(ours - paper, 3))
            lines.append(Line((place.name, f"{paper:.2f}", *own)))
    return Sheet("Table 4 of the paper, trained parameters", heads, lines)


def signed(value: float, digits: int = 2) -> str:
    """A difference, with its sign."""
    text = f"{value:+.{digits}f}"
    return text.replace("-", "−") if float(text) else f"{0:.{digits}f}"
