"""When to save: every so many seconds, and when the process is asked to end."""

from __future__ import annotations

import signal
import time
from types import FrameType
from typing import Any


class Watch:
    """A context that turns SIGTERM and SIGINT into ``stop``, so that a run ends between two steps, saved."""

    def __init__(self, every: float) -> None:
        self.every, self.last = every, time.monotonic()
        self.stop: int | None = None

    def __enter__(self) -> Watch:
        self._before: dict[int, Any] = {}
        for number in (signal.SIGTERM, signal.SIGINT):
            try:
                self._before[number] = signal.signal(number, self._asked)
            except ValueError:  # not in the main thread: whoever started the thread minds the signals
                break
        return self

    def __exit__(self, *_error: Any) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _asked(self, number: int, _frame: FrameType | None) -> None:
        if self.stop is not None:  # asked twice: at once
            raise KeyboardInterrupt
        self.stop = number

    def due(self) -> bool:
        """Whether it is time for a checkpoint."""
        return self.stop is not None or time.monotonic() - self.last >= self.every

    def saved(self) -> None:
        self.last = time.monotonic()
