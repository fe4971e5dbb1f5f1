"""Headlight's own engine in one process, without a wire, to single out the cost of serving.

    python -m bench.peers.engine BUNDLE TEXTS [FLAGS OF THE SERVICE]

"online" puts the service's requests into the service's own queue; "offline" is `Runtime.encode`.
"""

from __future__ import annotations

import functools
import math
import sys
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from typing import Any

from bench.peers.worker import answer, described, groups, read_texts, save_vectors, timed
from headlight.runtime import Runtime
from headlight.runtime.encode_items import EncodeItem
from headlight_service.app.allocator import configure_allocator
from headlight_service.app.assembly import assemble, load
from headlight_service.app.executor import Executor
from headlight_service.config.options import Config
from headlight_service.core.admission.request_budget import RequestBudget
from headlight_service.core.models import ServedModel
from headlight_service.core.scheduler.pending_requests import Computed, PendingRequest
from headlight_service.telemetry.metrics import Metrics


def compute(model: ServedModel, items: Sequence[EncodeItem]) -> None:
    """Queue items as the service does after tokenising, and wait for results.

    Raises as the engine.
    """
    ended: Future[Computed | Exception] = Future()
    budget = RequestBudget(model.admission, model.estimate, "interactive")
    budget.take_tokens(sum(len(item.ids) for item in items), math.inf)
    pending = PendingRequest(model.key, items, math.inf, "interactive", budget, ended.set_result)
    model.scheduler.submit(pending, may_compute=True)
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
    texts = read_texts(texts_path)
    configure_allocator()
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

    def vectors(path: str) -> dict[str, Any]:
        return save_vectors(path, runtime.encode(texts, truncate="end"))

    operations = (describe, online, offline, vectors)
    answer({work.__name__: work for work in operations})


if __name__ == "__main__":
    main()
