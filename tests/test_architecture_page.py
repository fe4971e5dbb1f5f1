"""docs/architecture.md and the pictures: paths and symbols exist, labels match."""

from __future__ import annotations

import ast
import re
from html import unescape
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "architecture.md"
SOURCES = sorted((ROOT / "docs").glob("*.dot"))
SVG = "{http://www.w3.org/2000/svg}"
WIDEST_POINTS = 675  # 900 pixels, the width of a page column


def words(text: str) -> list[str]:
    return sorted(text.split())


@pytest.mark.parametrize("source", SOURCES, ids=lambda each: str(each.stem))
def test_a_picture_shows_the_labels_of_its_source(source: Path) -> None:
    """After a change: dot -Tsvg docs/architecture.dot -o docs/architecture.svg."""
    labels = re.findall(r"label=<(.*)>\]", source.read_text(encoding="utf-8"))
    written = " ".join(unescape(re.sub(r"<[^>]+>", " ", label)) for label in labels)
    texts = ElementTree.parse(source.with_suffix(".svg")).iter(f"{SVG}text")
    shown = " ".join("".join(text.itertext()) for text in texts)
    assert len(labels) > 12
    assert words(shown) == words(written)


@pytest.mark.parametrize("source", SOURCES, ids=lambda each: str(each.stem))
def test_a_picture_fits_a_page_and_is_white_in_dark_mode(source: Path) -> None:
    picture = ElementTree.parse(source.with_suffix(".svg")).getroot()
    assert float(picture.attrib["width"].removesuffix("pt")) <= WIDEST_POINTS
    assert next(picture.iter(f"{SVG}polygon")).attrib["fill"] == "white"


def test_every_path_that_the_page_names_exists() -> None:
    page = PAGE.read_text(encoding="utf-8")
    named = re.findall(r"`([\w./]+/[\w.]*)`", page) + re.findall(r"\]\(([^)#:]+)\)", page)
    assert len(named) > 30
    for name in named:
        assert (ROOT / name).exists() or (PAGE.parent / name).exists(), name


def is_defined(tree: ast.AST, symbol: str) -> bool:
    """Return whether a module defines a function, class, method or constant."""
    head, _, rest = symbol.partition(".")
    for node in ast.iter_child_nodes(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                found = name == head and not rest
            case ast.ClassDef(name=name):
                found = name == head and (not rest or is_defined(node, rest))
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                found = name == head and not rest
            case _:
                found = False
        if found:
            return True
    return False


def test_a_symbol_is_found_only_where_it_is_defined() -> None:
    tree = ast.parse("LIMIT: int = 1\nclass Queue:\n    async def put(self): self.size()\n")
    assert all(is_defined(tree, symbol) for symbol in ("LIMIT", "Queue", "Queue.put"))
    for missing in ("put", "Queue.size", "Queue.put.x", "LIMIT.put", "Lane"):
        assert not is_defined(tree, missing), missing


def test_every_symbol_that_the_page_names_is_defined() -> None:
    page = PAGE.read_text(encoding="utf-8")
    named = re.findall(r"`([\w./]+\.py):([\w.]+)`", page)
    assert len(named) > 30
    for file, symbol in named:
        tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
        assert is_defined(tree, symbol), f"{file}:{symbol}"
