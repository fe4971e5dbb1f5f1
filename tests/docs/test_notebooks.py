"""Notebooks: how they are committed, and their pages on the site."""

from __future__ import annotations

import json
import re
import tempfile
from pathlib import Path
from typing import Any

import pytest

from docs.site.reference import notebook

ROOT = Path(__file__).resolve().parents[2]
PATHS = sorted(ROOT.glob("docs/notebooks/*.ipynb"))
MOST_BYTES = 300_000
LINK = re.compile(r"\]\(([^()\s#:]+)[^()]*\)")


def code_cells(path: Path) -> list[dict[str, Any]]:
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return [cell for cell in cells if cell["cell_type"] == "code"]


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
class TestCommitted:
    def test_every_cell_was_run_in_order_without_errors(self, path: Path) -> None:
        cells = code_cells(path)
        assert [cell["execution_count"] for cell in cells] == [*range(1, len(cells) + 1)]
        outputs = [output for cell in cells for output in cell["outputs"]]
        assert {output["output_type"] for output in outputs} <= {"stream", "execute_result"}
        assert all(output.get("name", "stdout") == "stdout" for output in outputs)

    def test_what_differs_from_run_to_run_is_left_out(self, path: Path) -> None:
        text = path.read_text(encoding="utf-8")
        assert not any(cell["metadata"] for cell in code_cells(path))
        assert "version" not in json.loads(text)["metadata"]["language_info"]
        assert not re.search(rf"{ROOT}|{Path.home()}/|{tempfile.gettempdir()}/", text)

    def test_it_is_small(self, path: Path) -> None:
        assert path.stat().st_size < MOST_BYTES

    def test_its_links_lead_to_files(self, path: Path) -> None:
        links = LINK.findall(notebook(path))
        assert links
        assert not [link for link in links if not (path.parent / link).exists()]


def page(tmp_path: Path, *cells: dict[str, Any]) -> str:
    path = tmp_path / "a.ipynb"
    path.write_text(json.dumps({"cells": cells}), encoding="utf-8")
    return notebook(path)


def code(source: str, **output: Any) -> dict[str, Any]:
    return {"cell_type": "code", "source": [source], "outputs": [output]}


def test_a_page_has_text_code_and_outputs(tmp_path: Path) -> None:
    text = {"cell_type": "markdown", "source": ["# A\n", "\n", "text"]}
    shown = page(tmp_path, text, code("print(1)", name="stdout", text=["1\n", "2\n"]))
    assert shown == (
        "# A\n\ntext\n\n````python\nprint(1)\n````\n\n````{ .text .output }\n1\n2\n````"
    )


def test_html_is_shown_instead_of_its_text_and_stays_on_a_line(tmp_path: Path) -> None:
    data = {"text/html": ['<iframe srcdoc="a\n', '\nb"></iframe>'], "text/plain": ["<A>"]}
    shown = page(tmp_path, code("a", data=data))
    assert shown == '````python\na\n````\n\n<iframe srcdoc="a&#10;&#10;b"></iframe>'


def test_the_search_has_at_most_ten_lines() -> None:
    sources = ["".join(cell["source"]) for cell in code_cells(ROOT / "docs/notebooks/search.ipynb")]
    [source] = [source for source in sources if "def search" in source]
    assert len([line for line in source.splitlines() if line.strip()]) <= 10
