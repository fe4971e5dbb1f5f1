"""The page of a service in the browser, for tests: where it is, and when it has an answer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tests.system.browser import Browser

ANSWERED = (
    "document.querySelector('#progress').textContent === ''"
    " && document.querySelector('main').getAttribute('aria-busy') !== 'true'"
)
REFUSED = "Failed to load resource: the server responded with a status of"


@contextmanager
def visit(browser: Browser, rest: str, *, refused: bool = False) -> Iterator[Browser]:
    """Open the page of the service at `rest`, host:port; it may ask nothing else.

    Args:
        browser: the browser.
        rest: where the service's HTTP frontend is.
        refused: whether the service may refuse requests of the page, which Chromium reports.
    """
    browser.screen(1280, 900)
    browser.problems.clear()
    browser.requests.clear()
    browser.open(f"http://{rest}/")
    yield browser
    others = [
        url for url in browser.requests if not url.startswith((f"http://{rest}/", "data:image/"))
    ]
    assert others == []
    problems = [line for line in browser.problems if not (refused and line.startswith(REFUSED))]
    assert problems == []
    browser.open("about:blank")  # the next test's fragment is not this page's
    browser.problems.clear()
    browser.requests.clear()


def show_task(browser: Browser, name: str) -> None:
    """Choose a task by its tab, once the page knows the models."""
    browser.wait(f"document.querySelector('#tasks input[value={name}]')")
    browser.click(f"#tasks input[value={name}]")


def tasks(browser: Browser) -> list[str]:
    """Return the tasks that the page offers."""
    browser.wait("document.querySelector('#tasks input')")
    names: list[str] = browser.evaluate(
        "[...document.querySelectorAll('#tasks input')].map((each) => each.value)"
    )
    return names


def send(browser: Browser, text: str, field: str = "#text") -> None:
    """Type a text, send it with a click, and wait for the answer."""
    browser.fill(field, text)
    browser.click("#send")
    browser.wait(ANSWERED)


def choose(browser: Browser, field: str, value: str) -> None:
    """Choose an option of a list, as a user does, and wait for the answer."""
    browser.evaluate(
        f"(() => {{ const list = document.querySelector('{field}'); list.value = '{value}';"
        " list.dispatchEvent(new Event('change', {bubbles: true})); })()"
    )
    browser.wait(ANSWERED)
