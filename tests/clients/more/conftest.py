"""Services of the shipped model, what these clients' tests share, and the option for a report."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headlight import Client
from tests.clients.more.report import report
from tests.clients.overload import QUEUE, twelve_at_once
from tests.system.processes import ROOT, Service

BUNDLE = ROOT / "build/bundles/docs-rope"
MODEL = "docs-rope"
TEXTS = ["a fast encoder", "attention weights of each head", "Zürich", "a" * 300]
MANY = [f"text number {number}" for number in range(2100)]  # more than one request takes
TOO_LONG = "word " * 3000
ENDED = ("openai", "/v1/embeddings")  # labels that count the requests of OpenAI's interface
LOOPBACK = {"127.0.0.1", "::1", "localhost"}
Vectors = Callable[[Sequence[str]], "np.ndarray[Any, Any]"]

# Before the clients are imported: no usage reports, and LiteLLM's own list of prices.
os.environ |= {
    "ANONYMIZED_TELEMETRY": "False",
    "DO_NOT_TRACK": "1",
    "HF_HUB_OFFLINE": "1",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_TELEMETRY": "False",
}


def refuse_other_hosts(event: str, arguments: tuple[Any, ...]) -> None:
    """Raise OSError if this process looks up or connects to a host that is not loopback."""
    hosts: list[Any] = []
    if event == "socket.getaddrinfo":
        hosts = [arguments[0]]
    elif event == "socket.connect" and isinstance(arguments[1], tuple):
        hosts = [arguments[1][0]]
    for host in hosts:
        if (
            host is not None
            and (host.decode() if isinstance(host, bytes) else host) not in LOOPBACK
        ):
            raise OSError(f"a client asked for {host!r}; the tests have loopback alone")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option of `nox -s clients-more`."""
    parser.addoption("--report", type=Path, help="file to write a table of all clients into")


def pytest_configure() -> None:
    """Keep this process on loopback; an audit hook cannot be removed again."""
    sys.addaudithook(refuse_other_hosts)


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Write the report, of passed and failed tests alike."""
    out: Path | None = config.getoption("--report")
    if out is not None:
        stats = terminalreporter.stats
        passed = [each.nodeid for each in stats.get("passed", ()) if each.when == "call"]
        failed = [each.nodeid for kind in ("failed", "error") for each in stats.get(kind, ())]
        out.write_text(report(passed, failed), encoding="utf-8")


@pytest.fixture(scope="session")
def service() -> Iterator[Service]:
    with Service(BUNDLE) as running:
        yield running


@pytest.fixture(scope="session")
def busy() -> Iterator[Service]:
    """A service whose queue holds two requests of BUSY."""
    with Service(BUNDLE, *QUEUE) as running:
        yield running


@pytest.fixture
def vectors(service: Service) -> Vectors:
    """Return the vectors that the gRPC client gets."""

    def ask(texts: Sequence[str]) -> np.ndarray[Any, Any]:
        with Client(service.target) as client:
            return np.asarray(client.encode(texts))

    return ask


def assert_equal(found: Any, expected: np.ndarray[Any, Any]) -> None:
    """Assert that vectors are equal to 1e-6."""
    np.testing.assert_allclose(np.asarray(found), expected, rtol=0, atol=1e-6)


def assert_retried(busy: Service, ask: Callable[[], Sequence[float]]) -> None:
    """Assert that twelve requests at once are all answered, though some were refused at first."""
    answers = twelve_at_once(busy, ask)
    assert [each for each in answers if isinstance(each, Exception)] == []
    assert [len(each) for each in answers] == [256] * 12


def example(page: str, language: str, place: int, service: Service) -> str:
    """Return an example of a page of docs/clients as written, but with the service's addresses."""
    text = (ROOT / "docs/clients" / f"{page}.md").read_text(encoding="utf-8")
    code = text.split(f"```{language}\n")[place + 1].split("```")[0]
    assert "127.0.0.1:" in code
    return code.replace("127.0.0.1:8000", service.rest).replace("127.0.0.1:50051", service.target)


def run_example(page: str, service: Service, *places: int) -> dict[str, Any]:
    """Run examples in Python one after the other, else the first one; return their variables."""
    known: dict[str, Any] = {}
    for place in places or (0,):
        exec(example(page, "python", place, service), known)
    return known
