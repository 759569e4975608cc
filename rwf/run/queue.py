"""A queue of run folders: several at a time, how far each is, and an end in which nothing is lost."""

from __future__ import annotations

import contextlib
import json
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from rwf.run.record import ROWS
from rwf.run.workers import Workers

LOOK = 0.2
"""Seconds between two looks at the runs."""


@dataclass(frozen=True)
class Job:
    """A run folder with its job.json in it."""

    title: str
    folder: Path
    pictures: int
    """Of its stream, for the bar."""


def work_off(
    jobs: Sequence[Job],
    workers: Workers,
    at_once: int,
    ended: Callable[[Job, str], None],
    console: Console | None = None,
) -> None:
    """Runs all jobs. ``ended`` hears of each: "" or what went wrong. Ctrl-C and SIGTERM let running ones save."""
    waiting, running = list(jobs), dict[Job, Any]()
    with interruptible(), Board(len(jobs), console) as board:
        try:
            while waiting or running:
                while waiting and len(running) < at_once:
                    job = waiting.pop(0)
                    running[job] = workers.start(job.folder)
                    board.begin(job)
                time.sleep(LOOK)
                for job in list(running):
                    said = workers.ended(running[job])
                    if said is None:
                        board.show(job, pictures_learned(job.folder))
                        continue
                    del running[job]
                    board.finish(job, said)
                    ended(job, said)
        finally:
            if running:
                board.say(f"{len(running)} runs are being saved ...")
                workers.stop(list(running.values()))


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """SIGTERM like Ctrl-C. Outside the main thread nothing is changed."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    try:
        before = signal.signal(signal.SIGTERM, stop)
    except ValueError:
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def pictures_learned(folder: Path) -> int:
    """How far a run is, from the end of the rows it writes."""
    try:
        with open(folder / ROWS, "rb") as file:
            file.seek(max(0, file.seek(0, 2) - 16_384))
            lines = file.read().split(b"\n")[:-1]
    except FileNotFoundError:
        return 0
    for line in reversed(lines):
        with contextlib.suppress(ValueError):  # the first line of the piece may be cut
            row = json.loads(line)
            if "pictures" in row:
                return int(row["pictures"])
    return 0


class Board:
    """What a person sees: bars on a terminal, a line a run elsewhere."""

    def __init__(self, total: int, console: Console | None = None) -> None:
        self.console, self.total, self.done = console or Console(file=sys.stderr), total, 0
        columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f} %"))
        self.bars = Progress(*columns, TimeElapsedColumn(), console=self.console, disable=not self.console.is_terminal)
        self.lines: dict[Job, TaskID] = {}
        self.clocks: dict[Job, float] = {}

    def __enter__(self) -> Board:
        self.bars.start()
        self.all = self.bars.add_task("runs", total=self.total)
        return self

    def __exit__(self, *_error: Any) -> None:
        self.bars.stop()

    def begin(self, job: Job) -> None:
        """A run has been started."""
        self.clocks[job] = time.monotonic()
        self.lines[job] = self.bars.add_task(job.title, total=job.pictures)

    def show(self, job: Job, pictures: int) -> None:
        """How far it is."""
        self.bars.update(self.lines[job], completed=pictures)

    def finish(self, job: Job, said: str) -> None:
        """It has ended."""
        self.done += 1
        self.bars.remove_task(self.lines.pop(job))
        self.bars.update(self.all, completed=self.done)
        took = time.monotonic() - self.clocks.pop(job)
        self.say(f"[{self.done}/{self.total}] {job.title}: {said or f'{took:.0f} s'}")

    def say(self, text: str) -> None:
        """A line that stays."""
        self.bars.console.print(text, highlight=False, markup=False, soft_wrap=True)
