"""Soak run: mixed load with faults, then mutated messages, requests of all doors, HTTP/2 frames.

Exit 1 if anything is wrong.

The load runs in stretches. In the pause after each nothing may be held: no call, no token, no
byte, no socket.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
import time
from pathlib import Path

from tests.soak.frames import Framed, frames
from tests.soak.ledger import Ledger
from tests.soak.mix import OPTIONS, Mix
from tests.soak.neighbours import expected_vectors
from tests.soak.path_bytes import Endured, endure
from tests.soak.probes import ports_of
from tests.soak.reference import reference
from tests.soak.report import Found
from tests.soak.watch import Watch
from tests.system.conftest import bundle_of
from tests.system.door_fuzz import Doors, fuzz_doors
from tests.system.fuzz import Fuzzed, fuzz
from tests.system.processes import ROOT, Service

STRETCHES = 6  # the first two are warm-up
SAMPLES = 360


async def soak(options: argparse.Namespace) -> Found:
    begun = time.monotonic()
    known, ledger, seconds = reference(options.bundle), Ledger(), 60 * options.minutes
    with Service(options.bundle, *OPTIONS) as service:
        watch = Watch(service)
        async with Mix(service.target, known, ledger, options.callers, options.seed) as mix:
            sampling = asyncio.create_task(watch.run(max(0.1, seconds / SAMPLES)))
            for stretch in range(STRETCHES):
                await mix.run(seconds / STRETCHES)
                print(
                    f"stretch {stretch + 1} of {STRETCHES}: {await watch.when_quiet()}", flush=True
                )
            sampling.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await sampling
    failures = [str(entry) for entry in service.log if entry.get("level") in ("error", "critical")]
    fuzzed: Fuzzed | None = None
    if options.fuzz:
        print(f"{options.fuzz} mutated messages", flush=True)
        fuzzed = await fuzz(options.bundle, options.fuzz, options.seed)
    doors: Doors | None = None
    if options.doors:
        print(f"{options.doors} mutated requests over HTTP and public contracts", flush=True)
        doors = await fuzz_doors(options.bundle, options.doors, options.seed)
    endured: Endured | None = None
    if options.path_seconds:
        print(f"a path that is not UTF-8, each second for {options.path_seconds} s", flush=True)
        with Service(options.bundle, "--health", "127.0.0.1:0") as service:
            endured = await endure(
                ports_of(service), options.path_seconds, expected_vectors(options.bundle)
            )
    framed: Framed | None = None
    if options.frames:
        print(f"{options.frames} connections with mutated frames", flush=True)
        framed = await frames(options.bundle, options.frames, options.frames_seed)
    return Found(
        options.command,
        time.monotonic() - begun,
        ledger,
        watch,
        failures,
        fuzzed,
        doors,
        endured,
        framed,
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30, help="of mixed load")
    parser.add_argument(
        "--fuzz", type=int, default=0, metavar="MESSAGES", help="mutated messages after that"
    )
    parser.add_argument(
        "--doors",
        type=int,
        default=0,
        metavar="REQUESTS",
        help="mutated, over HTTP, the Open Inference Protocol and tei.v1, after that",
    )
    parser.add_argument(
        "--path-seconds",
        type=int,
        default=0,
        metavar="SECONDS",
        help="of one path a second that is not UTF-8, after that",
    )
    parser.add_argument(
        "--frames", type=int, default=0, metavar="CONNECTIONS", help="mutated HTTP/2, after that"
    )
    parser.add_argument(
        "--frames-seed",
        type=int,
        default=1,
        metavar="SEED",
        help="of the first of those connections",
    )
    parser.add_argument("--callers", type=int, default=12, help="calls at once")
    parser.add_argument(
        "--seed", type=int, default=1, help="of what is called when, and of the mutations"
    )
    parser.add_argument("--bundle", type=Path, default=bundle_of("docs-rope"))
    parser.add_argument(
        "--out",
        type=Path,
        default=ROOT / "bench/results/soak.md",
        help="where the report is written",
    )
    options = parser.parse_args()
    options.command = " ".join(["python -m tests.soak", *sys.argv[1:]])
    found = asyncio.run(soak(options))
    report = "\n".join(found.lines()) + "\n"
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(report, encoding="utf-8")
    print(report)
    return 1 if found.problems() else 0


if __name__ == "__main__":
    sys.exit(main())
