"""Routing maps as pictures: where the queries of each block look, and the figures of how that moved."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rwf.report.colour import scale
from rwf.report.curves import Line, curves
from rwf.report.folder import Run
from rwf.report.markup import Markup, figure, section, tag
from rwf.report.matrices import scale_bar
from rwf.report.png import data_url
from rwf.report.routing import START, Routing, entropy

QUERIES = 4  # shown of each block, besides the mean of all
ENLARGED = 6  # pixels a patch


def routing_section(run: Run, routing: Routing) -> Markup:
    """Pictures beside what the queries see of them, and how A moved over the stream."""
    chosen = {block: routing.sharpest(block, QUERIES) for block in routing.blocks}
    m = routing.maps[routing.last][routing.blocks[0]].shape[1]
    high = _highest(routing, chosen)
    return section(
        "Where RwF looks",
        tag(
            "p",
            f"In each routed block {m} learned queries spread their attention over the tokens of the picture, one "
            "distribution a query (a row of A). A small square is one distribution laid over the picture's patches: "
            f"the mean of all queries, then the {QUERIES} queries (q) that look most sharply at the end of the stream. "
            "Rows are moments of the stream: down a column one sees a query move. Beside a picture stands what it was "
            "taken for.",
        ),
        scale_bar("0", f"{high:.2g} times what an even spread gives", "colours of the maps"),
        [_picture(run, routing, chosen, high, i) for i in range(len(routing.ids))],
        _movement(routing),
    )


def _highest(routing: Routing, chosen: dict[int, list[int]]) -> float:
    """The end of the colours: one in a hundred of the patches shown is above it."""
    shown = [
        _layers(routing, moment, block, queries).ravel()
        for block, queries in chosen.items()
        for moment in routing.moments
    ]
    return max(float(np.quantile(np.concatenate(shown), 0.99)), 1e-9)


def _layers(routing: Routing, moment: int, block: int, queries: Sequence[int]) -> np.ndarray:
    """The mean of all queries, then the chosen ones.  # P 1+q S S"""
    a = routing.on_patches(moment, block)
    return np.concatenate([a.mean(1, keepdims=True), a[:, list(queries)]], axis=1)


def _picture(run: Run, routing: Routing, chosen: dict[int, list[int]], high: float, i: int) -> Markup:
    """One test picture with all its maps."""
    picture = int(routing.ids[i])
    name, _ = run.said(picture, -1)
    seen = tag(
        "div",
        tag("img", src=data_url(routing.pixels[i]), alt=f"test picture of the class {name}"),
        tag("div", tag("h3", name), _guesses(run, routing, picture)),
        class_="seen",
    )
    tables = [_maps(routing, block, queries, high, i) for block, queries in chosen.items()]
    return tag("article", seen, tag("div", tables, class_="blocks"), class_="routed")


def _guesses(run: Run, routing: Routing, picture: int) -> Markup:
    """What the method took the picture for at each of the moments."""
    lines = []
    for moment in routing.moments:
        if moment == START:
            continue
        right, guess = run.said(picture, moment - 1)
        verdict = "unasked" if guess is None else "right" if guess == right else "wrong"
        lines.append(tag("li", f"after {moment}: ", tag("span", guess or "not met", class_=verdict)))
    return tag("ul", lines)


def _maps(routing: Routing, block: int, queries: Sequence[int], high: float, i: int) -> Markup:
    """The maps of one block for one picture: a row a moment, a column the mean or a query."""
    heads = ["mean", *(f"q{q + 1}" for q in queries)]
    rows = []
    for moment in routing.moments:
        layers = scale(_layers(routing, moment, block, queries)[i] / high)  # 1+q S S 3
        cells = [
            tag("td", tag("img", src=data_url(layer, ENLARGED), alt=f"{head} after task {moment}", class_="map"))
            for head, layer in zip(heads, layers, strict=True)
        ]
        rows.append(tag("tr", tag("th", moment, scope="row", title=f"after task {moment}"), cells))
    top = tag("tr", tag("th", "task", scope="col"), [tag("th", head, scope="col") for head in heads])
    return tag("table", tag("caption", f"block {block + 1}"), tag("thead", top), tag("tbody", rows), class_="maps")


def _movement(routing: Routing) -> Markup:
    """How far A moved between moments, and how evenly it spreads."""
    moments = routing.moments
    steps = list(zip([START, *moments] if START in routing.maps else moments, moments, strict=False))
    steps = [(a, b) for a, b in steps if a != b]
    since = moments[0]
    after = np.array([n for n in sorted(routing.maps) if n >= since], float)
    lines = [
        Line(f"block {block + 1}", after, np.array([routing.moved(since, int(n), block) for n in after]))
        for block in routing.blocks
    ]
    title = f"distance of the routing maps from those after task {since}, over the stream, by block"
    drawing = curves(lines, x="tasks learned", y=f"distance from task {since}", title=title)
    caption = (
        "Mean total variation distance of A, over the pictures above and all queries, from what it was after task "
        f"{since}: the share of the attention that has gone elsewhere (0: all as it was, 1: all moved)."
    )
    return Markup(tag("h3", "How the maps moved") + figure(drawing, caption) + _figures(routing, steps))


def _figures(routing: Routing, steps: Sequence[tuple[int, int]]) -> Markup:
    """The numbers behind the maps: shares of the class token, evenness, distances."""
    last, ends = routing.last, [moment for moment in (START, routing.last) if moment in routing.maps]
    kept = any(routing.kept_share(last, block) > 0 for block in routing.blocks)
    heads = ["block", *(f"moved, {_moment(a)} to {_moment(b)}" for a, b in steps)]
    heads += [f"to the class token, {_moment(n)}" for n in ends] if routing.prefix else []
    heads += ["to kept prompts"] if kept else []
    heads += [f"{what}, {_moment(n)}" for what in ("evenness", "apart") for n in ends]
    rows = []
    for block in routing.blocks:
        cells = [f"{routing.moved(a, b, block):.3f}" for a, b in steps]
        cells += [f"{100 * routing.prefix_share(n, block):.1f} %" for n in ends] if routing.prefix else []
        cells += [f"{100 * routing.kept_share(last, block):.1f} %"] if kept else []
        cells += [f"{entropy(routing.maps[n][block]).mean():.3f}" for n in ends]
        cells += [f"{routing.apart(n, block):.3f}" for n in ends]
        rows.append(tag("tr", tag("th", block + 1, scope="row"), [tag("td", cell) for cell in cells]))
    whole = tag(
        "table",
        tag("thead", tag("tr", [tag("th", head, scope="col") for head in heads])),
        tag("tbody", rows),
        class_="figures",
    )
    note = (
        "Moved: mean total variation distance of A, over the same pictures and queries. The maps leave out the class "
        "token, whose share is stated here. Evenness: the entropy of a row as a part of the highest there is; at 1 a "
        "query looks everywhere alike. Apart: mean total variation distance between two queries on one picture; near 0 "
        "all see the same."
    )
    region = tag("div", whole, class_="scroll", tabindex=0, role="region", aria_label="figures of the routing maps")
    return Markup(region + tag("p", note, class_="note"))


def _moment(n: int) -> str:
    return "start" if n == START else f"task {n}"
