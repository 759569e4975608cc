"""The rules of the house that no linter knows: sizes of files, what may be imported when, nothing of one machine."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCES = sorted((ROOT / "rwf").rglob("*.py"))
TEXT = (".py", ".md", ".toml", ".txt", ".json", ".sh", ".html", ".tex", ".csv", "")
TEXTS = [
    path
    for folder in ("rwf", "tests", "docs", "examples", "results", ".ci")
    for path in sorted((ROOT / folder).rglob("*"))
    if path.is_file() and path.suffix in TEXT and "__pycache__" not in path.parts
] + [path for name in ("*.toml", "*.txt", "*.md", "Makefile") for path in sorted(ROOT.glob(name))]
HEAVY = {
    "torch",
    "torchvision",
    "timm",
    "tyro",
    "rich",
    "PIL",
    "pyarrow",
    "numpy",
    "safetensors",
    "hypothesis",
    "pytest",
}


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_files_are_small_and_say_what_they_are_for(path: Path) -> None:
    text = path.read_text()
    most = 130 if path.parent.name == "methods" else 300
    lines = len(text.splitlines())
    assert lines <= most, f"{lines} lines: a part is missing (at most {most})"
    if text.strip():
        first = (ast.get_docstring(ast.parse(text)) or "").partition("\n")[0]
        assert first.endswith((".", "?")), "the first line of a module says what it is for"


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_functions_fit_a_screen(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno is not None:
            lines = node.end_lineno - node.lineno + 1
            assert lines <= 60, f"{node.name} has {lines} lines"


def test_nothing_names_a_place_on_somebodys_machine() -> None:
    places = re.compile("|".join(["/" + name + "/" for name in ("work", "root", "home", "opt", "Users")]))
    assert TEXTS
    for path in TEXTS:
        found = places.search(path.read_text(errors="replace"))
        assert found is None, f"{name_of(path)} names {found and found.group()}"


def test_constraints_are_versions_and_no_addresses() -> None:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = [line for line in lines if not line.startswith("#")]
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9._+!]+", pin) for pin in pins)
    names = {re.sub(r"[-_.]+", "-", pin.partition("==")[0]).lower() for pin in pins}
    assert {"torch", "torchvision", "timm", "numpy", "ruff", "pytest", "setuptools"} <= names


def imported_by(code: str) -> set[str]:
    """Names of the packages that a fresh interpreter holds after running the code."""
    show = "import sys; print('\\n' + ' '.join(sorted({name.partition('.')[0] for name in sys.modules})))"
    run = subprocess.run(
        [sys.executable, "-c", f"{code}\n{show}"], capture_output=True, text=True, cwd=ROOT, check=True
    )
    return set(run.stdout.splitlines()[-1].split())


@pytest.mark.parametrize("module", ["rwf", "rwf.cli", "rwf.registry", "rwf.options", "rwf.files", "rwf.seeds"])
def test_importing_the_door_imports_nothing_heavy(module: str) -> None:
    assert not imported_by(f"import {module}") & HEAVY


@pytest.mark.parametrize(
    ("arguments", "allowed"),
    [
        ([], set()),
        (["--help"], set()),
        (["--version"], set()),
        (["list", "methods"], {"tyro"}),
        (["list", "backbones", "--json"], {"tyro"}),
        (["list", "experiments"], {"tyro"}),
    ],
)
def test_what_only_prints_imports_nothing_heavy(arguments: list[str], allowed: set[str]) -> None:
    assert imported_by(f"from rwf.cli import main; assert main({arguments}) == 0") & HEAVY <= allowed


@pytest.mark.parametrize("module", ["rwf.report", "rwf.metrics"])
def test_figures_need_no_torch(module: str) -> None:
    files = [ROOT / "rwf" / "metrics.py"] if module == "rwf.metrics" else sorted((ROOT / "rwf" / "report").glob("*.py"))
    names = [module] + [f"{module}.{file.stem}" for file in files if module == "rwf.report" and file.stem != "__init__"]
    found = imported_by("\n".join(f"import {name}" for name in names))
    assert not found & {"torch", "torchvision", "timm", "PIL", "pyarrow", "safetensors"}


def test_metrics_import_numpy_and_the_base_only() -> None:
    allowed = {"__future__", "numpy", "math", "dataclasses", "typing", "collections", "rwf"}
    for node in ast.walk(ast.parse((ROOT / "rwf" / "metrics.py").read_text())):
        names = (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
        for name in names:
            assert name.partition(".")[0] in allowed
            assert not name.startswith("rwf.") or name.partition(".")[2] in {"errors", "seeds", "files", "registry"}
