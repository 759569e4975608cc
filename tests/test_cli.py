"""The command line: options from dataclasses, sentences for mistakes, exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest

import rwf.run.start
from rwf import cli, registry
from rwf.errors import UserError
from rwf.options import RunOptions, field_docs, read_options

ROOT = Path(__file__).resolve().parents[1]


@dataclass(kw_only=True)
class Base:
    rate: float = 0.5
    """How fast."""
    kind: Literal["a", "b"] = "a"
    """Which one,
    in two lines."""


@dataclass(kw_only=True)
class Derived(Base):
    rate: float = 0.25
    """How fast here."""
    keep: bool = True
    """Whether to keep."""
    bound: int | None = None
    """At most; no bound if not given."""
    names: list[str] = field(default_factory=list)
    unseen: int = field(default=0, init=False)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, dict[str, Any], RunOptions]]:
    """What `rwf run` would have started."""
    calls: list[tuple[str, dict[str, Any], RunOptions]] = []

    def start(method: str, method_options: dict[str, Any], options: RunOptions) -> dict[str, Any]:
        calls.append((method, method_options, options))
        passes = dict.fromkeys(["seen", "images_in_stream", "most_visits", "second_looks", "replays"], 1)
        passes |= {"skipped": 0, "skipped_tests": 0}
        return {"method": method, "needs": [], "single_pass": passes, "final_accuracy": 12.5}

    monkeypatch.setattr(rwf.run.start, "start", start)
    return calls


def read(arguments: list[str], **more: Any) -> dict[str, Any]:
    return read_options({"run": RunOptions, "method": Derived}, arguments, prog="rwf run x", about="", **more)


# -- options from dataclasses --------------------------------------------------------------------------------------


def test_docstrings_under_fields_are_found_in_bases_too() -> None:
    assert field_docs(Derived) == {
        "rate": "How fast here.",
        "kind": "Which one,\nin two lines.",
        "keep": "Whether to keep.",
        "bound": "At most; no bound if not given.",
    }


def test_one_flat_list_of_options() -> None:
    line = "--benchmark folder:x --rate 3e-4 --batch-size 8 --kind b --no-keep --bound 4 --names u v --out o/p"
    values = read(line.split())
    assert values["rate"] == 3e-4
    assert (values["benchmark"], values["batch_size"], values["out"]) == ("folder:x", 8, Path("o/p"))
    assert (values["kind"], values["keep"], values["bound"], values["names"]) == ("b", False, 4, ["u", "v"])
    assert values["seed"] == 0
    assert "unseen" not in values


def test_underscores_are_as_good_as_hyphens() -> None:
    assert read(["--benchmark", "b", "--batch_size", "3"])["batch_size"] == 3


def test_other_defaults_give_way_to_what_is_written() -> None:
    line = ["--benchmark", "b", "--rate", "9", "--keep"]
    values = read(line, defaults={"rate": 7.0, "keep": False, "kind": "b", "batch_size": 5})
    assert (values["rate"], values["keep"], values["kind"], values["batch_size"]) == (9.0, True, "b", 5)


def test_a_field_with_the_name_of_a_run_option_is_refused() -> None:
    @dataclass
    class Clash:
        seed: int = 1

    with pytest.raises(UserError, match="'seed' of Clash has the name of an option of every run: rename"):
        read_options({"run": RunOptions, "method": Clash}, [], prog="p", about="")


@pytest.mark.parametrize("line", ["", "--benchmark b --rate fast", "--benchmark b --kind c", "--benchmark b --nope 1"])
def test_a_wrong_option_ends_with_2(line: str) -> None:
    with pytest.raises(SystemExit) as ended:
        read(line.split())
    assert ended.value.code == 2


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"tasks": 0}, "--tasks is 0"),
        ({"batch_size": -1}, "--batch-size is -1"),
        ({"threads": 0}, "--threads is 0"),
        ({"image_size": 0}, "--image-size is 0"),
        ({"checkpoint_every": float("nan")}, "--checkpoint-every is nan"),
        ({"train_fraction": 0.0}, "--train-fraction is 0.0"),
        ({"train_fraction": 1.5}, "--train-fraction is 1.5"),
        ({"test_fraction": 0.0}, "--test-fraction is 0.0"),
        ({"benchmark": ""}, "--benchmark is empty"),
    ],
)
def test_impossible_numbers_are_refused_at_once(options: dict[str, Any], says: str) -> None:
    with pytest.raises(UserError, match=says):
        RunOptions(**{"benchmark": "b", **options})


def test_run_options_come_back_from_json() -> None:
    options = RunOptions(benchmark="b", out=Path("x/y"), threads=2, train_fraction=0.2)
    assert RunOptions.from_json(json.loads(json.dumps(options.as_json()))) == options
    with pytest.raises(UserError, match="does not know: colour"):
        RunOptions.from_json({**options.as_json(), "colour": "red"})


# -- rwf run ---------------------------------------------------------------------------------------------------------


def test_run_hands_over_every_option(started: list[Any], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["run", "linear_probe", "--benchmark", "b", "--lr", "3e-4", "--mask", "batch", "--seed", "4"]) == 0
    method, method_options, options = started[0]
    assert method == "linear_probe"
    assert (method_options["lr"], method_options["mask"]) == (3e-4, "batch")
    assert options == RunOptions(benchmark="b", seed=4)
    assert method_options.keys().isdisjoint(options.as_json())
    assert method_options.keys() == registry.resolve_method("linear_probe")(**method_options).options().keys()
    assert "12.50" in capsys.readouterr().out


@pytest.mark.parametrize("protocol", [["--protocol", "paper"], ["--protocol=paper"]])
def test_the_papers_protocol_changes_defaults_and_is_printed(
    started: list[Any], capsys: pytest.CaptureFixture[str], protocol: list[str]
) -> None:
    paper = registry.resolve_method("rwf").paper_options  # type: ignore[attr-defined]
    assert paper["mask"] == "task"
    assert cli.main(["run", "rwf", "--benchmark", "b", "--mask", "batch", *protocol]) == 0
    _, method_options, options = started[0]
    everything = options.as_json() | method_options
    assert everything["mask"] == "batch"
    assert {**everything, "mask": "task"}.items() >= dict(paper).items()
    said = capsys.readouterr().out
    assert all(f"{name} {everything[name]}" in said for name in paper)
    assert cli.main(["run", "rwf", "--benchmark", "b"]) == 0
    assert started[1][1]["mask"] != "task"


def test_a_method_alone_is_told_what_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["run", "linear_probe"])
    assert ended.value.code == 2
    assert "--benchmark" in capsys.readouterr().err


def test_a_method_that_the_paper_does_not_have_says_so(started: list[Any], capsys: pytest.CaptureFixture[str]) -> None:
    assert not registry.resolve_method("linear_probe").paper_options  # type: ignore[attr-defined]
    assert cli.main(["run", "linear_probe", "--benchmark", "b", "--protocol", "paper"]) == 0
    assert "linear_probe has no row in the paper" in capsys.readouterr().out


def test_run_takes_a_users_file(started: list[Any], tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "from dataclasses import dataclass\nfrom rwf import GradientLearner\n\n"
        "@dataclass(kw_only=True, eq=False, repr=False)\nclass Mine(GradientLearner):\n"
        '    """One of mine."""\n    colour: int = 3\n    """Which colour."""\n'
    )
    assert cli.main(["run", f"{file}:Mine", "--benchmark", "b", "--colour", "5"]) == 0
    assert started[0][1]["colour"] == 5


@pytest.mark.parametrize("name", sorted(registry.METHODS))
def test_every_method_shows_its_options(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["run", name, "--help"])
    assert ended.value.code == 0
    shown = capsys.readouterr().out
    method: Any = registry.resolve_method(name)
    docs = field_docs(method)
    for option in method().options():
        assert f"--{option.replace('_', '-')}" in shown
        assert docs.get(option), f"{name}.{option} has no docstring under it"
    assert max(map(len, shown.splitlines())) <= 80


# -- mistakes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["lst"], "no command 'lst'; did you mean 'list'"),
        (["run"], "name the method first"),
        (["run", "--benchmark", "b"], "name the method first"),
        (["run", "rfw", "--benchmark", "b"], "did you mean 'rwf'"),
        (["run", "json.py:Nothing"], "there is no file"),
        (["run", "linear_probe", "--benchmark", "no-such", "--backbone", "random:32x2"], "no benchmark 'no-such'"),
        (["run", "linear_probe", "--benchmark", "folder:none", "--tasks", "0"], "--tasks is 0"),
        (["resume", "no-such-folder"], "no-such-folder"),
        (["params", "--backbone", "random:32x2", "--classes", "0"], "--classes is 0"),
        (["new", "method.txt"], "no name for a Python file"),
        (["check", "rfw"], "did you mean 'rwf'"),
    ],
)
def test_a_mistake_is_one_sentence_and_2(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(arguments) == 2
    said = capsys.readouterr().err.strip().splitlines()[-1]
    assert said.startswith("rwf: ")
    assert says in said
    assert said[-1] in ".?"
    assert not list(tmp_path.rglob("result.json"))


def test_a_class_that_is_no_method_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.py").write_text("class Mine: pass\n")
    assert cli.main(["run", f"{tmp_path}/mine.py:Mine", "--benchmark", "b"]) == 2
    assert "is not a method" in capsys.readouterr().err


def test_the_traceback_can_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RWF_TRACEBACK", "1")
    with pytest.raises(UserError):
        cli.main(["lst"])


def test_interrupted_is_130(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupt(*_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "run", interrupt)
    assert cli.main(["run", "rwf"]) == 130
    assert "rwf resume" in capsys.readouterr().err


def test_an_error_may_bring_its_own_code(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stopped(UserError):
        code = 130

    def stop(*_: object) -> int:
        raise Stopped("stopped.")

    monkeypatch.setattr(cli, "run", stop)
    assert cli.main(["run"]) == 130


def test_a_reader_that_leaves_is_no_error() -> None:
    line = f"{sys.executable} -m rwf.cli list methods --json"
    environment = os.environ | {"PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(
        line.split(), cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert process.wait() == 141
    assert process.stderr.read() == ""


# -- what only prints ------------------------------------------------------------------------------------------------


def test_the_overview_names_every_command_and_fits_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--help"]) == 0
    shown = capsys.readouterr().out
    assert all(f"  {name} " in shown for name in ["run", *cli.COMMANDS])
    assert max(map(len, shown.splitlines())) <= 80
    assert cli.main([]) == 0
    assert capsys.readouterr().out == shown


@pytest.mark.parametrize("command", sorted(cli.COMMANDS))
def test_every_command_explains_itself(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main([command, "--help"])
    assert ended.value.code == 0
    assert f"usage: rwf {command}" in capsys.readouterr().out


@pytest.mark.parametrize("what", ["methods", "benchmarks", "backbones"])
def test_list_for_people_and_for_programs(what: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["list", what, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert cli.main(["list", what]) == 0
    lines = capsys.readouterr().out
    assert rows
    for row in rows:
        assert row["name"] in lines
        assert row["title"] or row["alias_of"]


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == f"rwf {rwf.__version__}\n"
