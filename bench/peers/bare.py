"""Minimal gRPC server in front of a session: grpc.aio, one computing thread, no queue, no decoding.

The latency of a single caller is the session, this minimum (gRPC and the machine), and the
service's own part.
"""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import grpc

START_SECONDS = 30
SERVICE, METHOD = "headlight.v1.HeadlightService", "Encode"


def listen(work: Callable[[], bytes]) -> int:
    """Answer every call with the result of `work`, until the process ends; return the port."""
    ports: list[int] = []
    up = threading.Event()
    threading.Thread(target=lambda: asyncio.run(_serve(work, ports, up)), daemon=True).start()
    if not up.wait(START_SECONDS):
        raise RuntimeError("the bare server does not start")
    return ports[0]


async def _serve(work: Callable[[], bytes], ports: list[int], up: threading.Event) -> None:
    threads = ThreadPoolExecutor(1)
    run = functools.partial(asyncio.get_running_loop().run_in_executor, threads, work)

    async def encode(_: bytes, context: object) -> bytes:
        return await run()

    server = grpc.aio.server()
    handlers = {METHOD: grpc.unary_unary_rpc_method_handler(encode)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
    ports.append(server.add_insecure_port("127.0.0.1:0"))
    await server.start()
    up.set()
    await server.wait_for_termination()
