"""Names are found without importing anything heavy, and a wrong one is answered with what comes close."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rwf import cli, registry
from rwf.errors import UserError


@pytest.mark.parametrize("name", sorted(registry.METHODS))
def test_every_registered_method_can_be_loaded_and_says_what_it_is(name: str) -> None:
    entry = registry.METHODS[name]
    assert entry.title
    assert isinstance(registry.resolve_method(name), type)
    assert not entry.alias_of or entry.alias_of in registry.METHODS


@pytest.mark.parametrize("name", sorted(registry.METHODS))
def test_the_needs_on_the_list_are_those_of_the_method(name: str) -> None:
    assert registry.METHODS[name].needs == tuple(sorted(registry.resolve_method(name)().needs))


def test_the_list_for_programs_has_the_keys_that_they_read(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["list", "methods", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert len(rows) == 26
    for row in rows:
        assert {"name", "paper", "needs", "trainable_percent"} <= row.keys()
        assert row["paper"] or row["name"] in ("joint", "finetune", "linear_probe")
        assert 0 <= row["trainable_percent"] <= 100


def test_a_close_name_is_suggested_and_a_far_one_answered_with_the_list() -> None:
    with pytest.raises(UserError, match="no method 'finetun'; did you mean 'finetune'"):
        registry.resolve_method("finetun")
    with pytest.raises(UserError, match="there are .*joint.*linear_probe"):
        registry.resolve_method("zzzzzzz")


def test_an_alias_gives_the_entry_it_stands_for() -> None:
    table = {"a": registry.Entry("m:A", "the real one"), "b": registry.Entry("", "another name", alias_of="a")}
    assert registry.entry("thing", table, "b") is table["a"]


def test_a_class_of_a_users_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("from dataclasses import dataclass\n\n@dataclass\nclass Mine:\n    x: 'int' = 3\n")
    found = registry.resolve_method(f"{file}:Mine")
    assert found().x == 3
    with pytest.raises(UserError, match="no class in .* called 'Mien'; did you mean 'Mine'"):
        registry.resolve_method(f"{file}:Mien")


def test_two_files_of_one_name_do_not_meet(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).mkdir()
        (tmp_path / name / "mine.py").write_text(f"class Mine:\n    where = {name!r}\n")
    assert [registry.resolve_method(f"{tmp_path}/{name}/mine.py:Mine").__dict__["where"] for name in "ab"] == ["a", "b"]


@pytest.mark.parametrize(
    ("text", "line", "kind"),
    [
        ("x = 1\n\nboom = 1 / 0\n", 3, ZeroDivisionError),
        ("import no_such_thing_at_all\n", 1, ModuleNotFoundError),
        ("x = 1\nclass Mine\n", 2, SyntaxError),
        ("import json\n\njson.loads('{')\n", 3, ValueError),
    ],
)
def test_an_error_in_a_users_file_names_file_and_line_and_keeps_its_cause(
    tmp_path: Path, text: str, line: int, kind: type[Exception]
) -> None:
    file = tmp_path / "mine.py"
    file.write_text(text)
    with pytest.raises(UserError, match=rf"mine\.py, line {line}: \w+") as caught:
        registry.resolve_method(f"{file}:Mine")
    assert isinstance(caught.value.__cause__, kind)


@pytest.mark.parametrize(
    ("spec", "says"),
    [("mine.py", "FILE.py:Class"), ("nowhere/mine.py:Mine", "no file"), ("{tmp}/mine.txt:Mine", "ends in .py")],
)
def test_a_file_that_cannot_be_meant(tmp_path: Path, spec: str, says: str) -> None:
    (tmp_path / "mine.txt").write_text("")
    with pytest.raises(UserError, match=says):
        registry.resolve_method(spec.format(tmp=tmp_path))
