"""OpenAI's client for Node against a real service. Run by `nox -s clients-more`."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.clients.abandoned import LONG, abandoned
from tests.clients.more.conftest import (
    ENDED,
    MANY,
    MODEL,
    TEXTS,
    TOO_LONG,
    Vectors,
    assert_equal,
    example,
)
from tests.clients.more.report import NODE, npm_versions
from tests.clients.overload import BUSY, refusals
from tests.system.processes import Service

Requests = list[dict[str, Any]]
VERSIONS = npm_versions()
pytestmark = pytest.mark.parametrize("name", list(VERSIONS))


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program and its packages."""
    copied = Path(shutil.copytree(NODE, tmp_path_factory.mktemp("node") / "node"))
    command = ["npm", "ci", "--ignore-scripts", "--silent", "--no-audit", "--no-fund"]
    subprocess.run(command, cwd=copied, check=True, timeout=300)
    return copied


def run(folder: Path, *command: str, text: str = "") -> Any:
    """Return what Node printed, from JSON."""
    done = subprocess.run(
        ["node", *command],
        cwd=folder,
        input=text,
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def asked(folder: Path, name: str, service: Service, requests: Requests, *command: str) -> Any:
    """Return what the client returned or raised for each request."""
    bodies = json.dumps([{"model": MODEL} | request for request in requests])
    words = command or ("embed",)
    return run(folder, "client.mjs", name, f"http://{service.rest}/v1", *words, text=bodies)


def test_the_version_is_the_pinned_one(folder: Path, name: str) -> None:
    installed = json.loads((folder / "node_modules" / name / "package.json").read_text("utf-8"))
    assert (installed["name"], installed["version"]) == ("openai", VERSIONS[name])


def test_numbers_equal_those_of_the_grpc_client(
    folder: Path, name: str, service: Service, vectors: Vectors
) -> None:
    forms: list[dict[str, Any]] = [{}, {"encoding_format": "float"}]  # absent: base64, decoded
    answers = asked(folder, name, service, [{"input": TEXTS} | form for form in forms])
    for answer in answers:
        assert_equal(answer["rows"], vectors(TEXTS))
        assert answer["model"] == MODEL
        assert answer["usage"]["prompt_tokens"] == answer["usage"]["total_tokens"] > 4


def test_the_longest_list_and_dimensions(
    folder: Path, name: str, service: Service, vectors: Vectors
) -> None:
    requests: Requests = [{"input": MANY[:2048]}, {"input": "a", "dimensions": 64}]
    long, short = asked(folder, name, service, requests)
    assert_equal(long["rows"], vectors(MANY[:2048]))
    assert len(short["rows"][0]) == 64


def test_errors_are_those_of_the_client(folder: Path, name: str, service: Service) -> None:
    cases: list[tuple[dict[str, Any], str, int | None, str | None, str]] = [
        ({"input": "a", "model": "other"}, "NotFoundError", 404, "model", MODEL),
        ({"input": ["a", ""]}, "BadRequestError", 400, "input", "input[1]"),
        ({"input": TOO_LONG}, "BadRequestError", 400, "input", "tokens"),
        ({"input": MANY}, "BadRequestError", 400, "input", "2048"),
        (
            {"input": [BUSY] * 4, "options": {"timeout": 1, "maxRetries": 0}},
            "APIConnectionTimeoutError",
            None,
            None,
            "timed out",
        ),
    ]
    found = asked(folder, name, service, [request for request, *_ in cases])
    for error, (_, kind, status, param, says) in zip(found, cases, strict=True):
        assert (error.get("kind"), error.get("status")) == (kind, status)
        assert error.get("param") == param
        assert says in error["message"]


def test_an_abort_ends_the_work(folder: Path, name: str, service: Service) -> None:
    requests: Requests = [{"input": LONG}, {"input": "a"}]
    with abandoned(service, *ENDED):
        command = ("abort", f"http://{service.http}/metrics")
        error, answer = asked(folder, name, service, requests, *command)
    assert error["kind"] == "APIUserAbortError"
    assert len(answer["rows"]) == 1


def test_refused_requests_are_retried_after_the_delay(
    folder: Path, name: str, busy: Service
) -> None:
    before = refusals(busy)
    body = json.dumps([{"model": MODEL, "input": BUSY}] * 12)
    found = run(folder, "client.mjs", name, f"http://{busy.rest}/v1", "retry", text=body)
    assert [each["length"] for each in found] == [256] * 12
    delays = [delay for each in found for delay in each["delays"]]
    assert 0 < len(delays) == refusals(busy) - before
    assert all(wanted > 0 and waited >= wanted - 2 for wanted, waited in delays)  # timers: whole ms


def test_the_page_runs_as_written(
    folder: Path, name: str, service: Service, vectors: Vectors
) -> None:
    code = example("openai", "javascript", 0, service).replace('"openai"', f'"{name}"')
    shown = "console.log(JSON.stringify(answer.data.map((each) => each.embedding)));"
    (folder / "page.mjs").write_text(f"{code}\n{shown}\n", encoding="utf-8")
    assert_equal(run(folder, "page.mjs"), vectors(["join two paths"]))
