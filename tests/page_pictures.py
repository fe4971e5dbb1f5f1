"""python -m tests.page_pictures: draw the pictures of docs/guides/explain.md and docs/page.md.

It serves docs-rope, takes the passages from the guide, and opens the pages in Chromium.
"""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path
from urllib.parse import urlencode

from headlight.cli.commands import main
from tests.system.browser import Browser
from tests.system.conftest import bundle_of
from tests.system.live import ANSWERED, show_task
from tests.system.processes import ROOT, Service

PAGE = ROOT / "docs/guides/explain.md"
QUERY = "read a json file"
WIDTH = 1000  # pixels
CODE = "for line in open(path):\n    total += int(line.split()[0])"
BRACKET = "#view=head&layer=2&head=0&most=1&token=q7"  # a head that finds the matching bracket


def passages() -> str:
    """Return the passages of the page's first example."""
    return PAGE.read_text(encoding="utf-8").partition("<<END\n")[2].partition("END\n")[0]


def draw(browser: Browser, name: str, token: int, height: int) -> None:
    """Point at a token of the query, and keep a picture of the page."""
    browser.screen(WIDTH, height)
    browser.move(f"#compared-query [role=button]:nth-child({2 * token + 1})")
    (PAGE.parent / name).write_bytes(browser.picture())


def draw_all() -> None:
    """Draw the page of the command line, and the tab of the service's page."""
    with (
        tempfile.TemporaryDirectory() as folder,
        Service(bundle_of("docs-rope")) as service,
        contextlib.chdir(folder),  # so the picture has the file's name alone
    ):
        page = Path(folder) / "compared.html"
        Path("passages.txt").write_text(passages(), encoding="utf-8")
        arguments = ["compare", QUERY, "passages.txt", "--target", service.target]
        methods = ("span", "occlusion", "late-interaction")
        options = [f"--method={method}" for method in methods]
        assert main([*arguments, *options, "--html", page.name]) == 0
        with Browser(Path(folder)) as browser:
            browser.screen(WIDTH, 700)
            browser.open(page)
            draw(browser, "explain-file.png", 2, 700)
            browser.open(f"http://{service.rest}/")
            browser.wait(ANSWERED)  # the example's
            show_task(browser, "compare")
            browser.fill("#query", QUERY)
            browser.fill("#passages", passages())
            browser.click("#send")
            browser.wait(ANSWERED)
            draw(browser, "explain-tab.png", 3, 1000)
            browser.screen(1280, 1010)
            browser.open(f"http://{service.rest}/", f"{BRACKET}&{urlencode({'text': CODE})}")
            browser.wait(f"document.querySelector('#views').checkVisibility() && {ANSWERED}")
            (ROOT / "docs/page.png").write_bytes(browser.picture())


if __name__ == "__main__":
    draw_all()
