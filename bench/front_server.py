"""Servers for bench.front and bench.one_call, each a process.

    python -m bench.front_server KIND --bundle BUNDLE

floor: bare gRPC, which answers as many bytes. real: Headlight. front: Headlight with an engine that
answers at once. stamped: Headlight with time stamps, which it writes to --stamps at its end.
queue: grpc.aio that hands each request through a queue to one thread, which runs the session.
threads: the same on gRPC's thread-based server.
session: runs the session as often as requested, and returns the nanoseconds of each run.

Each logs its port and its readiness to standard error, as the service does. SIGTERM ends it.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import cProfile
import functools
import json
import pstats
import signal
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import Any
from unittest import mock

import grpc
import numpy as np

from bench.front import FLOOR, REPLY_BYTES, WIDTH, request
from bench.one_call_steps import SESSIONS, record
from headlight.runtime import Runtime
from headlight.runtime.encode_items import EncodeItem, ItemResult
from headlight.runtime.values import Arrays
from headlight.spec import TRUNCATE
from headlight_service.app import lifecycle, model_versions
from headlight_service.app.allocator import configure_allocator
from headlight_service.app.assembly import assemble, load
from headlight_service.config.option_types import Address
from headlight_service.config.options import Config
from headlight_service.telemetry import json_logs

KINDS = ("floor", "front", "real", "stamped", "queue", "threads", "session")
ANY_PORT = Address("127.0.0.1", 0)
PROFILE_LINES = 45
NAME_CHARACTERS = 15  # Linux keeps no more


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


async def headlight(options: argparse.Namespace, *, with_model: bool) -> None:
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
        bundle=options.bundle,
        truncation=options.truncation,
        provider=options.provider,
        precision=options.precision,
        grpc=ANY_PORT,
        metrics=ANY_PORT,
        api=ANY_PORT,
    )
    with mock.patch.object(model_versions, "assemble", assemble if with_model else without_model):
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


def name_threads() -> None:
    """Give each thread that starts from now on its name in the system, for bench.singles."""
    run = threading.Thread.run

    def named(thread: threading.Thread) -> None:
        path = Path(f"/proc/self/task/{threading.get_native_id()}/comm")
        path.write_text(thread.name[:NAME_CHARACTERS], encoding="utf-8")
        run(thread)

    mock.patch.object(threading.Thread, "run", named).start()


METHOD = "Unary1"  # as of the floor
ENTRY = bytes(REPLY_BYTES[1] - 4 * WIDTH)  # bytes of an answer besides the vector
Work = Callable[[bytes], bytes]


def session_run(bundle: Path) -> Callable[[], Arrays]:
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


async def serve_session(kind: str, run: Callable[[], Arrays]) -> None:
    """Serve the session on grpc.aio until SIGTERM."""
    submit, timed, loop = queued(run), measured(run), asyncio.get_running_loop()

    async def behaviour(message: bytes, context: object) -> bytes:
        if kind == "session":
            return await loop.run_in_executor(None, timed, message)
        return await asyncio.wrap_future(submit(message))

    server = grpc.aio.server()
    server.add_generic_rpc_handlers((handler(behaviour),))
    await serve(server)


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


async def serve_kind(options: argparse.Namespace) -> None:
    """Serve one kind until SIGTERM, but for threads."""
    if options.kind == "floor":
        await floor()
    elif options.kind in ("front", "real"):
        await headlight(options, with_model=options.kind == "real")
    elif options.kind == "stamped":
        calls = record()
        await headlight(options, with_model=True)
        options.stamps.write_text(json.dumps(calls), encoding="utf-8")
    else:
        await serve_session(options.kind, session_run(options.bundle))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("--bundle", type=Path, default=Path("build/bundles/docs-rope"))
    parser.add_argument("--truncation", choices=TRUNCATE, default="refuse")
    parser.add_argument("--provider", default="auto")
    parser.add_argument("--precision", default="fp32")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--stamps", type=Path)
    options = parser.parse_args()
    name_threads()
    configure_allocator()
    json_logs.configure("info")
    if options.kind == "threads":
        serve_threads(session_run(options.bundle))
    elif options.profile:
        profiles = profile_threads()
        profiles[0].runcall(asyncio.run, serve_kind(options))
        pstats.Stats(*profiles).sort_stats("tottime").print_stats(PROFILE_LINES)
    else:
        asyncio.run(serve_kind(options))


if __name__ == "__main__":
    main()
