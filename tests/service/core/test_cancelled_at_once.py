"""Requests cancelled before any work is done.

Its own thread would have computed it.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import CancelledError
from pathlib import Path
from typing import cast

import pytest

from headlight.runtime import Runtime
from headlight_service.app.assembly import assemble
from headlight_service.app.executor import Executor
from headlight_service.config.options import Config
from headlight_service.core.admission.rate_limit import Quotas
from headlight_service.core.models import Models
from headlight_service.core.pipeline import Pipeline
from headlight_service.core.requests.request import Request
from headlight_service.core.tokenizer_threads import TokenizerThreads
from headlight_service.frontends.contract.answer_forms import UnaryForm
from headlight_service.telemetry.metrics import Metrics
from tests.service.batching import Clock
from tests.service.fakes import FakeRuntime


def test_a_request_cancelled_at_once_is_not_held_charged_or_computed() -> None:
    runtime, models, tokenizers = FakeRuntime(), Models(), TokenizerThreads(1)
    config = Config(bundle=Path("b"))
    model = assemble(cast(Runtime, runtime), config, Metrics(), Executor(config, 1))
    models.add(model)
    quotas = Quotas(10, 10, Clock())
    pipeline = Pipeline(models, tokenizers, quotas)

    def leave(cancel: Callable[[], object]) -> None:
        cancel()

    request = Request(["a text"], size_bytes=7, client="search")
    handle = pipeline.submit(request, UnaryForm(model.limits), may_compute=True, when_gone=leave)
    assert handle.cancelled
    with pytest.raises(CancelledError):
        handle.result()
    admission = model.admission
    assert (admission.requests.held, admission.tokens.held, admission.outputs.held) == (0, 0, 0)
    assert quotas.of("search").level == 100
    assert runtime.engine.batches == []
    assert pipeline.submit(request, UnaryForm(model.limits), may_compute=True).result().results
    model.scheduler.close()
    tokenizers.close()
