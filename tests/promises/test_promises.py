"""The guards and the tests that the tables of promises name exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("guarantees", "reliability", "security")
GUARD = re.compile(r"`([\w./]+\.py)`: `([\w.]+)`")
TEST = re.compile(r"`(tests/[\w./]+\.py)(?:::(\w+))?`")


def defined(path: str) -> set[str]:
    """Return the names of a module's functions, classes and constants."""
    found = set()
    for node in ast.walk(ast.parse((ROOT / path).read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
    return found


@pytest.mark.parametrize("page", PAGES)
def test_guards_and_tests_of_promises_exist(page: str) -> None:
    assert (ROOT / f"docs/{page}.md").is_file()
    rows = [
        line
        for line in Path(__file__).with_name(f"{page}.md").read_text(encoding="utf-8").splitlines()
        if line.startswith("| ") and not line.startswith("| promise")
    ]
    assert len(rows) > 20
    for row in rows:
        guards, tests = GUARD.findall(row), TEST.findall(row)
        assert "`python -m tests." in row or tests, row
        for path, name in [*guards, *tests]:
            assert not name or name.rpartition(".")[2] in defined(path), (path, name)
