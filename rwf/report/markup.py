"""Pages out of plain data: elements that escape what they are given, and the frame of a self-contained page.

What is written is HTML and well-formed XML at once, so that a test can read it with a strict parser.
"""

from __future__ import annotations

from html import escape
from typing import Any

from rwf.report.style import STYLE

EMPTY = frozenset({"br", "img", "meta", "hr", "line", "path", "rect", "circle", "polyline", "polygon", "use", "col"})
"""Elements without content."""


class Markup(str):
    """Text that is markup already, and is not escaped again."""

    __slots__ = ()


def tag(name: str, /, *content: Any, **attributes: Any) -> Markup:
    """An element; content is escaped unless it is Markup, None is left out, lists are joined.

    Attributes: ``class_`` for class, ``_`` for a hyphen (but ``viewBox`` and the like as they are), None to leave one
    out; floats are written short.
    """
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(short(value), quote=True)}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in EMPTY and not content:
        return Markup(f"<{name}{given}/>")
    return Markup(f"<{name}{given}>{join(content)}</{name}>")


def join(content: Any) -> Markup:
    """Pieces of content as one."""
    if content is None:
        return Markup()
    if isinstance(content, Markup):
        return content
    if isinstance(content, list | tuple):
        return Markup("".join(map(join, content)))
    return Markup(escape(short(content), quote=False))


def short(value: Any) -> str:
    """A value as an attribute or a text has it: floats with at most two decimals, which is finer than a pixel."""
    if not isinstance(value, float):
        return str(value)
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def page(title: str, *content: Any) -> str:
    """A whole page that needs nothing but itself: no network, no script."""
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", title),
        tag("style", Markup(STYLE)),
    )
    return "<!DOCTYPE html>\n" + tag("html", head, tag("body", tag("main", *content)), lang="en") + "\n"


def section(heading: str, *content: Any) -> Markup:
    """A part of the page with its heading."""
    return tag("section", tag("h2", heading), *content)


def figure(drawing: Any, caption: Any) -> Markup:
    """A drawing with what it shows below it."""
    return tag("figure", drawing, tag("figcaption", caption))
