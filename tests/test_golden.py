"""Every file of golden numbers is read by a test that names it."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

from tests.shared import shared

TESTS = Path(__file__).parent


def names_in(path: Path) -> tuple[set[str], list[re.Pattern[str]]]:
    """The texts of a test file, and those of its f-strings that have a fixed part, as patterns."""
    tree = ast.parse(path.read_text())
    texts = {str(node.value).removesuffix(".npz") for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    patterns = []
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts = [re.escape(str(p.value)) if isinstance(p, ast.Constant) else "(.+)" for p in node.values]
            if set(parts) != {"(.+)"}:
                patterns.append(re.compile("".join(parts)))
    return texts, patterns


def test_no_golden_file_is_left_out() -> None:
    index = json.loads((shared("golden") / "INDEX.json").read_text())
    files = [names_in(path) for path in TESTS.rglob("test_*.py")]

    def named(name: str) -> bool:
        for texts, patterns in files:
            matches = [match for pattern in patterns if (match := pattern.fullmatch(name))]
            if name in texts or any(set(match.groups()) <= texts for match in matches):
                return True
        return False

    left_out = [entry["name"] for entry in index["fixtures"] if not named(entry["name"])]
    assert not left_out
