"""Probes and scrapes beside thousands of silent connections, with few file descriptors."""

from __future__ import annotations

import contextlib
import os
import resource
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from headlight import Client
from tests.shipped import DIM
from tests.system.conftest import bundle_of
from tests.system.processes import by_hand, get

DESCRIPTORS = 128
SILENT = 3000
PROBE_SECONDS = 1.0


@pytest.fixture
def limited() -> Iterator[tuple[subprocess.Popen[bytes], str, str]]:
    """Start a service under `ulimit -n 128`; yield the process, its gRPC and its HTTP address."""
    limit = ("sh", "-c", f'ulimit -n {DESCRIPTORS} && exec "$@"', "sh")
    with by_hand(bundle=bundle_of("docs-rope"), stderr=subprocess.DEVNULL, before=limit) as service:
        yield service


def seconds_of_cpu(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_probes_are_answered_beside_silent_connections(
    limited: tuple[subprocess.Popen[bytes], str, str],
) -> None:
    process, target, http = limited
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, SILENT + 1000), hard))
    host, _, port = http.rpartition(":")
    slowest = 0.0
    with contextlib.ExitStack() as stack:
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        for number in range(SILENT):
            silent = stack.enter_context(socket.socket())
            silent.setblocking(False)
            silent.connect_ex((host, int(port)))
            if number % 500 == 499:
                slowest = max(
                    slowest,
                    *(seconds_of_answer(http, path) for path in ("/livez", "/readyz", "/metrics")),
                )
        used = seconds_of_cpu(process.pid)
        time.sleep(1)
        used = seconds_of_cpu(process.pid) - used
        assert "process_open_fds" in get(http, "/metrics")
        with Client(target, timeout=30) as client:
            assert client.encode(["a text"]).shape == (1, DIM)
    assert slowest < PROBE_SECONDS
    assert used < 0.5, "the accept loop spins"
    process.terminate()
    assert process.wait(30) == 0


def seconds_of_answer(http: str, path: str) -> float:
    begun = time.monotonic()
    get(http, path)
    return time.monotonic() - begun
