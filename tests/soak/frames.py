"""Fuzzer of HTTP/2 frames and HPACK: each connection sends other bytes than a client would.

`python -m tests.soak.frames --seed N` sends the bytes of one connection to a service of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import dataclasses
import socket
import struct
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.http2.connection import Connection, connect
from tests.soak import watch
from tests.soak.flat import MIB, Sample, flatness
from tests.soak.neighbours import Neighbours, expected_vectors
from tests.soak.probes import Ports, Probes, page_is_ok, ports_of
from tests.soak.scripts import MARK, TOKEN, Script, script
from tests.system.conftest import bundle_of
from tests.system.hostile import connections, open_files
from tests.system.processes import Service

AT_ONCE = 32  # connections
NEIGHBOURS = 2
BLOCK = 250  # connections between two looks at the probes, or fewer in a short run
BLOCKS = 30  # at least, if there are so many connections: memory is judged by these samples
SEGMENTS = 3  # with a pause after each, in which nothing may be held; the first is warm-up
CONNECTION_SECONDS = 20.0
SILENT = 50  # connections that send nothing, beside the others of a block
# What all of it may cost the service, and a neighbour on a machine that is busy with the fuzzing.
MOST_DESCRIPTORS, MOST_SECONDS = 600, 5.0
HEALTH_SHARE = 8  # one connection in so many goes to the health port
# Of an exception or of a file; no answer may hold one.
LEAKS = (
    b"Traceback",
    b"Error(",
    b"Exception",
    b".py",
    b"site-packages",
    b"onnx",
    b"google.protobuf",
)
# gRPC logs metadata that is not UTF-8.
EXPECTED = ("grpc._cython.cygrpc", "builtins.UnicodeDecodeError")
AT_LEAST = 0.02  # of the connections have to end in each of these ways
REACHED = ("answered", "refused", "hung up")


@dataclasses.dataclass(slots=True)
class Framed:
    """Result of a run.

    Attributes:
        outcomes: how many connections ended how.
        changes: how often each mutation was made.
        broken: what showed while it ran, and ended it.
        logged: lines of the service's log that it should not have.
        quiet: looks at the process while nobody called.
        memory: a sample after each block.
        calls: of neighbours, answered and right.
        lost: of neighbours, not answered or wrong.
        looks: at the probes.
    """

    outcomes: Counter[str] = dataclasses.field(default_factory=Counter)
    changes: Counter[str] = dataclasses.field(default_factory=Counter)
    broken: list[str] = dataclasses.field(default_factory=list)
    logged: list[str] = dataclasses.field(default_factory=list)
    quiet: list[watch.Quiet] = dataclasses.field(default_factory=list)
    memory: list[Sample] = dataclasses.field(default_factory=list)
    calls: int = 0
    lost: int = 0
    looks: int = 0

    def problems(self) -> list[str]:
        """Return all violations; empty: none."""
        if self.broken:
            return self.broken + self.logged
        found, sent = self.logged + watch.problems(self.quiet), self.outcomes.total()
        if len(self.memory) >= BLOCKS:
            found += flatness(self.memory).problems()
            found += [
                (
                    f"{self.outcomes[way]} of {sent} connections were {way}: "
                    "this fuzzing is too coarse or too fine"
                )
                for way in REACHED
                if self.outcomes[way] < AT_LEAST * sent
            ]
        return found

    def __str__(self) -> str:
        ways = ", ".join(f"{way} {count}" for way, count in self.outcomes.most_common())
        memory = [sample.resident / MIB for sample in self.memory]
        grown = (
            f"; memory {memory[0]:.0f} -> {memory[-1]:.0f} MiB, at most {max(memory):.0f}"
            if memory
            else ""
        )
        return (
            f"{ways}; {len(self.changes)} kinds of changes; after {self.looks} blocks every probe "
            f"was compared with a call; {self.calls} calls of neighbours were answered and right, "
            f"{self.lost} not{grown}"
        )


class _Run:
    """Run that sends the scripts to one service, and checks it after each block."""

    def __init__(self, service: Service, ports: Ports, bundle: Path, found: Framed) -> None:
        self._service, self._ports, self._found = service, ports, found
        self._expected = expected_vectors(bundle)
        self._probes = Probes(ports, *next(iter(self._expected.items())))
        self._watch = watch.Watch(service)
        self._places = asyncio.Semaphore(AT_ONCE)

    async def run(self, first: int, count: int) -> None:
        """Send the scripts of so many seeds; stop early at the first violation."""
        size = max(1, min(BLOCK, count // BLOCKS))
        for segment in range(SEGMENTS):
            begin, end = (first + count * part // SEGMENTS for part in (segment, segment + 1))
            neighbours = Neighbours(
                self._ports.target, self._expected, count=NEIGHBOURS, options=[], token=TOKEN
            )
            async with neighbours:
                for block in range(begin, end, size):
                    await self._block(block, min(block + size, end), neighbours)
                    if self._found.broken:
                        break
            self._found.calls += neighbours.calls
            self._found.lost += len(neighbours.lost)
            if self._found.broken:
                return
            self._found.quiet.append(await self._watch.when_quiet())
            print(f"{end - first} of {count} connections", flush=True)

    async def _block(self, begin: int, end: int, neighbours: Neighbours) -> None:
        with connections(self._ports.target, SILENT):
            await asyncio.gather(*(self._one(seed) for seed in range(begin, end)))
            opened = open_files(self._service)
        ended = "no call: the process has ended"
        if self._service.process.poll() is None:
            ended = await self._probes.look()
        self._found.looks += 1
        self._found.memory.append(Sample(time.monotonic(), self._service.resident_bytes()))
        problems = neighbours.problems() + self._probes.problems()
        if ended != "OK":
            problems.append(f"a call on a fresh connection ended as {ended}")
        if opened > MOST_DESCRIPTORS:
            problems.append(f"{opened} descriptors are open")
        if neighbours.slowest > MOST_SECONDS:
            problems.append(f"a neighbour waited {neighbours.slowest:.1f} s")
        if not await asyncio.to_thread(page_is_ok, self._ports.http, "/livez"):
            problems.append("/livez does not answer with 200")
        again = f"python -m tests.soak.frames --seed {begin} --connections {end - begin}"
        self._found.broken += [f"after `{again}`: {problem}" for problem in problems]

    async def _one(self, seed: int) -> None:
        async with self._places:
            sent = script(seed)
            self._found.changes.update(sent.changed)
            port = self._ports.health if seed % HEALTH_SHARE == 0 else None
            outcome, headers = await deliver(port or self._ports.target, sent)
            self._found.outcomes[outcome] += 1
            leaked = [leak for leak in LEAKS if leak in headers]
            if leaked:
                self._found.broken.append(f"seed {seed}: {leaked} came back in {headers[:300]!r}")


async def deliver(target: str, sent: Script) -> tuple[str, bytes]:
    """Send a script; return how the connection ended, and all header blocks received."""
    try:
        async with asyncio.timeout(CONNECTION_SECONDS), await connect(target) as connection:
            connection.writer.write(sent.data)
            with contextlib.suppress(OSError):
                await _end(connection, sent)
            return _outcome(connection), bytes(connection.headers)
    except TimeoutError:
        return "not taken in", b""
    except OSError:
        return "not let in", b""


async def _end(connection: Connection, sent: Script) -> None:
    writer = connection.writer
    await writer.drain()
    if sent.ending == "half close":
        connection.half_close()
    if sent.ending in ("linger", "half close"):
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(sent.seconds):
                await connection.until_ended(sent.streams)
    if sent.ending in ("reset", "cut"):
        at_once = struct.pack("ii", 1, 0)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)


def _outcome(connection: Connection) -> str:
    if connection.answered:
        return "answered"
    if connection.ended:
        return "refused"
    return "hung up" if connection.hung_up.is_set() or connection.goaway is not None else "left"


async def frames(bundle: Path, connections: int, seed: int) -> Framed:
    """Send the connections of so many seeds to a service of their own."""
    found = Framed()
    with tempfile.TemporaryDirectory() as folder:
        tokens = Path(folder) / "tokens"
        tokens.write_text(f"neighbour {TOKEN}\n", encoding="ascii")
        options = ("--health", "127.0.0.1:0", "--auth-tokens", str(tokens))
        service = Service(bundle, *options)
        try:
            with service:
                await _Run(service, ports_of(service, token=TOKEN), bundle, found).run(
                    seed, connections
                )
        except AssertionError:  # of its end
            lines = [entry["line"] for entry in service.log if entry["event"] == "not json"]
            found.logged.append(
                f"exit code {service.process.returncode}; lines that are not JSON: {lines[:3]}"
            )
    failures = [entry for entry in service.log if entry.get("level") in ("error", "critical")]
    unexpected = [entry for entry in failures if (entry["logger"], entry.get("kind")) != EXPECTED]
    found.logged += [f"the log has {entry}"[:500] for entry in unexpected[:5]]
    if MARK in str(service.log):
        found.logged.append("the log quotes what a caller sent")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak.frames", description=__doc__)
    parser.add_argument(
        "--seed", type=int, default=1, help="of the first connection; the next has the next"
    )
    parser.add_argument("--connections", type=int, default=1, help="how many")
    parser.add_argument("--bundle", type=Path, default=bundle_of("docs-rope"))
    options = parser.parse_args()
    found = asyncio.run(frames(options.bundle, options.connections, options.seed))
    print(found, *found.problems(), sep="\n")
    return 1 if found.problems() else 0


if __name__ == "__main__":
    sys.exit(main())
