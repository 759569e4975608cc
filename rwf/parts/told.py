"""What a method may be told, item by item; what it did not declare is withheld and raises when touched."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from rwf.data.batch import Batch, Boundary, Withheld
from rwf.errors import UserError

NEEDS = ("boundaries", "task_classes", "class_count", "task_count", "memory", "second_look")


def _no_second_look(task: int) -> Iterator[Batch]:
    raise UserError("this stream cannot be looked at a second time; use the method's strict form.")


@dataclass
class Told:
    """The facts about a stream that some methods need; ``None`` where the stream itself does not know them."""

    class_count: Any = None
    task_count: Any = None
    second_look: Callable[[int], Iterator[Batch]] | Any = field(default=_no_second_look)

    def for_needs(self, needs: Iterable[str]) -> Told:
        """The same with everything withheld that is not among ``needs``."""
        shown = set(needs)
        unknown = shown - set(NEEDS)
        if unknown:
            raise UserError(f"needs may name {', '.join(NEEDS)}; {', '.join(sorted(unknown))} is none of them.")
        for what in ("class_count", "task_count"):
            if what in shown and getattr(self, what) is None:
                raise UserError(
                    f"this configuration needs {what}, which is not known here: give {what}=N, or choose a setting "
                    "that does without (for a mask: batch, window or seen)."
                )
        return Told(
            **{
                what: getattr(self, what) if what in shown else Withheld(what)
                for what in ("class_count", "task_count", "second_look")
            }
        )


def shown_boundary(boundary: Boundary, needs: frozenset[str]) -> Boundary | None:
    """A boundary as a method with these needs may see it; None if it may not even know that there is one."""
    if not needs & {"boundaries", "task_classes"}:
        return None
    return Boundary(
        boundary.task if "boundaries" in needs else Withheld("boundaries"),  # type: ignore[arg-type]
        boundary.classes if "task_classes" in needs else Withheld("task_classes"),  # type: ignore[arg-type]
    )
