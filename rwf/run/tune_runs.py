"""The runs of a search: each in a folder of its own, one after another or several at once, gone on with if there."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from typing import Any

from rwf.errors import UserError
from rwf.files import make_folder
from rwf.options import RunOptions
from rwf.parts.saved import CONFIG
from rwf.run.loop import Stopped
from rwf.run.start import resume, start

LOG = "log.txt"


@dataclass(frozen=True)
class Planned:
    """A run that is to be: the trial it belongs to, and all that it takes."""

    trial: int
    method: str
    options: dict[str, Any]
    run: RunOptions


@dataclass(frozen=True)
class Ended:
    """What came of it: the result, or the sentence that says why there is none."""

    planned: Planned
    result: dict[str, Any] | None = None
    error: str = ""

    @property
    def accuracy(self) -> float | None:
        return None if self.result is None else self.result["final_accuracy"]

    @property
    def forwards(self) -> int:
        """Pictures that went through the backbone while it learned."""
        if self.result is None:
            return 0
        return round(self.result["forwards_per_image"] * self.result["single_pass"]["seen"])


def carry_out(planned: Planned) -> Ended:
    """One run to its end; what it says goes into its own log."""
    folder = planned.run.out
    assert folder is not None
    make_folder(folder)
    with (
        open(folder / LOG, "a", encoding="utf-8") as log,
        contextlib.redirect_stdout(log),
        contextlib.redirect_stderr(log),
    ):
        try:
            if (folder / CONFIG).exists():
                return Ended(planned, resume(folder))
            return Ended(planned, start(planned.method, planned.options, planned.run))
        except Stopped:
            raise
        except UserError as error:
            return Ended(planned, error=str(error))


def carry_out_all(runs: Sequence[Planned], jobs: int) -> Iterator[Ended]:
    """All of them, as they end."""
    if jobs == 1:
        yield from map(carry_out, runs)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(jobs, len(runs)), mp_context=context, initializer=_follow_parent) as pool:
        futures = [pool.submit(carry_out, planned) for planned in runs]
        try:
            for future in as_completed(futures):
                yield future.result()
        except BrokenProcessPool as error:
            raise UserError(
                "a run was killed from outside, perhaps for want of memory: give the same command with fewer --jobs."
            ) from error
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _follow_parent() -> None:
    """A worker whose parent was killed ends too, and gives its folder free."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: Any) -> None:
    parent.join()
    os._exit(1)
