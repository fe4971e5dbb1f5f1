"""Servers for bench.one_call, each a process.

    python -m bench.one_call_server echo|queue|threads|session|stamped --bundle BUNDLE

echo: grpc.aio, whose handler returns as many bytes. queue: grpc.aio that hands each request through
a queue to one thread, which runs the session. threads: the same on gRPC's thread-based server.
session: runs the session as often as asked, and returns the nanoseconds of each run. stamped:
Headlight, with time stamps, which it writes to --stamps at its end.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import functools
import json
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import Any
from unittest import mock

import grpc
import numpy as np

from bench.front import FLOOR, REPLY_BYTES, WIDTH, request
from bench.front_server import ANY_PORT, headlight, log_ready
from bench.front_server import serve as until_stopped
from bench.one_call_steps import SESSIONS, record
from headlight.runtime.values import Arrays
from headlight_service.app.allocator import settle_allocator
from headlight_service.app.assembly import load
from headlight_service.config.options import Config
from headlight_service.telemetry import json_logs

METHOD = "Unary"
ENTRY = bytes(REPLY_BYTES[1] - 4 * WIDTH)  # bytes of an answer besides the vector
Work = Callable[[bytes], bytes]


def own_session(bundle: Path) -> Callable[[], Arrays]:
    """Return a function that runs the session as Headlight does for the short text, and no more."""
    runtime = load(Config(bundle=bundle, grpc=ANY_PORT, metrics=ANY_PORT, api=ANY_PORT))
    runs: list[Callable[[], Any]] = []

    def recorded(inner: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any, **named: Any) -> Any:
            runs.append(functools.partial(inner, *arguments, **named))
            return runs[-1]()

        return run

    assert runtime.tokenizer is not None
    [text] = request("text", 1).inputs
    item = runtime.item(runtime.tokenizer.encode(text.text, with_info=False), runtime.select())
    with contextlib.ExitStack() as patched:
        for kind in SESSIONS:
            patched.enter_context(mock.patch.object(kind, "run", recorded(kind.run)))
        runtime.engine.run([item], wide=True)  # as the service does if nothing else runs

    def run() -> Arrays:
        with runs[0]() as outputs:
            return {name: np.asarray(array) for name, array in outputs.items()}

    return run


def queued(run: Callable[[], Arrays]) -> Callable[[bytes], Future[bytes]]:
    """Return a function that hands a request through a queue to one computing thread."""
    waiting: SimpleQueue[Future[bytes]] = SimpleQueue()

    def compute() -> None:
        while True:
            ended = waiting.get()
            ended.set_result(run()["pooled"].tobytes() + ENTRY)

    def submit(_: bytes) -> Future[bytes]:
        ended: Future[bytes] = Future()
        waiting.put(ended)
        return ended

    threading.Thread(target=compute, daemon=True).start()
    return submit


def measured(run: Callable[[], Arrays]) -> Work:
    """Return a function that runs the session, and times it.

    It takes `{"count", "pause"}` as JSON, the pause in seconds before each run, and returns the
    nanoseconds of each.
    """

    def loop(message: bytes) -> bytes:
        fields, taken = json.loads(message), list[int]()
        for _ in range(fields["count"]):
            if fields["pause"]:
                time.sleep(fields["pause"])
            begin = time.monotonic_ns()
            run()
            taken.append(time.monotonic_ns() - begin)
        return json.dumps(taken).encode()

    return loop


def handler(behaviour: Callable[[bytes, Any], Any]) -> Any:
    """Return gRPC's handler of the one method, of bytes."""
    method = grpc.unary_unary_rpc_method_handler(behaviour)
    return grpc.method_handlers_generic_handler(FLOOR, {METHOD: method})


async def serve(kind: str, run: Callable[[], Arrays] | None) -> None:
    """Serve on grpc.aio until SIGTERM. `run`: the session; None for an echo."""
    reply, loop = bytes(REPLY_BYTES[1]), asyncio.get_running_loop()
    submit, times = (None, None) if run is None else (queued(run), measured(run))

    async def behaviour(message: bytes, context: object) -> bytes:
        if submit is None or times is None:
            return reply
        if kind == "session":
            return await loop.run_in_executor(None, times, message)
        return await asyncio.wrap_future(submit(message))

    server = grpc.aio.server()
    server.add_generic_rpc_handlers((handler(behaviour),))
    await until_stopped(server)


def serve_threads(run: Callable[[], Arrays]) -> None:
    """Serve on gRPC's thread-based server until SIGTERM."""
    submit, stopped = queued(run), threading.Event()
    server = grpc.server(ThreadPoolExecutor(8))
    server.add_generic_rpc_handlers((handler(lambda message, _: submit(message).result()),))
    port = server.add_insecure_port(str(ANY_PORT))
    server.start()
    signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    log_ready(port)
    stopped.wait()
    server.stop(None).wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=("echo", "queue", "threads", "session", "stamped"))
    parser.add_argument("--bundle", type=Path, required=True)
    parser.add_argument("--stamps", type=Path)
    options = parser.parse_args()
    settle_allocator()
    json_logs.configure("info")
    if options.kind == "stamped":
        calls = record()
        asyncio.run(headlight(options.bundle, "refuse", with_model=True))
        options.stamps.write_text(json.dumps(calls), encoding="utf-8")
        return
    run = None if options.kind == "echo" else own_session(options.bundle)
    if run is not None and options.kind == "threads":
        serve_threads(run)
    else:
        asyncio.run(serve(options.kind, run))


if __name__ == "__main__":
    main()
