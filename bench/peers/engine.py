"""Headlight's own engine in one process, without a wire, to single out the cost of serving.

    python -m bench.peers.engine BUNDLE TEXTS [FLAGS OF THE SERVICE]

"online" puts the service's requests into the service's own queue; "offline" is `Runtime.encode`.
"""

from __future__ import annotations

import asyncio
import functools
import math
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from queue import SimpleQueue
from typing import Any

import grpc

from bench.peers.worker import answer, described, groups, read_texts, save_vectors, timed
from headlight.runtime import Runtime
from headlight.runtime.encode_items import EncodeItem
from headlight.runtime.providers.cuda_session import CudaSession
from headlight.runtime.providers.onnx_session import OnnxSession
from headlight.runtime.providers.openvino_session import OpenVinoSession
from headlight.runtime.values import Arrays
from headlight_service.app.allocator import settle_allocator
from headlight_service.app.assembly import assemble, load
from headlight_service.app.executor import Executor
from headlight_service.config.options import Config
from headlight_service.core.admission.request_budget import RequestBudget
from headlight_service.core.models import ServedModel
from headlight_service.core.scheduler.pending_requests import Computed, PendingRequest
from headlight_service.telemetry.metrics import Metrics

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


class Timed:
    """Session run, timed until its outputs exist, which is the library's computation."""

    def __init__(
        self, inner: AbstractContextManager[Arrays], begun: float, seconds: list[float]
    ) -> None:
        self._inner, self._begun, self._seconds = inner, begun, seconds

    def __enter__(self) -> Arrays:
        outputs = self._inner.__enter__()
        self._seconds.append(time.perf_counter() - self._begun)
        return outputs

    def __exit__(self, *error: Any) -> bool | None:
        return self._inner.__exit__(*error)


def in_sessions() -> list[float]:
    """Record the seconds within ONNX Runtime and OpenVINO from now on, call by call."""
    seconds: list[float] = []
    for kind in (OnnxSession, OpenVinoSession, CudaSession):
        # Mypy takes methods for constants.
        setattr(kind, "run", _timed(kind.run, seconds))  # noqa: B010
    return seconds


def _timed(
    native: Callable[..., AbstractContextManager[Arrays]], seconds: list[float]
) -> Callable[..., Timed]:
    def run(*arguments: Any, **named: Any) -> Timed:
        begun = time.perf_counter()
        return Timed(native(*arguments, **named), begun, seconds)

    return run


def compute(model: ServedModel, items: Sequence[EncodeItem]) -> None:
    """Queue items as the service does after tokenising, and wait for results.

    Raises as the engine.
    """
    ended: Future[Computed | Exception] = Future()
    budget = RequestBudget(model.admission, model.estimate, "interactive")
    budget.take_tokens(sum(len(item.ids) for item in items), math.inf)
    pending = PendingRequest(model.key, items, math.inf, "interactive", budget, ended.set_result)
    model.scheduler.submit(pending, here=True)
    outcome = ended.result()
    budget.give_back_tokens()
    budget.close()
    if isinstance(outcome, Exception):
        raise outcome


def queued(
    runtime: Runtime,
    config: Config,
    texts: Sequence[str],
    order: Sequence[int],
    callers: int,
    group: int,
) -> dict[str, Any]:
    """Run callers that queue a request after each answer; each is a thread, as in the service."""
    tokenizer, selection = runtime.tokenizer, runtime.select()
    assert tokenizer is not None
    model = assemble(runtime, config, Metrics(), Executor(config, runtime.workers.streams))
    left: SimpleQueue[Sequence[int] | None] = SimpleQueue()
    for part in (*groups(order, group), *[None] * callers):
        left.put(part)
    latencies: list[float] = []

    def caller() -> None:
        while (part := left.get()) is not None:
            begin = time.perf_counter()
            read = [tokenizer.encode(texts[i], truncation="cut_end", with_info=False) for i in part]
            compute(model, [runtime.item(one, selection) for one in read])
            latencies.append(time.perf_counter() - begin)

    begin, cpu = time.perf_counter(), time.process_time()
    with ThreadPoolExecutor(callers) as threads:
        for ended in [threads.submit(caller) for _ in range(callers)]:
            ended.result()
    cost = {
        "seconds": time.perf_counter() - begin,
        "cpu": time.process_time() - cpu,
        "latencies": latencies,
    }
    model.scheduler.close()
    return cost


def main() -> None:
    bundle, texts_path, *flags = sys.argv[1:]
    texts, inside = read_texts(texts_path), in_sessions()
    settle_allocator()
    config = Config.parse(["--bundle", bundle, *flags], {})
    runtime = load(config)

    def describe() -> dict[str, Any]:
        library = "openvino" if runtime.provider == "openvino" else "onnxruntime"
        precision = f"{runtime.provider}, {runtime.precision}"
        return described((library, "tokenizers", "numpy"), precision)

    def online(order: list[int], callers: int, group: int) -> dict[str, Any]:
        return queued(runtime, config, texts, order, callers, group)

    def offline(order: list[int], group: int) -> dict[str, Any]:
        def encode(part: Sequence[int]) -> object:
            return runtime.encode([texts[i] for i in part], truncate="end")

        return timed(functools.partial(encode, part) for part in groups(order, group))

    def item_of(text: str) -> EncodeItem:
        assert runtime.tokenizer is not None
        return runtime.item(runtime.tokenizer.encode(text, with_info=False), runtime.select())

    def short(text: str, count: int) -> dict[str, Any]:
        item = item_of(text)
        runtime.engine.run([item], wide=True)  # as the service does if nothing else runs
        inside.clear()
        for _ in range(count):
            runtime.engine.run([item], wide=True)
        return {"latencies": inside, "tokens": len(item.ids)}

    def drained() -> dict[str, Any]:
        """Return the seconds in sessions since the last call, also those of the bare server."""
        seconds = inside.copy()
        inside.clear()
        return {"latencies": seconds}

    def bare(text: str) -> dict[str, Any]:
        item = item_of(text)

        def run() -> bytes:
            [result] = runtime.engine.run([item], wide=True)
            assert result.pooled is not None
            return result.pooled.tobytes()

        return {"port": listen(run)}

    def vectors(path: str) -> dict[str, Any]:
        return save_vectors(path, runtime.encode(texts, truncate="end"))

    operations = (describe, online, offline, short, drained, bare, vectors)
    answer({work.__name__: work for work in operations})


if __name__ == "__main__":
    main()
