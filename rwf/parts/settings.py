"""Options of methods that cannot be, refused in one sentence: words that are not a choice, numbers below 0."""

from __future__ import annotations

from dataclasses import fields
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from rwf.errors import UserError


def not_negative(**numbers: float) -> None:
    """Each of these must be finite and not below 0."""
    for name, value in numbers.items():
        if not 0 <= value < float("inf"):
            raise UserError(f"{name} is {value}; give a finite number that is not negative.")


def check_choices(configuration: Any) -> None:
    """Each option whose type is a few words (or numbers) must be one of these.

    The command line sees to that by itself; from Python a misspelt mask would otherwise be some other mask.
    """
    try:
        types = get_type_hints(type(configuration))
    except NameError:  # a name that only type checkers can see
        return
    for name in (field.name for field in fields(configuration) if field.init):
        allowed, value = _choices(types[name]), getattr(configuration, name)
        if allowed and value not in allowed:
            raise UserError(f"{name} is {value!r}; choose {', '.join(str(choice) for choice in allowed)}.")


def _choices(kind: Any) -> tuple[Any, ...]:
    """What an option of this type can be, if these are a few; None as such is one of them."""
    if get_origin(kind) is Literal:
        return get_args(kind)
    if get_origin(kind) in (Union, UnionType):
        parts = [(None,) if part is NoneType else _choices(part) for part in get_args(kind)]
        return tuple(choice for part in parts for choice in part) if all(parts) else ()
    return ()
