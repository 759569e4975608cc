"""What `rwf tune` found, beside the results that used it: budget, choice, and the whole curve of the learning rate."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rwf.report.curves import Line as Curve
from rwf.report.curves import curves
from rwf.report.markup import Markup, figure, tag
from rwf.report.part import Part
from rwf.report.sheet import Head, Line, Sheet

HEADS = (
    Head("method"),
    Head("tuned on", words=True),
    Head("chosen", words=True),
    Head("at an end", words=True),
    Head("validation", "%"),
    Head("runs"),
    Head("forwards", "images"),
    Head("pruned"),
)
NOTE = (
    "Judged on validation pictures taken from the training pictures of the tasks named, never on a test picture. At an "
    "end: the best rate is the lowest or highest that was tried, so a better one may lie outside."
)


def tuned_parts(studies: Sequence[Mapping[str, Any]]) -> list[Part]:
    """A section for each benchmark and backbone."""
    sorted_out: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for study in studies:
        key = (str(study.get("benchmark", "?")), str(study.get("backbone", "?")))
        sorted_out.setdefault(key, []).append(study)
    return [
        Part(
            f"Tuning: {benchmark}, {backbone}",
            [NOTE],
            [Sheet("Studies", HEADS, [_line(s) for s in own]), *_points(own)],
            [drawing for drawing in [_curves(own)] if drawing],
        )
        for (benchmark, backbone), own in sorted_out.items()
    ]


def _line(study: Mapping[str, Any]) -> Line:
    budget = study.get("budget", {})
    best = [row.get("mean") for row in study.get("rows", []) if row.get("chosen")]
    ahead = ", later tasks too" if study.get("looks_ahead") else ""
    return Line(
        (
            str(study.get("method", "?")),
            f"{study.get('tuned_on', '-')}{ahead}",
            _options(study.get("chosen") or {}),
            str(study.get("edge") or "no"),
            f"{best[0]:.2f}" if best and best[0] is not None else "-",
            *(f"{budget[key]:,}" if key in budget else "-" for key in ("runs", "image_forwards", "pruned")),
        )
    )


def _options(options: Mapping[str, Any]) -> str:
    return ", ".join(f"{k} {v:g}" if isinstance(v, float) else f"{k} {v}" for k, v in options.items()) or "-"


def _points(studies: Sequence[Mapping[str, Any]]) -> list[Sheet]:
    """Everything that was tried, as tried."""
    lines = [
        Line((str(study.get("method", "?")), _options(row.get("options", {})), _mean(row)))
        for study in studies
        for row in study.get("rows", [])
    ]
    heads = (Head("method"), Head("options", words=True), Head("validation", "%"))
    return [Sheet("All that was tried", heads, lines)] if lines else []


def _mean(row: Mapping[str, Any]) -> str:
    return "-" if row.get("mean") is None else f"{row['mean']:.2f}"


def _curves(studies: Sequence[Mapping[str, Any]]) -> Markup | None:
    """Validation accuracy along the learning rate, a line a study."""
    lines = []
    for study in studies:
        rate = study.get("rate")
        tried = [(row.get("options", {}).get(rate), row.get("mean")) for row in study.get("rows", [])]
        known = sorted((math.log10(x), y) for x, y in tried if isinstance(x, float | int) and x > 0 and y is not None)
        if len(known) > 1:
            lines.append(
                Curve(f"{study.get('method', '?')}", np.array([x for x, _ in known]), np.array([y for _, y in known]))
            )
    if not lines:
        return None
    drawing = curves(
        lines, x="learning rate, power of ten", y="validation, %", title="accuracy along the learning rate"
    )
    return Markup(tag("h3", "Along the learning rate") + figure(drawing, "Mean over the seeds that were tried."))
