"""What holds for every method's file and class: where it comes from, no copies, defaults that mean what they say."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import typing
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

import rwf.methods
from rwf.data.view import View
from rwf.errors import UserError
from rwf.parts.learner import Learner
from rwf.parts.told import Told
from rwf.registry import METHODS, resolve_method
from rwf.run.params import shallow_copy
from rwf.vit.forward import ViT
from rwf.vit.weights import load_backbone

FOLDER = Path(inspect.getfile(rwf.methods)).parent
FILES = sorted(path for path in FOLDER.glob("*.py") if path.stem != "__init__")
NAMES = [name for name, entry in METHODS.items() if not entry.alias_of]
LICENCES = ("(MIT)", "(Apache-2.0)", "(CC BY", "no licence")
SAME = 8
"""Lines of code that may not stand in two files."""


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_it_opens_with_paper_repository_licence_and_what_differs(path: Path) -> None:
    opening = " ".join((ast.get_docstring(ast.parse(path.read_text())) or "").split())
    paper = max(opening.find("Paper: "), opening.find("Papers: "))
    repository, differs = opening.find("Official repositor"), opening.find("Differs: ")
    assert 0 < paper < repository < differs, "paper, official repository, what differs, in this order"
    between = opening[repository:differs]
    assert any(licence in between for licence in LICENCES), "the repository's licence"
    assert len(opening) - differs > 40


def test_there_is_a_file_for_every_method_and_no_other() -> None:
    assert {METHODS[name].target.partition(":")[0].rpartition(".")[2] for name in NAMES} == {p.stem for p in FILES}
    assert len(NAMES) == 26


def test_no_two_methods_hold_the_same_lines() -> None:
    places: dict[tuple[str, ...], set[str]] = defaultdict(set)
    for path in [*FILES, *(FOLDER.parent / "parts").glob("*.py")]:
        lines = [line.strip() for line in path.read_text().splitlines()]
        code = [line for line in lines if line and not line.startswith(("#", "from ", "import "))]
        for i in range(len(code) - SAME + 1):
            places[tuple(code[i : i + SAME])].add(path.name)
    twice = {files: lines for lines, found in places.items() if len(files := tuple(sorted(found))) > 1}
    assert not twice


@pytest.mark.parametrize("name", NAMES)
def test_defaults_are_those_of_the_nearest_class(name: str) -> None:
    """With two bases a dataclass may take an option's default from the farther one."""
    method: Any = resolve_method(name)
    for option in dataclasses.fields(method):
        if option.init and option.default is not dataclasses.MISSING:
            assert getattr(method, option.name) == option.default, option.name


# -- impossible settings ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def vit() -> ViT:
    return load_backbone("random:16x2")


def bound(name: str, vit: ViT, *, tasks: int = 2, **options: Any) -> Learner:
    """The method on a ViT of its own of width 16 and depth 2, told whatever it asks for."""
    method: Any = resolve_method(name)
    learner: Learner = method(**{**method.toy_options, **options})
    told = Told(10, tasks, lambda task: iter(()))
    return learner.bind(shallow_copy(vit), viewer=View(seed=0, size=vit.image_size), told=told)


def numbers_of(method: Any) -> dict[str, type]:
    """Its options that are numbers, each with its type."""
    hints = typing.get_type_hints(method)
    out: dict[str, type] = {}
    for option in dataclasses.fields(method):
        kinds = typing.get_args(hints[option.name]) or (hints[option.name],)
        if option.init and (int in kinds or float in kinds):
            out[option.name] = int if int in kinds else float
    return out


@pytest.mark.parametrize("name", NAMES)
def test_a_number_that_cannot_be_is_one_sentence(name: str, vit: ViT) -> None:
    taken: list[tuple[str, float]] = []
    sentences: dict[str, str] = {}
    for option, kind in numbers_of(resolve_method(name)).items():
        for value in (-1,) if kind is int else (-1.0, float("nan"), float("inf")):
            setting: dict[str, Any] = {option: value}
            try:
                bound(name, vit, **setting)
            except UserError as refused:
                sentences[option] = str(refused)
            else:
                taken.append((option, value))
    assert not taken
    assert all(sentence.endswith(".") and "\n" not in sentence for sentence in sentences.values()), sentences


def with_option(option: str) -> list[str]:
    """The methods that have it."""
    return [name for name in NAMES if option in numbers_of(resolve_method(name))]


IMPOSSIBLE: list[tuple[str, dict[str, Any], str]] = [
    ("l2p", {"pool": 4, "top_k": 5}, "5 prompts cannot be chosen out of a pool of 4"),
    ("l2p", {"length": 0}, "length is 0"),
    ("dual_prompt", {"general_blocks": 3}, "blocks 0 to 1"),
    ("dual_prompt", {"expert_length": 0}, "expert_length is 0"),
    ("coda_prompt", {"pool": 1}, "none for each of 2 tasks"),
    ("coda_prompt", {"pool": 17}, "17 components cannot be orthogonal in 16 dimensions"),
    ("coda_prompt", {"length": 3}, "3 is odd"),
    ("online_lora", {"rank": 17}, "a LoRA rank of 17 does not fit a width of 16"),
    ("online_lora", {"rank": 0}, "a LoRA rank of 0"),
    ("online_lora", {"hard_size": 0}, "a memory of 0 pictures"),
    ("online_lora", {"loss_window": 0}, "a loss window of 0"),
    ("inflora", {"rank": 17}, "a LoRA rank of 17"),
    ("inflora", {"energy": 0.9, "last_energy": 0.5}, "energy is 0.9 to 0.5"),
    ("aper_adapter", {"bottleneck": 17}, "an adapter of 17 does not fit a width of 16"),
    ("ease", {"bottleneck": 0}, "an adapter of 0"),
    ("rwf", {"blocks": 3}, "blocks=3"),
    ("rwf", {"prompts": 0, "blocks": 1}, "prompts"),
    ("vpt", {"blocks": 3}, "blocks 0 to 1"),
    ("vpt", {"prompts": 0}, "prompts is 0"),
    ("mir", {"candidates": 7, "replay": 8}, "candidates is 7 and replay 8"),
    ("ranpac", {"random_features": 0}, "0 random features are none"),
    ("ewc_pp", {"fisher_every": 0}, "the Fisher cannot be updated every 0 steps"),
    ("linear_probe", {"head_scale": 0.0}, "head_scale is 0"),
    *((name, {"memory_size": 0}, "a memory of 0 pictures") for name in with_option("memory_size")),
    *((name, {"replay": 0}, "replay is 0") for name in with_option("replay")),
]


@pytest.mark.parametrize(("name", "options", "says"), IMPOSSIBLE)
def test_an_impossible_setting_is_one_sentence(name: str, options: dict[str, Any], says: str, vit: ViT) -> None:
    with pytest.raises(UserError, match=says) as refused:
        bound(name, vit, **options)
    assert str(refused.value).endswith(".")
    assert "\n" not in str(refused.value)


def test_more_tasks_than_components(vit: ViT) -> None:
    with pytest.raises(UserError, match="none for each of 17 tasks"):
        bound("coda_prompt", vit, tasks=17)
