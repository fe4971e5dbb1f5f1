"""The attention page in a notebook, or in the browser."""

from __future__ import annotations

import html
import importlib
import sys
import tempfile
import webbrowser
from pathlib import Path
from typing import Any

from headlight.results import Attention
from headlight.web.page import attention_page

HEIGHT = 720  # pixels of the frame: the controls and the lines of a sentence


def inline(attention: Attention) -> str:
    """Return the page in a frame that loads nothing and reaches nothing of the notebook."""
    page = attention_page(attention, attention.text)
    return (
        f'<iframe sandbox="allow-scripts" srcdoc="{html.escape(page)}" title="Attention" '
        f'style="width: 100%; height: {HEIGHT}px; border: 1px solid #8888"></iframe>'
    )


def show(attention: Attention) -> None:
    """Show the page below the cell of a notebook, else in the browser; see `Attention.show`."""
    if in_notebook():
        importlib.import_module("IPython.display").display(attention)  # it runs this code
        return
    page = attention_page(attention, attention.text)
    with tempfile.NamedTemporaryFile(
        "w", encoding="utf-8", prefix="headlight-", suffix=".html", delete=False
    ) as file:
        file.write(page)
    if not webbrowser.open(Path(file.name).as_uri()):
        raise RuntimeError(f"no browser can be opened here; the page is {file.name}")


def in_notebook() -> bool:
    """Return whether this code runs in the kernel of a notebook; IPython in a terminal is none."""
    library: Any = sys.modules.get("IPython")
    return library is not None and hasattr(library.get_ipython(), "kernel")
