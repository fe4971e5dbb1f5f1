"""Fuzzer of HTTP/2 frames and HPACK: each connection sends other bytes than a client would: F14b.

`python -m tests.chaos.faults.frames --seed N` sends the bytes of one connection to a service of its
own.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import socket
import struct
import sys
import tempfile
from collections import Counter
from pathlib import Path

from tests.chaos import watch
from tests.chaos.faults.paths import endured
from tests.chaos.findings import LEAKS, Findings
from tests.chaos.http2.connection import Connection, connect
from tests.chaos.mutations.scripts import TOKEN, Script, script
from tests.chaos.record import Outcome
from tests.chaos.traffic.hostile import connections
from tests.chaos.traffic.neighbours import Neighbours, expected_vectors
from tests.chaos.traffic.probes import Ports, Probes, page_is_ok, ports_of
from tests.system.conftest import bundle_of
from tests.system.processes import Service

CONNECTIONS = 3_000
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
# gRPC logs metadata that is not UTF-8.
EXPECTED = ("grpc._cython.cygrpc", "builtins.UnicodeDecodeError")
AT_LEAST = 0.02  # of the connections have to end in each of these ways
REACHED = (["answered"], ["refused"], ["hung up"])


class _Run:
    """Run that sends the scripts to one service, and checks it after each block.

    Attributes:
        changes: how often each mutation was made.
        quiet: looks at the process while nobody called.
        calls: of neighbours, answered and right.
        looks: at the probes.
    """

    def __init__(self, service: Service, ports: Ports, found: Findings) -> None:
        self.changes = Counter[str]()
        self.quiet: list[watch.Quiet] = []
        self.calls = self.looks = 0
        self._service, self._ports, self._found = service, ports, found
        self._expected = expected_vectors(bundle_of("docs-rope"))
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
            self.calls += neighbours.calls
            if self._found.broken:
                return
            self.quiet.append(await self._watch.when_quiet())
            print(f"{end - first} of {count} connections", flush=True)

    async def _block(self, begin: int, end: int, neighbours: Neighbours) -> None:
        with connections(self._ports.target, SILENT):
            await asyncio.gather(*(self._one(seed) for seed in range(begin, end)))
            opened = self._service.open_files()
        ended = "no call: the process has ended"
        if self._service.process.poll() is None:
            ended = await self._probes.look()
        self.looks += 1
        self._found.sample(self._service)
        problems = neighbours.problems() + self._probes.problems()
        if ended != "OK":
            problems.append(f"a call on a fresh connection ended as {ended}")
        if opened > MOST_DESCRIPTORS:
            problems.append(f"{opened} descriptors are open")
        if neighbours.slowest > MOST_SECONDS:
            problems.append(f"a neighbour waited {neighbours.slowest:.1f} s")
        if not await asyncio.to_thread(page_is_ok, self._ports.http, "/livez"):
            problems.append("/livez does not answer with 200")
        again = f"python -m tests.chaos.faults.frames --seed {begin} --connections {end - begin}"
        self._found.broken += [f"after `{again}`: {problem}" for problem in problems]

    async def _one(self, seed: int) -> None:
        async with self._places:
            sent = script(seed)
            self.changes.update(sent.changed)
            port = self._ports.health if seed % HEALTH_SHARE == 0 else None
            outcome, headers = await deliver(port or self._ports.target, sent)
            self._found.ends[outcome] += 1
            self._found.search(f"seed {seed}", [headers], LEAKS)


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


async def mutated_connections(count: int = CONNECTIONS, seed: int = 1) -> Outcome:
    """Send the connections of so many seeds, from this one on, to a service of their own."""
    found = Findings()
    with tempfile.TemporaryDirectory() as folder:
        tokens = Path(folder) / "tokens"
        tokens.write_text(f"neighbour {TOKEN}\n", encoding="ascii")
        options = ("--health", "127.0.0.1:0", "--auth-tokens", str(tokens))
        service = Service(bundle_of("docs-rope"), *options)
        run = _Run(service, ports_of(service, token=TOKEN), found)
        try:
            with service:
                await run.run(seed, count)
        except AssertionError:  # of its end
            lines = [entry["line"] for entry in service.log if entry["event"] == "not json"]
            found.broken.append(
                f"exit code {service.process.returncode}; lines that are not JSON: {lines[:3]}"
            )
    found.read_log(service, EXPECTED)
    return judged(
        found,
        run.quiet,
        f"{len(run.changes)} kinds of changes; {run.looks} looks at "
        f"the probes, each right; {run.calls:,} calls of neighbours answered and right",
    )


def judged(found: Findings, quiet: list[watch.Quiet], more: str) -> Outcome:
    """Return the outcome; a short run says nothing about memory and the shares of ends."""
    problems, seen = list(found.broken), ", ".join(f"{end} {n:,}" for end, n in found.ends.items())
    if not problems:
        problems += watch.problems(quiet)
        if len(found.memory) >= BLOCKS:
            problems += found.problems() + found.unreached(AT_LEAST, *REACHED)
            seen = str(found)
    return Outcome(
        f"{found.ends.total():,} connections: {seen}; {more}", {"ends": found.ends}, problems
    )


async def mutated_frames(times: float = 1.0, seed: int = 1) -> Outcome:
    """Send so many times the usual number of connections."""
    return await mutated_connections(int(times * CONNECTIONS), seed)


async def with_paths(times: float = 1.0, seed: int = 1) -> Outcome:
    """Send these, and then paths that are not UTF-8."""
    return (await mutated_frames(times, seed)).joined(await endured(times))


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.chaos.faults.frames", description=__doc__
    )
    parser.add_argument(
        "--seed", type=int, default=1, help="of the first connection; the next has the next"
    )
    parser.add_argument("--connections", type=int, default=1, help="how many")
    options = parser.parse_args()
    found = asyncio.run(mutated_connections(options.connections, options.seed))
    print(found.seen, *found.problems, sep="\n")
    return 1 if found.problems else 0


if __name__ == "__main__":
    sys.exit(main())
