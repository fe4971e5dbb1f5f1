"""The conformance program of tests/conformance, on a service of ours, in each dialect."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from subprocess import run

import pytest

from tests import scorers
from tests.system.conftest import bundle_of
from tests.system.processes import ROOT, Service

TOKEN = "a-long-token-of-the-tests"
NOT_OFFERED = {
    "openai": {"token-ids"},
    "tei": {"decode", "embed-sparse"},
    "cohere": {"int8", "uint8"},  # docs-rope's bundle has no ranges
    "oip": set[str](),
}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Serve docs-rope, and a small reranker; the queue holds fewer than `overload` sends."""
    tokens = tmp_path_factory.mktemp("tokens") / "tokens"
    tokens.write_text(f"tests {TOKEN}\n", encoding="utf-8")
    queue = ("--max-request-tokens", "4096", "--max-queue-tokens", "8192")
    options = ("--auth-tokens", str(tokens), *queue)
    models = [bundle_of("docs-rope"), scorers.bundle(tmp_path_factory, "reranker")]
    with Service(models, *options) as running:
        yield running


@pytest.mark.parametrize("dialect", list(NOT_OFFERED))
def test_each_dialect_keeps_what_its_clients_rely_on(service: Service, dialect: str) -> None:
    url = {"openai": f"http://{service.rest}/v1", "oip": f"grpc://{service.target}"}
    at = url.get(dialect, f"http://{service.rest}")
    words = ["--model", "docs-rope", "--token", TOKEN, "--overload", "64"]
    words += ["--rerank-model", "reranker"] if dialect == "cohere" else []
    command = [sys.executable, "-m", "tests.conformance", at, "--dialect", dialect, *words]
    done = run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    not_offered = {words[2] for words in lines if words[:2] == ["not", "offered"]}
    assert not_offered == NOT_OFFERED[dialect]


def test_it_runs_with_nothing_but_the_standard_library(service: Service) -> None:
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
    code += "from tests.conformance.__main__ import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-I", "-S", "-c", code]
    options = ["--dialect", "openai", "--only", "usage", "--token", TOKEN]
    done = run([*command, f"http://{service.rest}/v1", *options], check=False, timeout=60)
    assert done.returncode == 0
