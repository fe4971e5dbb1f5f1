"""Each check passes on a server that keeps its promise, and fails on one that breaks it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.conformance.__main__ import DIALECTS, main, run
from tests.conformance.checks import Options, Outcome
from tests.conformance.faults import faults, setting
from tests.conformance.record import PAGE, page
from tests.conformance.toy_server import (
    TOKEN,
    Fault,
    Reply,
    Request,
    Right,
    keep_promises,
    served,
    served_grpc,
)

SERVERS = ["openai", "tei", "cohere", "oip", "oip-grpc"]
OPTIONS = Options(model="toy", words=1200, seconds=3, overload=8)
# REST has no streams, and gRPC reads messages itself.
NOT_APPLICABLE = {"oip": {"stream"}, "oip-grpc": {"malformed-body"}}


@contextmanager
def url(server: str, fault: Fault) -> Iterator[str]:
    """Yield the URL of a toy server as a client of the dialect gets it."""
    if server == "oip-grpc":
        with served_grpc(fault) as at:
            yield f"grpc://{at}"
    else:
        with served(fault) as at:
            yield f"http://{at}/v1" if server == "openai" else f"http://{at}"


def outcomes(
    server: str, fault: Fault = keep_promises, only: tuple[str, ...] = ()
) -> dict[str, Outcome]:
    """Return the outcome of each check."""
    with url(server, fault) as at:
        results = run(server.partition("-")[0], at, OPTIONS, TOKEN, only)
    return {each.name: each.outcome for each in results}


@pytest.mark.parametrize("server", SERVERS)
def test_a_server_that_keeps_its_promises_passes(server: str) -> None:
    left_out = NOT_APPLICABLE.get(server, set()) | {"overload"}
    for name, outcome in outcomes(server).items():
        expected = Outcome.NOT_APPLICABLE if name in left_out else Outcome.PASS
        assert (name, outcome) == (name, expected)


@pytest.mark.parametrize("server", SERVERS)
def test_each_check_fails_on_a_server_that_breaks_its_promise(server: str) -> None:
    dialect = server.partition("-")[0]
    left = {each.name for each in DIALECTS[dialect][1]} - NOT_APPLICABLE.get(server, set())
    names = {f"{prefix}{name}": name for name in left for prefix in ("", f"{dialect}:")}
    for row, (checks, fault) in enumerate(faults()):
        only = tuple(names[each] for each in checks.split() if each in names)
        if only:
            results = outcomes(server, fault, only)
            assert results == dict.fromkeys(only, Outcome.FAIL), f"row {row} of faults"
            left -= results.keys()
    assert left == set(), "no fault breaks these"


def test_an_optional_part_that_is_refused_is_not_offered() -> None:
    def without(part: str, status: int) -> Fault:
        def fault(right: Right, request: Request) -> Reply:
            refused = part in f"{request.path} {request.body}"
            return Reply(status, {}) if refused else right(request)

        return fault

    assert outcomes("openai", without("base64", 400), ("base64",)) == {
        "base64": Outcome.NOT_OFFERED
    }
    for check in ("tokenize", "rerank", "info"):
        fault = without(f"/{check}", 404)
        assert outcomes("tei", fault, (check,)) == {check: Outcome.NOT_OFFERED}


def test_the_exit_status_says_whether_a_check_failed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "results.json"
    wrong = setting(7, "prompt_tokens")
    for fault, status, outcome in ((keep_promises, 0, "pass"), (wrong, 1, "fail")):
        with url("openai", fault) as at:
            options = ["--dialect", "openai", "--token", TOKEN, "--only", "usage"]
            assert main([at, *options, "--json", str(out)]) == status
        [check] = json.loads(out.read_text("utf-8"))["checks"]
        assert (check["name"], check["outcome"]) == ("usage", outcome)
        assert outcome in capsys.readouterr().out
    assert main([at, *options]) == 2  # the server is gone
    assert main(["grpc://127.0.0.1:1", *options]) == 2
    assert main([at, "--dialect", "openai", "--only", "other"]) == 2
    printed = capsys.readouterr().err
    assert "has to begin with http:// or https://" in printed
    assert "--list names them" in printed


def test_the_page_shows_the_kept_results() -> None:
    assert PAGE.read_text("utf-8") == page(), "nox -s conformance -- --page writes it"
