"""What was not declared is withheld, and raises in whatever way it is touched."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rwf.data.batch import Boundary, Withheld, WithheldError
from rwf.errors import UserError
from rwf.parts.told import NEEDS, Told, shown_boundary

TOUCHES: dict[str, Callable[[Any], Any]] = {
    "bool": bool,
    "int": int,
    "len": len,
    "iterate": list,
    "index": lambda x: x[0],
    "call": lambda x: x(),
    "compare": lambda x: x == 3,
    "order": lambda x: x < 3,
    "add": lambda x: x + 1,
    "add to": lambda x: 1 + x,
    "contains": lambda x: 1 in x,
    "attribute": lambda x: x.size,
    "print": str,
    "format": lambda x: f"{x}",
    "hash": hash,
    "range": range,
}


@pytest.mark.parametrize("touch", TOUCHES)
def test_a_withheld_thing_raises_when_touched(touch):
    with pytest.raises(WithheldError, match="class_count"):
        TOUCHES[touch](Withheld("class_count"))


def test_only_what_is_needed_is_shown():
    told = Told(100, 10).for_needs({"task_count"})
    assert told.task_count == 10
    with pytest.raises(WithheldError):
        int(told.class_count)
    with pytest.raises(WithheldError):
        told.second_look(0)


def test_what_the_stream_does_not_know_is_asked_for():
    with pytest.raises(UserError, match="class_count=N"):
        Told().for_needs({"class_count"})


def test_needs_are_spelled_right():
    assert "boundaries" in NEEDS
    with pytest.raises(UserError, match="task_ids"):
        Told().for_needs({"task_ids"})


@pytest.mark.parametrize(
    ("needs", "task", "classes"),
    [({"boundaries"}, True, False), ({"task_classes"}, False, True), ({"boundaries", "task_classes"}, True, True)],
)
def test_a_boundary_shows_as_much_as_was_declared(needs, task, classes):
    shown = shown_boundary(Boundary(3, ["a"]), frozenset(needs))
    assert shown is not None
    for visible, read in ((task, lambda: shown.task == 3), (classes, lambda: list(shown.classes) == ["a"])):
        if visible:
            assert read()
        else:
            with pytest.raises(WithheldError):
                read()


def test_who_declares_nothing_does_not_even_know_that_a_task_began():
    assert shown_boundary(Boundary(0, ["a"]), frozenset({"memory"})) is None
