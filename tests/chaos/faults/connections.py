"""Connections without requests: idle, aborted and reset.

10,000 idle ones, a flood of aborted ones, streams reset at once.
"""

from __future__ import annotations

import asyncio
import os
import resource
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import numpy as np

from headlight import Client
from tests.chaos.flat import MIB
from tests.chaos.http2.connection import START, connect
from tests.chaos.http2.frames import ACK, END_HEADERS, HEADERS, RST_STREAM, SETTINGS, frame
from tests.chaos.record import NotPossible, Outcome
from tests.chaos.traffic.background import percentile
from tests.service.raw import headers
from tests.system.conftest import bundle_of
from tests.system.processes import Service

IDLE = 10_000
SPARE_DESCRIPTORS = 500
ABORTED = 20_000
RESETS = 100_000
RESETS_A_CONNECTION = 1_000
CANCEL = 8
CALLS = 40
TEXT = "open a file and read its lines"
ABORT = struct.pack("ii", 1, 0)  # SO_LINGER of 0 s: close() sends a reset
BACK_SECONDS = 20.0
KIB_A_CONNECTION = 64.0
IDLE_P99_MS = 200.0  # limit for a call beside them; without them the median is some 10 ms


class Probe:
    """Client with one short text, whose vector must not change."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._vector = client.encode([TEXT])[0]
        self.wrong = 0

    def calls(self, count: int = CALLS) -> list[float]:
        """Return the seconds of each of some calls."""
        took = []
        for _ in range(count):
            begun = time.monotonic()
            [vector] = self._client.encode([TEXT])
            took.append(time.monotonic() - begun)
            self.wrong += not np.allclose(vector, self._vector, atol=1e-5)
        return took

    def new_connection(self, target: str) -> float:
        """Return the seconds until a new client has its first answer."""
        begun = time.monotonic()
        with Client(
            target, timeout=30, options=[("headlight.fault", time.monotonic_ns() % 10**9)]
        ) as client:
            client.encode([TEXT])
        return time.monotonic() - begun


@contextmanager
def descriptors(count: int) -> Iterator[None]:
    """Raise the file descriptor limit of this process and its children."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < count:
        raise NotPossible(f"a process may open {hard} files here (ulimit -Hn); {count} are needed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, count), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def settled(service: Service, most: int) -> float:
    """Return the seconds until the open files fall to a limit; infinity if they do not."""
    begun = time.monotonic()
    while service.open_files() > most:
        if time.monotonic() - begun > BACK_SECONDS:
            return float("inf")
        time.sleep(0.05)
    return time.monotonic() - begun


def busy_seconds(service: Service) -> float:
    """Return the CPU time of the service so far."""
    line = Path(f"/proc/{service.process.pid}/stat").read_text(encoding="ascii")
    fields = line.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def idle() -> Outcome:
    """Open 10,000 connections that never call."""
    with descriptors(IDLE + SPARE_DESCRIPTORS), ExitStack() as stack:
        service = stack.enter_context(Service(bundle_of("docs-rope")))
        probe = Probe(stack.enter_context(Client(service.target, timeout=30)))
        alone, memory, files = probe.calls(), service.resident_bytes(), service.open_files()
        begun = time.monotonic()
        lines = [connected(service.target) for _ in range(IDLE)]
        try:
            opened = time.monotonic() - begun
            while service.open_files() - files < IDLE and time.monotonic() - begun < 60:
                time.sleep(0.1)  # the kernel accepts connections before the service does
            held = service.open_files() - files
            beside, first = probe.calls(), probe.new_connection(service.target)
            grown = service.resident_bytes() - memory
            alive = sum(not ended(line) for line in lines)
        finally:
            for line in lines:
                line.close()
        back = settled(service, files + 1)
        after = probe.calls()
        kept = service.resident_bytes() - memory
    problems = [f"{probe.wrong} wrong answers"] if probe.wrong else []
    slow = 1e3 * percentile(beside, 0.99)
    if held < IDLE or alive < IDLE:
        problems.append(f"{held} connections were open and {alive} were kept, of {IDLE}")
    if grown / IDLE > KIB_A_CONNECTION * 1024:
        problems.append(
            f"a connection cost {grown / IDLE / 1024:.0f} KiB, not {KIB_A_CONNECTION:.0f} at most"
        )
    if slow > IDLE_P99_MS or first > 1:
        problems.append(f"calls took {slow:.0f} ms (p99), a new connection {first:.1f} s")
    if back == float("inf"):
        problems.append("files stay open")
    times = {"alone": alone, "beside": beside, "after": after}
    p99 = {name: round(1e3 * percentile(took, 0.99), 1) for name, took in times.items()}
    return Outcome(
        (
            f"{held:,} open in {opened:.0f} s; memory {grown / IDLE / 1024:+.0f} KiB each "
            f"({grown / MIB:+.0f} MiB, and {kept / MIB:+.0f} MiB after they closed); p99 of a call "
            f"{p99['alone']} ms before, {p99['beside']} ms beside them, {p99['after']} ms after; "
            f"a new client answered in {1e3 * first:.0f} ms; descriptors closed in {back:.1f} s; "
            f"{probe.wrong} wrong"
        ),
        {
            "connections": held,
            "kib_each": grown / IDLE / 1024,
            "p99_ms": p99,
            "files_back_seconds": back,
        },
        problems,
    )


def connected(target: str) -> socket.socket:
    """Return a connection that speaks HTTP/2 and makes no call."""
    host, _, port = target.rpartition(":")
    line = socket.create_connection((host, int(port)), timeout=30)
    line.sendall(START + frame(SETTINGS, ACK, 0))
    return line


def ended(line: socket.socket) -> bool:
    """Return whether the other side has closed it."""
    line.setblocking(False)
    try:
        while received := line.recv(1 << 16):
            del received
    except BlockingIOError:
        return False
    except ConnectionError:
        return True
    return True


def aborted() -> Outcome:
    """Connect and reset at once, as fast as one thread can (CVE-2023-4785)."""
    with Service(bundle_of("docs-rope")) as service, Client(service.target, timeout=30) as client:
        probe = Probe(client)
        host, _, port = service.target.rpartition(":")
        alone, memory, files = probe.calls(), service.resident_bytes(), service.open_files()
        took, refused = list[float](), 0
        begun = time.monotonic()
        for number in range(ABORTED):
            line = socket.socket()
            line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, ABORT)
            try:
                line.connect((host, int(port)))
            except OSError:
                refused += 1
            line.close()
            if number % (ABORTED // CALLS) == 0:
                took += probe.calls(1)
        flooded = time.monotonic() - begun
        back, grown = settled(service, files + 1), service.resident_bytes() - memory
        recovered = probe.calls()
    problems = [f"{probe.wrong} wrong answers"] if probe.wrong else []
    if back == float("inf"):
        problems.append("files stay open")
    if grown > 64 * MIB:
        problems.append(f"memory grew by {grown / MIB:.0f} MiB")
    p99 = [round(1e3 * percentile(each, 0.99), 1) for each in (alone, took, recovered)]
    if p99[2] > max(5 * p99[0], IDLE_P99_MS):
        problems.append(f"calls took {p99[2]} ms afterwards")
    return Outcome(
        (
            f"{ABORTED:,} in {flooded:.0f} s ({refused} refused by the kernel); p99 of calls "
            f"{p99[0]} ms before, {p99[1]} ms meanwhile, {p99[2]} ms after; "
            f"descriptors closed in {back:.1f} s; memory {grown / MIB:+.0f} MiB; "
            f"{probe.wrong} wrong"
        ),
        {"aborted": ABORTED, "p99_ms": p99, "files_back_seconds": back, "grown_mib": grown / MIB},
        problems,
    )


async def resets() -> Outcome:
    """Open streams and reset each at once: rapid reset (CVE-2023-44487)."""
    with Service(bundle_of("docs-rope")) as service, Client(service.target, timeout=30) as client:
        probe = await asyncio.to_thread(Probe, client)
        alone, files = await asyncio.to_thread(probe.calls), service.open_files()
        begun, before, sent, cut = time.monotonic(), busy_seconds(service), 0, 0
        took = list[float]()
        while sent < RESETS:
            cut += await reset_streams(service.target)
            sent += RESETS_A_CONNECTION
            took += await asyncio.to_thread(probe.calls, 1)
        flooded, cpu = time.monotonic() - begun, busy_seconds(service) - before
        quiet = await asyncio.to_thread(until_idle, service)
        back = await asyncio.to_thread(settled, service, files + 1)
        left = service.counted("grpc_server_started_total") - service.counted(
            "grpc_server_handled_total"
        )
        after = await asyncio.to_thread(probe.calls)
    problems = [f"{probe.wrong} wrong answers"] if probe.wrong else []
    if left:
        problems.append(f"{left:.0f} calls never ended")
    if quiet > 2 or back == float("inf"):
        problems.append(f"idle again after {quiet:.1f} s, files back after {back:.1f} s")
    p99 = [round(1e3 * percentile(each, 0.99), 1) for each in (alone, took, after)]
    return Outcome(
        (
            f"{sent:,} streams in {flooded:.0f} s over {sent // RESETS_A_CONNECTION} connections "
            f"({cut} closed by the service), with {cpu:.0f} s of the service's CPU time; p99 of "
            f"other calls {p99[0]} ms before, {p99[1]} ms meanwhile, {p99[2]} ms after; CPU idle "
            f"again after {quiet:.1f} s; {left:.0f} calls unended; {probe.wrong} wrong"
        ),
        {"streams": sent, "cpu_seconds": cpu, "p99_ms": p99, "idle_seconds": quiet, "left": left},
        problems,
    )


async def reset_streams(target: str) -> bool:
    """Open and reset streams on a connection; return whether the service closed it before."""
    begin, reset = headers("Encode", {}), struct.pack(">I", CANCEL)
    async with await connect(target) as connection:
        connection.writer.write(START)
        with suppress(ConnectionError):
            for stream in range(1, 2 * RESETS_A_CONNECTION, 2):
                connection.writer.write(
                    frame(HEADERS, END_HEADERS, stream, begin) + frame(RST_STREAM, 0, stream, reset)
                )
                if stream % 200 == 1:
                    await connection.writer.drain()
            await connection.writer.drain()
        closed = connection.hung_up.is_set()
        if not closed:
            connection.half_close()
            with suppress(TimeoutError):
                async with asyncio.timeout(10):
                    await connection.hung_up.wait()
    return closed


def until_idle(service: Service) -> float:
    """Return the seconds until the service uses less than a fifth of a core."""
    begun = time.monotonic()
    while time.monotonic() - begun < BACK_SECONDS:
        before = busy_seconds(service)
        time.sleep(0.5)
        if busy_seconds(service) - before < 0.1:
            return time.monotonic() - begun - 0.5
    return float("inf")
