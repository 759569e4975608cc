"""How far a download or an unpacking has come: a bar on a terminal, one plain line elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def bar(title: str, total: int, done: int = 0) -> Iterator[Callable[[int], None]]:
    """Gives a function that is told how many bytes are done in all."""
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        print(f"{title} ({size_of(total)})", file=sys.stderr, flush=True)
        yield lambda _done: None
        return
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, TimeRemainingColumn(), console=console) as progress:
        line = progress.add_task(title, total=total, completed=done)
        yield lambda now: progress.update(line, completed=now)


def size_of(count: int) -> str:
    """Bytes as a person reads them."""
    value, units = float(count), ["bytes", "kB", "MB", "GB", "TB"]
    while value >= 1000 and len(units) > 1:
        value /= 1000
        units.pop(0)
    return f"{count} bytes" if units[0] == "bytes" else f"{value:.1f} {units[0]}"
