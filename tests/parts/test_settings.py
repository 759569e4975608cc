"""Impossible options are refused in one sentence, whatever door they come through."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import pytest

from rwf.errors import UserError
from rwf.parts.learner import Learner
from rwf.parts.masks import MaskKind
from rwf.parts.settings import check_choices, not_negative
from rwf.registry import METHODS
from tests.methods.by_hand import bound, pictures
from tests.pictures import tiny_vit


@dataclass(kw_only=True)
class Options:
    word: Literal["a", "b"] = "a"
    maybe: Literal["c", "d"] | None = None
    number: Literal[1, 2] = 1
    free: str | None = "anything"
    real: float = -1.0


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"word": "c"}, r"^word is 'c'; choose a, b\.$"),
        ({"word": None}, r"^word is None; choose a, b\.$"),
        ({"maybe": "a"}, r"^maybe is 'a'; choose c, d, None\.$"),
        ({"number": 3}, r"^number is 3; choose 1, 2\.$"),
    ],
)
def test_a_word_that_is_no_choice_is_named_with_the_choices(options, sentence):
    with pytest.raises(UserError, match=sentence):
        check_choices(Options(**options))


def test_choices_pass_and_so_does_what_has_none():
    check_choices(Options())
    check_choices(Options(word="b", maybe="d", number=2, free=None, real=float("nan")))


def test_numbers_below_0_and_no_numbers():
    not_negative(a=0.0, b=3)
    for value in (-1e-9, float("nan"), float("inf")):
        with pytest.raises(UserError, match=rf"^pull is {value}; give a finite number that is not negative\.$"):
            not_negative(a=1.0, pull=value)


@pytest.mark.parametrize(("option", "choices"), [("mask", get_args(MaskKind)), ("head", ("linear", "cosine"))])
def test_a_misspelt_option_is_not_another_mask_or_head(option, choices):
    misspelt: dict[str, Any] = {option: "tsk"}
    with pytest.raises(UserError, match=f"{option} is 'tsk'; choose {', '.join(choices)}"):
        bound("linear_probe", tiny_vit(), pictures(1), **misspelt)


@pytest.mark.parametrize("method", METHODS)
def test_all_defaults_are_choices(method):
    from rwf.run.build import make_method

    learner = make_method(method, {})
    assert isinstance(learner, Learner)
    check_choices(learner)
