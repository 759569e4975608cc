"""The experiments behind the paper's tables and its figure."""

from __future__ import annotations

from collections.abc import Sequence

from rwf.experiments.cell import Ask, Cell
from rwf.registry import METHODS
from rwf.run.params import PAPER_PERCENT

COMPARED = ("l2p", "coda_prompt", "dual_prompt", "inflora", "aper_adapter", "ease", "rwf")
"""The rows of the paper's Table 2 and Figure 2."""
ZERO = ("linear_probe", "ncm")
"""What the paper lacks there: nothing but a head, and nothing trained at all."""
FRACTIONS = (1.0, 0.7, 0.5, 0.2)
TASKS = (5, 10, 20, 40)
DEPTHS = (0, 1, 3, 5, 7, 10, 12)


def table1(ask: Ask) -> list[Cell]:
    """Every method on one stream."""
    registered = [name for name, entry in METHODS.items() if not entry.alias_of]
    return [cell for method in ask.methods(registered) for cell in ask.cells(method, {})]


def few_shot(ask: Ask) -> list[Cell]:
    """Fewer training pictures of each class; what is lost, in points and as a share, is measured afterwards."""
    return _along(ask, "fraction", "train_fraction", FRACTIONS)


def tasks(ask: Ask) -> list[Cell]:
    """The same classes cut into more and smaller tasks."""
    return _along(ask, "tasks", "tasks", TASKS)


def _along(ask: Ask, label: str, option: str, values: Sequence[float]) -> list[Cell]:
    """The paper's few rows and ours beside them, at each value of an option of the run."""
    return [
        cell
        for method in ask.methods(COMPARED + ZERO)
        for value in values
        for cell in ask.cells(method, {label: value}, run={option: value})
    ]


def depth(ask: Ask) -> list[Cell]:
    """Routing in the first or the last k blocks.

    At k = 0 stand three rows: the paper's (its Finetune row: the whole network trained, all classes competing), and
    what RwF is without routed blocks, with its own mask and with all classes competing.
    """
    methods = ask.methods(("rwf",), "blocks", "placement")
    blocks = ask.vit.depth
    cells = list(ask.cells("finetune", {"k": 0, "placement": "paper's zero row"}, {"mask": "none"}))
    for method in methods:
        none = {"blocks": 0}
        cells += ask.cells(method, {"k": 0, "placement": "zero row"}, none)
        cells += ask.cells(method, {"k": 0, "placement": "unmasked zero row"}, none | {"mask": "none"})
        for k in sorted({k for k in DEPTHS if 0 < k <= blocks} | {blocks}):
            for placement in ("first", "last") if k < blocks else ("first",):
                cells += ask.cells(method, {"k": k, "placement": placement}, {"blocks": k, "placement": placement})
    return cells


def parameters(ask: Ask) -> list[Cell]:
    """The methods of Table 4, so that trained numbers stand beside what they bought."""
    return [cell for method in ask.methods(tuple(PAPER_PERCENT)) for cell in ask.cells(method, {})]
