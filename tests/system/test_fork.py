"""Clients after a real fork: the blocking one works, that for asyncio says what to do."""

from __future__ import annotations

import subprocess
import sys

from tests.system.processes import ROOT, Service

BLOCKING = """
import os, sys
from headlight import Client
client = Client(sys.argv[1])
before = client.encode(["one"]).tobytes()
child = os.fork()
if child == 0:
    os._exit(client.encode(["one"]).tobytes() != before)
assert os.waitpid(child, 0)[1] == 0
assert client.encode(["one"]).tobytes() == before
"""
ASYNCIO = """
import asyncio, os, sys
from headlight import AsyncClient
async def main():
    client = AsyncClient(sys.argv[1])
    before = (await client.encode(["one"])).tobytes()
    child = os.fork()
    if child == 0:
        try:
            await client.encode(["one"])
        except RuntimeError as error:
            os._exit("make one in each process" not in str(error))
        os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    assert (await client.encode(["one"])).tobytes() == before
    await client.close()
asyncio.run(main())
"""


def run(program: str, target: str) -> None:
    command = [sys.executable, "-c", program, target]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr


def test_the_blocking_client_works_after_a_fork(rope: Service) -> None:
    run(BLOCKING, rope.target)


def test_the_client_for_asyncio_says_after_a_fork_what_to_do(rope: Service) -> None:
    run(ASYNCIO, rope.target)
