"""Clients in a process of their own, whose clock can jump.

Prints its observations, and a summary in JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time

import grpc

from headlight import AsyncClient, Client
from headlight.errors import DeadlineExceeded, Overloaded, Unavailable
from tests.chaos.traffic.background import Traffic, said
from tests.chaos.traffic.reference import reference
from tests.system.conftest import bundle_of

WAIT_SECONDS = 60.0
LONG = [[5] * 2000] * 8  # seconds of work
TIGHT_SECONDS = 0.3


def waited(target: str, authority: str) -> None:
    """Retry until there is an answer, as a job does."""
    with Client(target, tls_ca=authority, timeout=WAIT_SECONDS) as client:
        end = time.monotonic() + WAIT_SECONDS
        while True:
            try:
                client.encode(["open a file"])
                return
            except Unavailable:
                if time.monotonic() > end:
                    raise


async def tight(target: str, authority: str) -> list[float]:
    """Make calls whose work exceeds their timeout; return how long each took until cancelled."""
    took: list[float] = []
    async with AsyncClient(target, tls_ca=authority, timeout=TIGHT_SECONDS) as client:
        try:
            while True:
                begun = time.monotonic()
                try:
                    await client.encode(LONG)
                except DeadlineExceeded:
                    took.append(time.monotonic() - begun)
                except Overloaded:
                    pass  # the service refuses it as too late
                await asyncio.sleep(0.1)
        except asyncio.CancelledError:
            return took


async def main(target: str, authority: str) -> None:
    known = reference(bundle_of("docs-rope"))
    print("waiting", flush=True)
    await asyncio.to_thread(waited, target, authority)
    print("answered", flush=True)
    async with Traffic(target, known, callers=2, tls_ca=authority) as traffic:
        deadlines = asyncio.create_task(tight(target, authority))
        await asyncio.to_thread(sys.stdin.readline)
        deadlines.cancel()
        took = await deadlines
    found = {"said": said(traffic.outcomes()), "tight": took, "problems": traffic.problems()}
    print(json.dumps(found | {"grpc": grpc.__version__}), flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
