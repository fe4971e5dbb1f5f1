"""The guards and the tests that the tables of promises name exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("guarantees", "reliability", "security")
GUARD = re.compile(r"`([\w./]+\.py)`: `([\w.]+)`")
FILE = re.compile(r"`[\w./]+`")  # a guard that is no function: a setting, or a whole module
TEST = re.compile(r"`(tests/[\w./]+\.py)(?:::(\w+))?`")


def defined(path: str) -> set[str]:
    """Return the names that a module defines; those of a class behind its name."""
    names: set[str] = set()

    def add(body: list[ast.stmt], prefix: str) -> None:
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                names.add(prefix + node.name)
                add(node.body, f"{prefix}{node.name}.")
            elif isinstance(node, ast.Assign | ast.AnnAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                names.update(prefix + each.id for each in targets if isinstance(each, ast.Name))

    add(ast.parse((ROOT / path).read_text(encoding="utf-8")).body, "")
    return names


@pytest.mark.parametrize("page", PAGES)
def test_guards_and_tests_of_promises_exist(page: str) -> None:
    assert (ROOT / f"docs/{page}.md").is_file()
    rows = [
        [cell.strip() for cell in line.strip("|").split(" | ")]
        for line in Path(__file__).with_name(f"{page}.md").read_text(encoding="utf-8").splitlines()
        if line.startswith("| ") and not line.startswith("| promise")
    ]
    assert len(rows) > 20
    for promise, guard, test in rows:
        guards, tests = GUARD.findall(guard), TEST.findall(test)
        assert guards or FILE.search(guard), promise
        assert tests or "`python -m tests." in test, promise
        for path, name in [*guards, *tests]:
            assert not name or name in defined(path), (path, name)
