"""Requests of all kinds and ends, mixed: whatever happens, nothing is left of them."""

from __future__ import annotations

import contextlib
import gc
import random
import time
import weakref
from collections.abc import Iterator
from concurrent.futures import CancelledError
from typing import Any

import pytest

from headlight.errors import HeadlightError
from headlight_service.core.admission.answer_window import AnswerWindow
from headlight_service.core.handle import Handle
from headlight_service.core.requests.request import OcclusionRequest, OutputSpec
from tests.service.core.pipelines import LONG, Core, Form, core, submit, until

KINDS = ("plain", "cancelled", "late", "waits", "refused", "streamed", "occluded")
REFUSED = ("", "x" * 10**6, "a " * 20_000)


@pytest.fixture
def without_collector() -> Iterator[None]:
    """Free objects by their reference counts alone."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def start(made: Core, kind: str, window: AnswerWindow, chance: random.Random) -> Handle[Any]:
    text, now = chance.choice(["a bb", "w " * 20, LONG]), time.monotonic()
    if kind == "occluded":
        request = OcclusionRequest([chance.choice(["a b c d", "a b"])], OutputSpec(token_info=True))
        request.deadline = now + chance.choice([1e-3, 5])
        return made.pipeline.submit(request, Form())
    special: dict[str, dict[str, Any]] = {
        "late": {"deadline": now + chance.choice([-1, 1e-4, 5e-3])},
        "waits": {"waits": True, "priority": "bulk", "deadline": now + 0.02},
        "streamed": {"window": window},
    }
    if kind == "refused":
        text = chance.choice(REFUSED)
    return submit(
        made, text, may_compute=chance.random() < 0.5, size_bytes=10, **special.get(kind, {})
    )


@pytest.mark.parametrize("seed", range(3))
def test_nothing_is_left_of_any_request(seed: int, without_collector: None) -> None:
    chance, left = random.Random(seed), weakref.WeakSet[Handle[Any]]()
    with core(max_queue_tokens=600, max_request_tokens=600) as made:
        window = AnswerWindow(200, 0)
        for _ in range(200):
            kind = chance.choice(KINDS)
            handle = start(made, kind, window, chance)
            left.add(handle)
            if kind == "cancelled":
                handle.cancel()
            with contextlib.suppress(HeadlightError, CancelledError):
                handle.result()
            handle.close()
        del handle
        made.passed()
        made.resumed()
        made.computed()
        until(lambda: not left, "requests are still referred to")
        assert window.enter(200, lambda: None)
        assert made.model.bound == 0
