"""Experiments about the retrieval itself, and about what a routing map tells."""

from __future__ import annotations

from rwf.experiments.cell import Ask, Cell

PROMPTS = (1, 5, 10, 30, 60, 100)
BETAS = (0.0625, 0.25, 0.5, 1.0, 2.0, 4.0, 16.0)
"""In units of the paper's 1/sqrt(d)."""
STEPS = (1, 2, 3)
KV = ("identity", "random", "backbone")
TRAIN_KV = ("none", "k", "v", "both")


def prompts(ask: Ask) -> list[Cell]:
    """How many prompts, with what they hold; and the same number weighing as one.

    m equal prompts gain log m in the attention they join, whatever they hold: the control takes it off again.
    """
    methods = ask.methods(("rwf",), "prompts", "weigh_as_one")
    return [
        cell
        for method in methods
        for m in PROMPTS
        for one in (False, True)
        if m > 1 or not one
        for cell in ask.cells(
            method,
            {"m": m, "weight": "one" if one else "m"},
            {"prompts": m, "weigh_as_one": one},
            watch="figures",
        )
    ]


def beta(ask: Ask) -> list[Cell]:
    """Sharper and flatter retrieval: towards the single best token, and towards the mean token."""
    unit = ask.vit.width**-0.5
    return [
        cell
        for method in ask.methods(("rwf",), "beta")
        for times in BETAS
        for cell in ask.cells(method, {"beta sqrt(d)": times}, {"beta": times * unit})
    ]


def steps(ask: Ask) -> list[Cell]:
    """More than one retrieval: what was retrieved asks again."""
    return [
        cell
        for method in ask.methods(("rwf",), "steps")
        for count in STEPS
        for cell in ask.cells(method, {"steps": count}, {"steps": count})
    ]


def projections(ask: Ask) -> list[Cell]:
    """What W_K and W_V are, and what training them brings."""
    return [
        cell
        for method in ask.methods(("rwf",), "kv", "train_kv")
        for kv in KV
        for trained in TRAIN_KV
        for cell in ask.cells(method, {"kv": kv, "train_kv": trained}, {"kv": kv, "train_kv": trained})
    ]


def drift(ask: Ask) -> list[Cell]:
    """Routing maps of fixed test pictures after each task."""
    return [
        cell for method in ask.methods(("rwf",), "prompts", "steps") for cell in ask.cells(method, {}, watch="maps")
    ]


def fine_grained(ask: Ask) -> list[Cell]:
    """Whether the routing of two classes differs, beside what methods without routing reach on the same stream."""
    return [
        cell
        for method in ask.methods(("rwf", "vpt", "linear_probe", "ncm"))
        for cell in ask.cells(method, {}, watch="figures")
    ]
