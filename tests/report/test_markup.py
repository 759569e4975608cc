"""Elements say what they were given, whatever it is, to a browser's parser and to a strict one."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rwf.report.markup import EMPTY, Markup, page, short, tag

# What XML can hold at all: no control characters, no surrogates; a parser turns \r into \n.
texts = st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufffe\uffff"))

VOID = {"br", "hr", "img", "meta", "col"}  # what has no end in HTML; in SVG anything may have content


class Balance(HTMLParser):
    """Complains about elements that are not closed in the order in which they were opened."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: object) -> None:
        assert tag in EMPTY, f"{tag} cannot close itself in HTML"

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"{tag} was never opened"
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def check_page(text: str) -> ElementTree.Element:
    """The page for further questions; it is balanced HTML, well-formed XML, and loads nothing."""
    parser = Balance()
    parser.feed(text)
    parser.close()
    assert parser.open == []
    root = ElementTree.fromstring(text)
    for element in root.iter():
        assert element.tag not in ("script", "link", "iframe", "object", "embed", "base")
        for name, value in element.attrib.items():
            assert not name.startswith("on"), "no script"
            if name in ("src", "href", "srcset", "data", "action", "poster"):
                assert value.startswith("data:image/png;base64,")
            if not value.startswith("data:"):
                assert not re.search(r"(?i)\bnan\b|\binf\b|infinity", value), f"{element.tag} {name}={value}"
    assert "http" not in text
    assert "url(" not in text
    assert "@import" not in text
    return root


@given(texts, texts)
def test_texts_and_attributes_come_back(content: str, value: str) -> None:
    made = tag("p", content, title=value, class_="x", data_name="y")
    element = ElementTree.fromstring(made)
    assert (element.text or "") == content
    assert element.attrib == {"title": value, "class": "x", "data-name": "y"}
    parser = Balance()
    parser.feed(made)
    parser.close()
    assert parser.text == content


def test_markup_is_not_escaped_again_and_nothing_is_left_out() -> None:
    inner = tag("b", "<&>")
    assert inner == "<b>&lt;&amp;&gt;</b>"
    assert tag("p", [inner, " and ", 3], None, id=None) == "<p><b>&lt;&amp;&gt;</b> and 3</p>"
    assert tag("br") == "<br/>"
    assert tag("td") == "<td></td>"
    assert isinstance(inner, Markup)


@given(st.floats(-1e6, 1e6))
def test_numbers_are_short_and_near(value: float) -> None:
    text = short(value)
    assert abs(float(text) - value) <= 0.005 + 1e-9
    assert re.fullmatch(r"-?\d+(\.\d{1,2})?", text)
    assert text != "-0"


@pytest.mark.parametrize("value", [np.float64(0.5), 0.5])
def test_numbers_of_numpy_are_numbers(value: float) -> None:
    assert short(value) == "0.5"


def test_a_page_is_whole() -> None:
    root = check_page(page("a <title>", tag("p", "text & more")))
    assert root.findtext("head/title") == "a <title>"
    assert root.findtext("body/main/p") == "text & more"
    viewport = [m for m in root.iter("meta") if m.get("name") == "viewport"]
    assert len(viewport) == 1
    style = root.findtext("head/style") or ""
    for needed in ("prefers-color-scheme: dark", "@media print", "max-width: 40rem", "overflow-x: auto"):
        assert needed in style
