"""Log of the real process: bad requests, an unread log, and files that become FIFOs."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from headlight import Client, Unauthenticated
from headlight_service.telemetry.json_logs import BURST, PAUSE_SECONDS
from tests.certificates import Authority
from tests.shipped import DIM
from tests.system.bad_requests import CALLS, CONNECTIONS, SECRET, connection, send
from tests.system.conftest import bundle_of
from tests.system.processes import Service, by_hand, get

TOKEN = "the-first-token-of-search"
CALLS_AT_ONCE = 50  # per kind on one connection, the most that the server allows
KINDS = 8  # of lines that bad requests cause, at most
PIPE_BYTES = 4096


def test_no_caller_data_is_logged_and_floods_are_bounded(tmp_path: Path) -> None:
    """At level debug, which includes the lines of all others."""
    tokens = tmp_path / "tokens"
    tokens.write_text(f"search {TOKEN}\n", encoding="ascii")
    options = ("--auth-tokens", str(tokens), "--log-level", "debug")
    sent = [connection(*call, CALLS_AT_ONCE) for call in CALLS.values()] * 2 + [
        *CONNECTIONS.values()
    ]
    with Service(bundle_of("docs-rope"), *options) as service, ThreadPoolExecutor(8) as senders:
        before, begun = len(service.log), time.monotonic()
        list(senders.map(lambda content: send(service.target, content), sent))
        with Client(service.target, token=TOKEN) as client:
            assert client.encode(["a text"]).shape == (1, DIM)
        dropped = service.counted('headlight_log_lines_dropped_total{reason="rate"}')
        service.terminate()
        assert service.wait() == 0
        seconds, lines = time.monotonic() - begun, service.log[before:]
    assert [entry for entry in lines if entry["event"] == "not json"] == []
    assert SECRET.decode() not in str(lines)
    assert [entry["event"] for entry in lines][-1] == "stopped"
    kinds = {(entry["logger"], entry["event"]) for entry in lines}
    assert len(kinds) <= KINDS
    assert len(lines) <= len(kinds) * (BURST + seconds / PAUSE_SECONDS)
    assert any(entry["logger"].startswith("grpc") and "place" in entry for entry in lines)
    assert dropped > 0


@contextlib.contextmanager
def unread(*options: str) -> Iterator[tuple[subprocess.Popen[bytes], str, str]]:
    """Start a service with an unread log; yield the process, its gRPC and its HTTP address."""
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    try:
        with by_hand(*options, bundle=bundle_of("docs-rope"), stderr=writer) as service:
            os.close(writer)
            yield service
    finally:
        os.close(reader)


def test_an_unread_log_does_not_block_the_service() -> None:
    with unread("--log-level", "debug") as (process, target, http):
        for _ in range(2):  # one line for each call
            send(target, connection(*CALLS["undecodable"], CALLS_AT_ONCE))
        with Client(target, timeout=20) as client:
            for _ in range(5):
                assert client.encode(["a text"]).shape == (1, DIM)
        assert get(http, "/livez") == "alive\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0


def test_files_replaced_by_fifos_leave_the_old_contents_in_use(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "authority")
    pair = authority.sign("server")
    tokens = tmp_path / "tokens"
    tokens.write_text(f"search {TOKEN}\n", encoding="ascii")
    options = (
        "--tls-cert",
        str(pair.cert),
        "--tls-key",
        str(pair.key),
        "--auth-tokens",
        str(tokens),
    )
    with Service(bundle_of("docs-rope"), *options) as service:
        for path in (pair.cert, tokens):
            path.unlink()
            os.mkfifo(path)
        service.log.clear()
        failures = ("headlight_tls_reload_failures_total", "headlight_auth_reload_failures_total")
        end = time.monotonic() + 60
        while any(service.counted(name) == 0 for name in failures):
            assert time.monotonic() < end
            with Client(service.target, token=TOKEN, tls_ca=authority.cert, timeout=30) as client:
                assert client.encode(["a text"]).shape == (1, DIM)
        with (
            Client(service.target, token=TOKEN[:-1], tls_ca=authority.cert, timeout=30) as stranger,
            pytest.raises(Unauthenticated),
        ):
            stranger.encode(["a text"])
        for event in ("tls_refused", "tokens_refused"):
            assert (
                "is a FIFO (pipe); it must be a regular file" in service.wait_for(event)["message"]
            )
        service.terminate()
        assert service.wait() == 0
