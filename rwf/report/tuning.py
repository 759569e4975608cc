"""A search as text: every setting that was tried, the curve over the rates in one line, what was chosen and on what."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

BLOCKS = "▁▂▃▄▅▆▇█"


def tuning(found: Mapping[str, Any]) -> str:
    """What ``tune.json`` holds, for a terminal."""
    budget, rows = found["budget"], found["rows"]
    names = list(rows[0]["options"]) if rows else []
    names.sort(key=lambda name: (name != found["rate"], name))
    heads = [*names, *(f"seed {seed}" for seed in found["seeds"]), *(["mean"] if len(found["seeds"]) > 1 else []), ""]
    lines = [heads, *([*_cells(row, names, len(found["seeds"])), "chosen" if row["chosen"] else ""] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    text = ["  ".join(f"{cell:>{width}}" for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
    text += [f"  {row['options']}: {row['error']}" for row in rows if "error" in row]
    curve = chart(found)
    text += ["", f"validation accuracy (%) over {found['rate']}: {curve}"] if curve else [""]
    text.append(
        f"{found['method']} on {found['benchmark']}: {budget['trials']} settings, {budget['runs']} runs, "
        f"{budget['image_forwards']:,} image-forwards; chosen on training pictures of {found['tuned_on']}."
    )
    if budget["trials_left"]:
        text.append(f"{budget['trials_left']} settings were not tried: the budget was spent.")
    if found["edge"]:
        text.append(f"The chosen rate is the {found['edge']} of those tried: a better one may lie beyond (--lr).")
    return "\n".join(text)


def chart(found: Mapping[str, Any]) -> str:
    """The best mean accuracy at each rate as a row of blocks, lowest to highest rate; "" where no rates were tried."""
    rate = found["rate"]
    best: dict[float, float] = {}
    for row in found["rows"]:
        if "error" not in row and rate in row["options"]:
            value = row["options"][rate]
            best[value] = max(best.get(value, row["mean"]), row["mean"])
    if len(best) < 2:
        return ""
    low, high = min(best.values()), max(best.values())
    steps = [round((value - low) / (high - low) * 7) if high > low else 0 for _, value in sorted(best.items())]
    line = "".join(BLOCKS[step] for step in steps)
    return f"{min(best):g} {line} {max(best):g} (from {low:.1f} to {high:.1f})"


def _cells(row: Mapping[str, Any], names: list[str], seeds: int) -> list[str]:
    setting = [_value(row["options"][name]) for name in names]
    accuracies = [f"{value:.2f}" for value in row.get("accuracy", [])] or ["-"] * seeds
    mean = [f"{row['mean']:.2f}" if "mean" in row else "-"] if seeds > 1 else []
    return [*setting, *accuracies, *mean]


def _value(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
