"""A page of another origin calls the service from a real browser (CORS)."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator

import pytest

from tests.system.browser import Browser
from tests.system.conftest import bundle_of
from tests.system.processes import Service

CALL = """
fetch("http://%s/v1/embeddings", {
  method: "POST",
  headers: {"Content-Type": "application/json", "Authorization": "Bearer any"},
  body: JSON.stringify({input: ["open a file"]}),
}).then(async (answer) => (await answer.json()).data[0].embedding.length, (error) => error.name)
"""


class Page(http.server.BaseHTTPRequestHandler):
    """An empty page at any path."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!DOCTYPE html><title>app</title><link rel=icon href=data:,>")

    def log_message(self, *_: object) -> None:
        """Write nothing."""


@pytest.fixture
def origin() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_a_page_may_call_only_a_service_that_names_its_origin(
    chromium: Browser, rope: Service, origin: str
) -> None:
    chromium.open(f"{origin}/")
    assert chromium.evaluate(CALL % rope.rest) == "TypeError"
    assert any("blocked by CORS policy" in problem for problem in chromium.problems)
    with Service(bundle_of("docs-rope"), "--cors-origins", origin) as service:
        assert chromium.evaluate(CALL % service.rest) == 256
    chromium.open("about:blank")  # the next test's page is another
    chromium.problems.clear()
    chromium.requests.clear()
