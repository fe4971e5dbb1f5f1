"""Charges for reading.

Characters count, prompts times texts included, before tokenization.
"""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from headlight.pb import headlight_pb2 as pb
from headlight_service.core.admission.admission_control import Admission
from headlight_service.core.admission.estimates import WaitEstimate
from headlight_service.core.admission.rate_limit import (
    Quotas,
)
from headlight_service.security.auth_tokens import AuthTokens
from headlight_service.security.authentication import Authenticator
from tests.service.batching import Clock
from tests.service.calls import details_of, refused, request
from tests.service.conftest import Serve, Service
from tests.service.fakes import FakeRuntime, FakeTokenizer
from tests.service.security.test_authentication import EXHAUSTED, GOOD, TOKEN

# Characters at the price of one computed token.
PER_TOKEN = 16 * 8  # characters that are read for the price of computing a token


@pytest.fixture
def tokens(tmp_path: Path) -> AuthTokens:
    path = tmp_path / "tokens"
    path.write_text(f"search {TOKEN}\n", encoding="ascii")
    return AuthTokens(path, lambda: None)


def blank(price: int, words: str = "x") -> pb.Input:
    """Return a text of few tokens, with as many characters as cost so many tokens."""
    return pb.Input(text=words.ljust(price * PER_TOKEN))


async def test_a_prompt_is_charged_with_each_text(serve: Serve, tokens: AuthTokens) -> None:
    quotas = Quotas(10, 1000, Clock())
    async with serve(authenticator=Authenticator(tokens), quotas=quotas) as service:
        many = pb.TokenizeRequest(inputs=[pb.Input(text="x")] * 256, prompt_text="\n" * 4096)
        await service.stub.Tokenize(many, **GOOD)
    assert quotas.of("search").level == 10_000 - 256 * 4097 / PER_TOKEN


async def test_reading_is_charged_in_advance_so_that_a_concurrent_call_sees_it(
    serve: Serve, tokens: AuthTokens
) -> None:
    begun, may_end = threading.Event(), threading.Event()

    class SlowTokenizer(FakeTokenizer):
        def encode(self, *args: Any, **options: Any) -> Any:
            begun.set()
            assert may_end.wait(30)
            return super().encode(*args, **options)

    runtime, quotas = FakeRuntime(), Quotas(10, 10, Clock())
    runtime.tokenizer = tokenizer = SlowTokenizer()
    async with serve(runtime, authenticator=Authenticator(tokens), quotas=quotas) as service:
        slow = pb.TokenizeRequest(inputs=[blank(101)])
        first = asyncio.ensure_future(service.stub.Tokenize(slow, **GOOD))
        try:
            assert await asyncio.to_thread(begun.wait, 30)
            error = await refused(service.stub.Tokenize(slow, **GOOD), EXHAUSTED)
            assert details_of(error)["ErrorInfo"].reason == "QUOTA"
        finally:
            may_end.set()
        await first
    assert len(tokenizer.texts) == 1
    assert quotas.of("search").level == 100 - 101, "nothing is paid twice"


async def test_a_text_far_beyond_the_quota_is_refused_unread(
    serve: Serve, tokens: AuthTokens
) -> None:
    quotas, runtime = Quotas(10, 100, Clock()), FakeRuntime()
    bucket = quotas.of("search")
    bucket.spend(900)
    async with serve(runtime, authenticator=Authenticator(tokens), quotas=quotas) as service:
        await refused(service.stub.Encode(request(blank(300)), **GOOD), EXHAUSTED)
    assert runtime.tokenizer is not None
    assert runtime.tokenizer.texts == []
    assert bucket.level == 100


async def test_the_estimate_for_a_deadline_counts_characters(
    monkeypatch: pytest.MonkeyPatch, service: Service
) -> None:
    estimates = list[int]()
    check_wait = Admission.check_wait

    def noted(self: Admission, estimate: WaitEstimate, tokens: int, *rest: Any) -> None:
        estimates.append(tokens)
        check_wait(self, estimate, tokens, *rest)

    monkeypatch.setattr(Admission, "check_wait", noted)
    await service.stub.Encode(request(blank(60), blank(40)), timeout=60)
    assert estimates[0] == 100, "before it is tokenised"
