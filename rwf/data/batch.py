"""What a stream hands out: pictures with labels, and boundaries for those who declared that they need them."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn, Protocol

from torch import Tensor


class Viewer(Protocol):
    """Turns stored pictures into network input; a pure function of seed, id, visit number and kind."""

    def __call__(self, images: Sequence[Tensor], ids: Sequence[int], visits: Sequence[int], kind: str) -> Tensor: ...


@dataclass(frozen=True, eq=False)
class Batch:
    """A few pictures of the stream. It does not know its task.

    ``images`` are the un-augmented uint8 pictures, 3 H W each, sizes may differ. ``visits[i]`` is how often
    picture i was handed out before: 0 for the stream, more for a memory's replays.
    """

    images: Sequence[Tensor]
    labels: Sequence[Hashable]
    ids: Sequence[int]
    viewer: Viewer
    visits: Sequence[int] = field(default=())

    def __post_init__(self) -> None:
        if not self.visits:
            object.__setattr__(self, "visits", [0] * len(self.ids))

    def __len__(self) -> int:
        return len(self.ids)

    def view(self, n: int = 0, kind: str = "train") -> Tensor:
        """The n-th train view of these pictures (or their one test view), float, normalised.  # B 3 P P"""
        return self.viewer(self.images, self.ids, [v + n for v in self.visits], kind)

    def split(self, size: int) -> Iterator[Batch]:
        """The same pictures in batches of at most ``size``, so that not all views are in memory at once."""
        for i in range(0, len(self), size):
            part = slice(i, i + size)
            yield Batch(self.images[part], self.labels[part], self.ids[part], self.viewer, self.visits[part])

    def __add__(self, other: Batch) -> Batch:
        """Both batches as one (stream and replay in one forward)."""
        return Batch(
            [*self.images, *other.images],
            [*self.labels, *other.labels],
            [*self.ids, *other.ids],
            self.viewer,
            [*self.visits, *other.visits],
        )


@dataclass(frozen=True)
class Boundary:
    """A task begins: which one it is and which classes it brings (withheld from who did not ask)."""

    task: int
    classes: Sequence[Hashable]


class WithheldError(RuntimeError):
    """A method touched what it had not declared to need."""


class Withheld:
    """Stands where something would be that a method did not declare; raises when touched in any way."""

    def __init__(self, what: str) -> None:
        object.__setattr__(self, "_what", what)

    def _refuse(self, *_args: Any, **_kwargs: Any) -> NoReturn:
        what = object.__getattribute__(self, "_what")
        raise WithheldError(f"this method used {what!r} without declaring it: add {what!r} to its needs.")

    def __getattr__(self, name: str) -> NoReturn:
        self._refuse()

    __call__ = __bool__ = __int__ = __index__ = __float__ = __len__ = __iter__ = __getitem__ = _refuse
    __eq__ = __lt__ = __le__ = __gt__ = __ge__ = __add__ = __radd__ = __mul__ = __rmul__ = _refuse  # type: ignore[assignment]
    __sub__ = __rsub__ = __str__ = __format__ = __contains__ = __hash__ = _refuse  # type: ignore[assignment]
