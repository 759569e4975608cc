"""The guard: every picture handed out is counted, so that "once" is a fact of the run and not a hope."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from rwf.errors import UserError


class SecondLookError(RuntimeError):
    """A picture of the stream was asked for a second time."""


class Guard:
    """Counts the looks at each picture of a catalog: one byte each (more only beyond 255 looks at one picture).

    The stream hands out; who looks again (or ahead) asks ``second_look``, which is refused unless
    ``allow_second_look`` was set for a method that declared it, and counted apart. Replays from a memory are the
    memory's own and not counted here.
    """

    def __init__(self, count: int, stream_ids: Sequence[int] | np.ndarray | None = None) -> None:
        self._handed = np.zeros(count, dtype=np.uint8)  # looks the stream gave: 0 or 1
        self._extra: np.ndarray | None = None  # looks beyond, only where somebody asked
        self._second_looks = 0
        self._skipped = np.zeros(count, dtype=bool)  # pictures that could not be read
        self._skipped_tests: set[int] = set()
        self.images_in_stream = count if stream_ids is None else len(stream_ids)
        self.allow_second_look = False

    def hand_out(self, ids: Sequence[int] | np.ndarray) -> None:
        """The stream gives these pictures away; raises, and counts nothing, if one was given before."""
        index = np.asarray(ids, dtype=np.int64)
        again = index[self._handed[index] > 0]
        if len(again) or len(np.unique(index)) < len(index):
            which = again[0] if len(again) else _first_double(index)
            raise SecondLookError(f"picture {which} was already handed out: a stream gives each picture once")
        self._handed[index] = 1

    def second_look(self, ids: Sequence[int] | np.ndarray) -> None:
        """A look beyond the first hand-out (or ahead of it)."""
        if not self.allow_second_look:
            raise SecondLookError("this method looks twice without declaring it: add 'second_look' to its needs")
        index = np.asarray(ids, dtype=np.int64)
        if self._extra is None:
            self._extra = np.zeros(len(self._handed), dtype=np.uint8)
        add = np.bincount(index, minlength=len(self._handed))
        total = self._extra.astype(np.int64) + add
        small = self._extra.dtype == np.uint8 and total.max(initial=0) <= 255
        self._extra = total.astype(np.uint8) if small else total  # exact beyond 255, at eight bytes an image
        self._second_looks += len(index)

    def skip(self, ids: Sequence[int] | np.ndarray) -> None:
        """These pictures could not be read and were left out."""
        self._skipped[np.asarray(ids, dtype=np.int64)] = True

    def skip_tests(self, ids: Sequence[int] | np.ndarray) -> None:
        """These test pictures could not be read and were left out; asked again at every evaluation, counted once."""
        self._skipped_tests.update(np.asarray(ids, dtype=np.int64).tolist())

    def certificate(self) -> dict[str, int]:
        """What the run may claim about single pass."""
        looks = self._handed.astype(np.int64)
        if self._extra is not None:
            looks += self._extra
        return {
            "images_in_stream": self.images_in_stream,
            "seen": int((self._handed > 0).sum()),
            "most_visits": int(looks.max(initial=0)),
            "second_looks": self._second_looks,
            "skipped": int(self._skipped.sum()),
            "skipped_tests": len(self._skipped_tests),
        }

    def state(self) -> dict[str, Tensor]:
        """Tensors for a checkpoint."""
        state = {
            "handed": torch.from_numpy(self._handed.copy()),
            "skipped": torch.from_numpy(self._skipped.copy()),
            "second_looks": torch.tensor(self._second_looks),
            "skipped_tests": torch.tensor(sorted(self._skipped_tests), dtype=torch.int64),
        }
        if self._extra is not None:
            state["extra"] = torch.from_numpy(self._extra.copy())
        return state

    def restore(self, state: dict[str, Tensor]) -> None:
        """Back to a checkpoint's counts."""
        if len(state["handed"]) != len(self._handed):
            raise UserError(
                f"the checkpoint counted {len(state['handed'])} pictures, but this catalog has {len(self._handed)}: "
                "resume with the data the run began with."
            )
        self._handed = state["handed"].numpy().astype(np.uint8)
        self._skipped = state["skipped"].numpy().astype(bool)
        self._second_looks = int(state["second_looks"])
        self._skipped_tests = set(state["skipped_tests"].tolist()) if "skipped_tests" in state else set()
        self._extra = state["extra"].numpy().copy() if "extra" in state else None


def _first_double(index: np.ndarray) -> int:
    values, counts = np.unique(index, return_counts=True)
    return int(values[counts > 1][0])
