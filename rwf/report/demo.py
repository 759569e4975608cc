"""The page of `rwf demo`, and what it says on the terminal."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from rwf.files import write_text
from rwf.report.curves import Line, curves
from rwf.report.folder import Run
from rwf.report.maps import routing_section
from rwf.report.markup import Markup, figure, page, section, tag
from rwf.report.matrices import accuracy_heat_map, scale_bar
from rwf.report.reading import PERCENT, Score, reading
from rwf.report.routing import Routing
from rwf.report.table import table, text_table

PAGE = "demo.html"


def write_demo(out: Path, folders: Sequence[Path]) -> str:
    """Writes the page of these runs into ``out``; gives the table, the sentence and the page's path for a terminal."""
    runs = [Run.read(folder) for folder in folders]
    write_text(out / PAGE, demo_page(runs))
    width = min(shutil.get_terminal_size().columns, 100)
    sentences = [sentence(runs), *([cost(runs)] if cost(runs) else [])]
    folded = [textwrap.fill(text, width) for text in sentences]
    return "\n".join([text_table(runs), "", *folded, "", f"page: {out / PAGE}"])


def sentence(runs: Sequence[Run]) -> str:
    """What the table shows, and what it does not."""
    scores = [Score(run.name, run.result["final_accuracy"], run.result["forgetting"]) for run in runs]
    first = runs[0]
    return reading(scores, asked=first.asked, classes=first.class_count, synthetic=first.synthetic)


def cost(runs: Sequence[Run]) -> str:
    """The operations of the runs, where they were counted."""
    known = [run.cost["tflop"] for run in runs if "tflop" in run.cost]
    if not known:
        return ""
    others = ", ".join(run.name for run in runs if "tflop" not in run.cost)
    which = f", without {others}" if others else ""
    return f"Counted: {sum(known):.2f} TFLOP of products for learning and answering together{which}."


def demo_page(runs: Sequence[Run]) -> str:
    """The whole page."""
    maps = [(run, routing) for run in runs if (routing := Routing.read(run.folder / "routing")) is not None]
    return page(
        "rwf demo",
        _head(runs[0], len(runs)),
        tag("p", tag("strong", "In short: "), sentence(runs), class_="reading"),
        table(runs),
        tag("p", _columns(), " ", cost(runs), class_="note"),
        _curves(runs),
        _matrices(runs),
        [routing_section(run, routing) for run, routing in maps],
        _foot(runs),
    )


def _head(run: Run, methods: int) -> Markup:
    options, passes = run.result["run"], run.result["single_pass"]
    what = f"{run.class_count} classes in {run.matrix.shape[1]} tasks, every picture seen once"
    pictures = f"{passes['images_in_stream']:,} training pictures in steps of {options['batch_size']}"
    kind = (
        "The pictures are drawn by a program and the backbone is small: a first look at how the methods behave, in "
        "minutes and without any download. What a method is worth is decided on real benchmarks, not here."
        if run.synthetic
        else "A first look at how the methods behave on one stream."
    )
    return tag(
        "header",
        tag("h1", "A stream learned once"),
        tag("p", f"{what}: {_ways(methods)} to keep a pre-trained ViT learning.", class_="lead"),
        tag("p", kind),
        tag(
            "p",
            "Benchmark ",
            tag("code", run.result["benchmark"]),
            ", backbone ",
            tag("code", run.result["backbone"]),
            f", {pictures}, {run.asked:,} test pictures at the end, seed {run.result['seed']}.",
            class_="note",
        ),
    )


def _ways(count: int) -> str:
    return "one way" if count == 1 else f"{count} ways"


def _columns() -> str:
    return (
        "Final accuracy: mean over tasks at the end of the stream, all classes competing. Forgetting: the best a task "
        "ever reached minus its end, mean over all tasks but the last. Trained: without the head."
    )


def _curves(runs: Sequence[Run]) -> Markup:
    lines = [
        Line(
            run.name, np.arange(1.0, 1 + len(run.after_each)), run.after_each, note=f"{run.after_each[-1]:.1f}{PERCENT}"
        )
        for run in runs
    ]
    title = "mean accuracy over the tasks met so far, after each task, by method"
    drawing = curves(lines, x="tasks learned", y="accuracy, %", title=title)
    caption = (
        "Mean accuracy over the tasks met so far. More tasks are harder, also for who forgets nothing: there are more "
        "classes to choose from."
    )
    return section("Accuracy over the stream", figure(drawing, caption))


def _matrices(runs: Sequence[Run]) -> Markup:
    maps = [
        tag("div", tag("h3", run.name), accuracy_heat_map(run.matrix, f"accuracy matrix of {run.name}")) for run in runs
    ]
    text = (
        "A row is a moment, a column the pictures of one task. Down a column one sees what becomes of a task: where it "
        "darkens, it is forgotten. The diagonal is how well a task was learned when it came."
    )
    return section(
        "What becomes of each task",
        tag("p", text),
        scale_bar("0 %", "100 %", "colours of the accuracies"),
        tag("div", maps, class_="matrices"),
    )


def _foot(runs: Sequence[Run]) -> Markup:
    packages = runs[0].environment.get("packages", {})
    versions = ", ".join(f"{name} {packages[name]}" for name in ("rwf", "torch", "timm") if name in packages)
    threads = runs[0].environment.get("threads")
    masks = sorted({str(run.result["mask"]) for run in runs})
    return tag(
        "footer",
        tag("p", "Each run is a folder with its configuration, every guess and a checkpoint:"),
        tag("ul", [tag("li", tag("code", run.folder)) for run in runs]),
        tag("p", f"{versions}; {threads} threads; class mask of the losses: {', '.join(masks)}."),
    )
