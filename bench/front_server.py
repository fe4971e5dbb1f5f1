"""Servers for bench.front, each a process: bare gRPC, Headlight, or Headlight without its model.

    python -m bench.front_server floor|front|real

Each logs its port and its readiness to standard error, as the service does. SIGTERM ends it.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import functools
import json
import pstats
import signal
import sys
import threading
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from unittest import mock

import grpc
import numpy as np

from bench.front import FLOOR, REPLY_BYTES
from headlight.runtime import Runtime
from headlight.runtime.encode_items import EncodeItem, ItemResult
from headlight.spec import TRUNCATE, Truncate
from headlight_service.app import lifecycle
from headlight_service.app.allocator import settle_allocator
from headlight_service.app.assembly import assemble
from headlight_service.config.option_types import Address
from headlight_service.config.options import Config
from headlight_service.telemetry import json_logs

ANY_PORT = Address("127.0.0.1", 0)
PROFILE_LINES = 45


async def floor() -> None:
    """Serve the minimum: bytes in, bytes of an answer's size out, no interceptor, no decoding."""
    listening = grpc.aio.server()
    handlers = {}
    for texts, size in REPLY_BYTES.items():
        reply = bytes(size)

        async def unary(_: bytes, context: object, reply: bytes = reply) -> bytes:
            return reply

        async def stream(
            requests: AsyncIterator[bytes], context: object, reply: bytes = reply
        ) -> AsyncIterator[bytes]:
            async for _ in requests:
                yield reply

        handlers[f"Unary{texts}"] = grpc.unary_unary_rpc_method_handler(unary)
        handlers[f"Stream{texts}"] = grpc.stream_stream_rpc_method_handler(stream)
    listening.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(FLOOR, handlers),))
    await serve(listening)


async def serve(listening: grpc.aio.Server) -> None:
    """Serve on any port until SIGTERM."""
    port = listening.add_insecure_port(str(ANY_PORT))
    await listening.start()
    log_ready(port)
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    await stopped.wait()
    await listening.stop(None)


def log_ready(port: int) -> None:
    """Log the port and the readiness, as the service does."""
    for event in ({"event": "listening", "grpc_port": port}, {"event": "serving"}):
        sys.stderr.write(json.dumps(event) + "\n")
    sys.stderr.flush()


async def headlight(bundle: Path, truncation: Truncate, *, with_model: bool) -> None:
    """Serve Headlight.

    Without its model, which is still checked, batches are answered with zeros.
    """

    def without_model(runtime: Runtime, *rest: object) -> object:
        width = runtime.bundle.manifest.architecture.pooled_dim

        def run(items: Sequence[EncodeItem], *, wide: bool = False) -> list[ItemResult]:
            return [
                ItemResult(pooled=vector)
                for vector in np.zeros((len(items), width), dtype=np.float32)
            ]

        mock.patch.object(runtime.engine, "run", run).start()
        return assemble(runtime, *rest)  # type: ignore[arg-type]  # passed on as they came

    config = Config(
        bundle=bundle, truncation=truncation, grpc=ANY_PORT, metrics=ANY_PORT, api=ANY_PORT
    )
    with mock.patch.object(lifecycle, "assemble", assemble if with_model else without_model):
        await lifecycle.Server(config).serve()


def profile_threads() -> list[cProfile.Profile]:
    """Profile each thread that starts from now on, by its own CPU time.

    Returns:
        A profile for this thread, followed by theirs.
    """

    def profile_here() -> cProfile.Profile:
        clock = time.pthread_getcpuclockid(threading.get_ident())
        return cProfile.Profile(functools.partial(time.clock_gettime, clock))

    profiles = [profile_here()]
    run = threading.Thread.run

    def profiled(thread: threading.Thread) -> None:
        profiles.append(profile := profile_here())
        profile.runcall(run, thread)

    mock.patch.object(threading.Thread, "run", profiled).start()
    return profiles


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=("floor", "front", "real"))
    parser.add_argument("--bundle", type=Path, default=Path("build/bundles/docs-rope"))
    parser.add_argument("--truncation", choices=TRUNCATE, default="refuse")
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()
    settle_allocator()
    json_logs.configure("info")
    life = (
        floor()
        if options.kind == "floor"
        else headlight(options.bundle, options.truncation, with_model=options.kind == "real")
    )
    if not options.profile:
        asyncio.run(life)
        return
    profiles = profile_threads()
    profiles[0].runcall(asyncio.run, life)
    pstats.Stats(*profiles).sort_stats("tottime").print_stats(PROFILE_LINES)


if __name__ == "__main__":
    main()
