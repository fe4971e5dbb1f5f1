"""A pipeline without a frontend, over a runtime without a model."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from headlight.results import ModelRef, TokenList
from headlight.runtime import Runtime
from headlight.runtime.engine.batches import BATCH_TOKENS
from headlight.runtime.providers.worker_layout import Workers
from headlight.runtime.tokenization.tokenizer import SHORT_CHARACTERS
from headlight.spec import PRIORITIES
from headlight_service.app.assembly import assemble
from headlight_service.app.executor import Executor
from headlight_service.config.options import Config
from headlight_service.core.admission.rate_limit import Quotas
from headlight_service.core.handle import Handle
from headlight_service.core.models import Models
from headlight_service.core.pipeline import Pipeline
from headlight_service.core.requests.answer import Answer, Prepared
from headlight_service.core.requests.request import Request
from headlight_service.core.tokenizer_threads import TokenizerThreads
from headlight_service.telemetry.metrics import Metrics
from tests.service.batching import Clock
from tests.service.fakes import DIM, FakeRuntime, FakeTokenizer, fit

OVERHEAD = 7
VECTOR_BYTES = 4 * DIM
LONG = "word " * SHORT_CHARACTERS  # is tokenised on a tokenizer thread


class Form:
    """Answer form with a fixed number of bytes beside the data."""

    def __init__(self, error: Exception | None = None) -> None:
        self.asked: list[tuple[ModelRef, Prepared, Any]] = []
        self._error = error

    def overhead_bytes(self, ref: ModelRef, prepared: Prepared, details: Any = None) -> int:
        self.asked.append((ref, prepared, details))
        if self._error is not None:
            raise self._error
        return OVERHEAD


class Pieces:
    """Answer form that returns the tokens' texts."""

    def encode(self, ref: ModelRef, tokens: Iterable[TokenList], inputs: int) -> bytes:
        pieces = [" ".join(each.pieces) for each in tokens]
        return f"{ref.name} {inputs}: {'|'.join(pieces)}".encode()


class Trace:
    """Recorder of the span callbacks of a request.

    `act` is called with each stage, on the thread that reaches it.
    """

    recording, trace_id, place = True, "0" * 32, None

    def __init__(self) -> None:
        self.stages: list[str] = []
        self.act: Callable[[str], None] = lambda stage: None

    def stage(self, name: str) -> None:
        self.stages.append(name)
        self.act(name)

    def prepared(self, ref: ModelRef, prepared: Prepared) -> None:
        self.stages.append("prepared")
        self.act("prepared")

    def describe(self, attributes: Mapping[str, Any]) -> None: ...
    def infer(self, batch: Any) -> None: ...
    def refused(self, code: Any, reason: str) -> None: ...
    def message(self) -> Trace: ...  # type: ignore[empty-body]  # never called
    def end(self, code: Any) -> None: ...
    def end_http(self, status: int, reason: str) -> None: ...


class HeldTokenizer(FakeTokenizer):
    """Tokenizer that blocks in each long text while `may_read` is clear."""

    def __init__(self) -> None:
        super().__init__()
        self.reading, self.may_read = threading.Semaphore(0), threading.Event()
        self.may_read.set()
        self.threads: list[str] = []

    def encode(self, text: str, *rest: Any, **options: Any) -> Any:
        self.threads.append(threading.current_thread().name)
        if len(text) > SHORT_CHARACTERS:
            self.reading.release()
            assert self.may_read.wait(30)
        return super().encode(text, *rest, **options)


