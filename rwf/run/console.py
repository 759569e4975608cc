"""What a person sees of a run: a bar on a terminal, plain lines elsewhere, the result row at the end."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

ROW = (
    "method",
    "benchmark",
    "seed",
    "mask",
    "final_accuracy",
    "forgetting",
    "learning_accuracy",
    "anytime_accuracy",
    "online_accuracy",
    "trainable_percent",
    "forwards_per_image",
)


class Reporter:
    """Shows progress where it can be seen. Use as a context around the loop."""

    def __init__(self, total: int, title: str, done: int = 0, console: Console | None = None) -> None:
        self.console = console or Console(file=sys.stderr)
        self.total = total
        self.bar: Progress | None = None
        if self.console.is_terminal:
            self.bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.fields[note]}"),
                TimeRemainingColumn(),
                console=self.console,
            )
            self.line = self.bar.add_task(title, total=total, completed=done, note="")

    def __enter__(self) -> Reporter:
        if self.bar:
            self.bar.start()
        return self

    def __exit__(self, *_error: Any) -> None:
        if self.bar:
            self.bar.stop()

    def step(self, done: int, note: str) -> None:
        """A batch has been learned."""
        if self.bar:
            self.bar.update(self.line, completed=done, note=note)

    def say(self, text: str) -> None:
        """A line that stays."""
        self.console.print(text, highlight=False, markup=False, soft_wrap=True)


def number(value: Any) -> str:
    """A figure as the table shows it."""
    if value is None:
        return "-"
    return f"{value:.2f}" if isinstance(value, float) else str(value)


def result_table(result: Mapping[str, Any]) -> Table:
    """The result as a two-column table, which fits any terminal."""
    table = Table(show_header=False, box=None, pad_edge=False)
    for key in ROW:
        table.add_row(key.replace("_", " "), number(result.get(key)))
    table.add_row("needs", ", ".join(result["needs"]) or "nothing")
    passes = result["single_pass"]
    says = (
        f"{passes['seen']} of {passes['images_in_stream']} pictures seen, most visits {passes['most_visits']}, "
        f"second looks {passes['second_looks']}, replays {passes['replays']}"
    )
    if passes.get("skipped") or passes.get("skipped_tests"):
        says += f"; cannot be read and left out: {passes['skipped']}, of the test {passes['skipped_tests']}"
    table.add_row("single pass", says)
    return table
