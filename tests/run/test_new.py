"""The template is a method: it runs, it keeps its promises, and it looks as the house wants it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from rwf import cli
from rwf.errors import UserError
from rwf.registry import resolve_method
from rwf.run import check
from rwf.run.check import Subject
from rwf.run.new import write_template

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def written(tmp_path: Path) -> Path:
    file = tmp_path / "my_own_idea.py"
    assert f"{file}:MyOwnIdea" in write_template(file)
    return file


def test_it_keeps_promises(written: Path) -> None:
    subject = Subject(f"{written}:MyOwnIdea")
    check.learns(subject, batch_size=16, seed=0)
    check.is_told_only_what_it_declared(subject)
    check.resumes_exactly(subject)


def test_its_options_are_on_the_command_line(written: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["run", f"{written}:MyOwnIdea", "--help"])
    assert "--shrink" in capsys.readouterr().out
    assert resolve_method(f"{written}:MyOwnIdea")(shrink=0.5).shrink == 0.5


def test_its_own_term_is_part_of_the_loss(written: Path) -> None:
    ends = []
    for shrink in (0.0, 10.0):
        learner, stream = Subject(f"{written}:MyOwnIdea", {"shrink": shrink}).make()
        check.run_through(learner, stream, end=3)
        ends.append(check.snapshot(learner))
    assert check.differences(*ends)


def test_it_passes_the_linter(written: Path) -> None:
    for command in (["check"], ["format", "--check"]):
        line = [sys.executable, "-m", "ruff", *command, "--config", str(ROOT / "pyproject.toml"), str(written)]
        ran = subprocess.run(line, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stdout + ran.stderr


def test_nothing_is_written_over(written: Path) -> None:
    written.write_text("mine")
    with pytest.raises(UserError, match="already there"):
        write_template(written)
    assert written.read_text() == "mine"


@pytest.mark.parametrize("name", ["method", "method.txt", "two words.py", "1st.py"])
def test_only_a_python_name_will_do(tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError, match="no name for a Python file"):
        write_template(tmp_path / name)
    assert not list(tmp_path.iterdir())