class Core:
    """Pipeline, and the state that tests inspect."""

    def __init__(self, *, slots: int = 1, quotas: Quotas | None = None, **options: Any) -> None:
        self.runtime = FakeRuntime(accepts=("text", "pair", "ids"))
        self.runtime.workers = Workers(slots)
        self.runtime.tokenizer = self.tokenizer = HeldTokenizer()
        self.engine, self.metrics = self.runtime.engine, Metrics()
        self.computing: list[str] = []  # the threads that computed
        self.engine.takes = lambda tokens: self.computing.append(threading.current_thread().name)
        config = Config(bundle=Path("none"), **options)
        self.engine.batch_tokens = config.batch_tokens or BATCH_TOKENS
        executor = Executor(config, slots)
        runtime = cast(Runtime, fit(self.runtime, config))
        self.model = assemble(runtime, config, self.metrics, executor)
        self.models = Models()
        self.models.add(self.model)
        self.tokenizers = TokenizerThreads(1)
        self.pipeline = Pipeline(self.models, self.tokenizers, quotas)

    def sample(self, name: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(name, {"model": "fake", **labels})

    @property
    def held(self) -> tuple[int, int, int]:
        """Return bytes of requests, tokens, and bytes of answers."""
        admission = self.model.admission
        return admission.requests.held, admission.tokens.held, admission.outputs.held

    def started(self) -> None:
        """Wait until the engine has begun one more batch."""
        assert self.engine.started.acquire(timeout=30)

    def passed(self) -> None:
        """Wait until the tokenizer's thread has skipped all work that waited for it."""
        for priority in PRIORITIES:
            done = threading.Event()
            self.tokenizers.submit(done.set, priority)
            assert done.wait(30)

    def resumed(self) -> None:
        """Wait until all requests that got room have gone on."""
        done = threading.Event()
        self.pipeline._resuming.put(done.set)
        assert done.wait(30)

    def computed(self) -> None:
        """Wait until the model computes nothing."""
        scheduler = self.model.scheduler

        def running() -> int:
            with scheduler.lock:
                return scheduler._slots.running

        until(lambda: not running(), "the engine does not end")

    @contextlib.contextmanager
    def busy_tokenizer(self) -> Iterator[None]:
        """Keep the tokenizer's thread busy with other work."""
        begun, may_end = threading.Event(), threading.Event()

        def work() -> None:
            begun.set()
            assert may_end.wait(30)

        self.tokenizers.submit(work, "interactive")
        assert begun.wait(30)
        try:
            yield
        finally:
            may_end.set()

    def close(self) -> None:
        self.engine.gate.set()
        self.tokenizer.may_read.set()
        self.model.scheduler.close()
        self.pipeline.close()


def until(holds: Callable[[], bool], problem: str) -> None:
    """Wait for a condition that other threads will make true."""
    end = time.monotonic() + 60
    while not holds():
        if time.monotonic() > end:
            pytest.fail(problem)
        time.sleep(0.001)


@contextlib.contextmanager
def core(**options: Any) -> Iterator[Core]:
    """Yield a Core; nothing may be held at the end."""
    made = Core(**options)
    try:
        yield made
        made.engine.gate.set()
        made.tokenizer.may_read.set()
        made.passed()
        made.computed()
        assert made.held == (0, 0, 0)
        assert made.model.scheduler.heartbeat.stalled_seconds == 0
        until(
            lambda: not any(each.work for each in made.tokenizers.heartbeats.values()),
            "the tokenizer's threads are not free",
        )
        assert not any(made.model.scheduler._queue.waiting.values())
    finally:
        made.close()


def submit(
    made: Core, *inputs: Any, form: Form | None = None, may_compute: bool = False, **fields: Any
) -> Handle[Answer]:
    own = {name: fields.pop(name) for name in ("window", "trace") if name in fields}
    request = Request(list(inputs or ["a bb"]), **fields)
    return made.pipeline.submit(request, form or Form(), may_compute=may_compute, **own)


def hold(made: Core, *inputs: Any, **fields: Any) -> Handle[Answer]:
    """Submit a request, and hold the engine in its batch until the gate is set."""
    made.engine.gate.clear()
    handle = submit(made, *inputs, **fields)
    made.started()
    return handle


def answered(handle: Handle[Any]) -> Any:
    """Return the answer, after its bytes are released."""
    answer = handle.result()
    handle.close()
    return answer


def refused(handle: Handle[Any], kind: type[Exception]) -> Any:
    with pytest.raises(kind) as error:
        handle.result()
    return error.value


def cancelled(made: Core) -> dict[str, float]:
    """Return the nonzero counts of cancelled callers, by stage."""
    stages = ("tokenize", "queue", "infer", "send")
    counts = {
        stage: made.sample("headlight_cancelled_total", stage=stage) or 0.0 for stage in stages
    }
    return {stage: count for stage, count in counts.items() if count}


def quotas_of(tokens: float) -> Quotas:
    """Return buckets of so many tokens, which do not fill."""
    return Quotas(1.0, tokens, Clock())
