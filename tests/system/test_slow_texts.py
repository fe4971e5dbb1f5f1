"""The most expensive texts for their size: their cost, and a shutdown meanwhile."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest

from headlight.pb import headlight_pb2 as pb
from headlight.pb import headlight_pb2_grpc as pb_grpc
from headlight.runtime.bundle.bundle import Bundle
from headlight.runtime.bundle.manifest import TokenizerLimit
from tests.system.conftest import bundle_of
from tests.system.processes import Service

GRACE_SECONDS = 20
MESSAGE_BYTES = 4_000_000
SECONDS = 250  # for any answer: a slow machine is no failure


def limit_of(model: str) -> TokenizerLimit:
    limit = Bundle(bundle_of(model)).manifest.tokenizer_limit
    assert limit is not None
    return limit


def cpu_seconds(process: int) -> float:
    """Return the CPU time of all threads of a process."""
    fields = Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_sigterm_while_tokenising_the_largest_message_ends_cleanly() -> None:
    longest = pb.Input(text="\n" * limit_of("docs-rope").max_characters)
    worst = pb.TokenizeRequest(
        inputs=[longest] * max(1, MESSAGE_BYTES // len(longest.text.encode()))
    )
    with Service(bundle_of("docs-rope"), "--grace-seconds", str(GRACE_SECONDS)) as service:
        with grpc.insecure_channel(service.target) as channel, ThreadPoolExecutor(1) as pool:
            stub = pb_grpc.HeadlightServiceStub(channel)
            answer = pool.submit(stub.Tokenize, worst, timeout=SECONDS)
            while not service.counted("headlight_held_request_bytes") and not answer.done():
                pass
            service.terminate()
            assert len(answer.result(SECONDS).items) == len(worst.inputs)
        assert service.wait() == 0


def test_a_small_request_with_a_long_prompt_of_line_breaks_costs_little(rope: Service) -> None:
    """6.6 kB: 13 s before, due to the tokenizer's pattern."""
    with grpc.insecure_channel(rope.target) as channel:
        stub = pb_grpc.HeadlightServiceStub(channel)
        before = cpu_seconds(rope.process.pid)
        request = pb.TokenizeRequest(inputs=[pb.Input(text="x")] * 512, prompt_text="\n" * 4096)
        assert len(stub.Tokenize(request, timeout=SECONDS).items) == 512
        assert cpu_seconds(rope.process.pid) - before < 6


def test_a_text_beyond_the_tokenizers_limit_is_refused_unread() -> None:
    limit = limit_of("docs-rope").max_characters
    with Service(bundle_of("docs-rope"), "--max-text-characters", "4000000") as service:
        assert any(entry.get("event") == "text_limit_lowered" for entry in service.log)
        with grpc.insecure_channel(service.target) as channel:
            stub = pb_grpc.HeadlightServiceStub(channel)
            request = pb.TokenizeRequest(inputs=[pb.Input(text="\n" * limit)], prompt_text="q")
            with pytest.raises(grpc.RpcError) as caught:
                stub.Tokenize(request, timeout=SECONDS)
    error = caught.value
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    told = (
        f"inputs[0].text: has {limit + 1} characters, 1 of them its prompt; "
        f"at most {limit} are read; shorten it"
    )
    assert told in (error.details() or "")
