"""Attention in a notebook: the page in a frame that reaches nothing outside of it."""

from __future__ import annotations

import html
import re
import sys
import types
import webbrowser
from pathlib import Path

import numpy as np
import pytest

from headlight import Attention
from headlight.web.page import attention_page
from tests.headlight.test_results import REF, TOKENS

TEXT = 'read "it" & <b>'


def attention(text: str | None = TEXT) -> Attention:
    weights = np.full((2, 3, 3, 3), 1 / 3, np.float32)
    return Attention(weights, (5, 1), TOKENS, REF, text)


def test_a_notebook_shows_the_page_in_a_frame_of_its_own() -> None:
    shown = attention()._repr_html_()
    found = re.fullmatch(
        r'<iframe sandbox="allow-scripts" srcdoc="([^"]*)" title="Attention" style="[^"]*">'
        r"</iframe>",
        shown,
    )
    assert found is not None
    assert html.unescape(found[1]) == attention_page(attention(), TEXT)


def test_attention_without_its_text_shows_pieces() -> None:
    assert html.escape(attention_page(attention(None), None)) in attention(None)._repr_html_()


def test_show_displays_it_below_the_cell_of_a_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    """IPython is no dependency; a kernel has imported it before."""
    displayed: list[object] = []
    library, display = types.ModuleType("IPython"), types.ModuleType("IPython.display")
    vars(library)["get_ipython"] = lambda: types.SimpleNamespace(kernel=object())
    vars(display)["display"] = displayed.append
    monkeypatch.setitem(sys.modules, "IPython", library)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    held = attention()
    held.show()
    assert displayed == [held]


@pytest.mark.parametrize("opens", [True, False])
def test_show_elsewhere_opens_a_file_in_the_browser(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, opens: bool
) -> None:
    addresses: list[str] = []

    def open_page(url: str) -> bool:
        addresses.append(url)
        return opens

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(webbrowser, "open", open_page)
    if opens:
        attention().show()
    else:
        with pytest.raises(RuntimeError, match=f"the page is {re.escape(str(tmp_path))}"):
            attention().show()
    [file] = tmp_path.iterdir()
    assert addresses == [file.as_uri()]
    assert file.suffix == ".html"
    assert file.stat().st_mode & 0o77 == 0
    assert file.read_text(encoding="utf-8") == attention_page(attention(), TEXT)
