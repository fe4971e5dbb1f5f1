"""Backpressure: load shedding, deadlines, priorities, disconnects, readers that do not read."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from headlight.runtime.encode_items import ItemResult
from headlight_service.frontends.contract import json_answer_forms
from headlight_service.frontends.http import exchange, json_answers
from tests.service.core.pipelines import until
from tests.service.fakes import FakeRuntime
from tests.service.frontends.http.http_service import (
    HttpService,
    Reply,
    http_service,
    post,
    read_all,
    read_reply,
)

PATH = "/v1/embeddings"
ELEVEN = "word " * 11
# Bulk may hold 35 tokens.
NARROW: dict[str, Any] = {"max_queue_tokens": 40, "max_request_tokens": 20}


class Asking:
    """A request in a thread of its own."""

    def __init__(self, ask: Callable[[], Reply]) -> None:
        self._replies = list[Reply]()
        self._thread = threading.Thread(target=lambda: self._replies.append(ask()))
        self._thread.start()

    def reply(self) -> Reply:
        self._thread.join(60)
        return self._replies[0]


def fill(service: HttpService, count: int = 3) -> list[Asking]:
    """Fill the queue, with an engine that is held."""
    service.engine.gate.clear()
    asking = [Asking(lambda: service.ask(PATH, {"input": ELEVEN})) for _ in range(count)]
    until(lambda: service.held[1] == 11 * count, "the queue is not full")
    return asking


def busy(service: HttpService) -> list[Asking]:
    """Let both execution slots compute, one request each, until the engine's gate opens."""
    service.engine.gate.clear()
    asking = []
    for _ in range(2):
        asking.append(Asking(lambda: service.ask(PATH, {"input": ELEVEN})))
        service.started()
    return asking


def bulk(service: HttpService, text: str = ELEVEN, **headers: str) -> Reply:
    return service.ask(PATH, {"input": text}, headers={"x-headlight-priority": "bulk", **headers})


def test_a_shed_request_gets_its_retry_delay() -> None:
    with http_service(**NARROW) as service:
        asking = fill(service)
        reply = service.ask(PATH, {"input": ELEVEN})
        assert reply.status == 429
        error = reply.json["error"]
        assert (error["type"], error["code"]) == ("rate_limit_error", "rate_limit_exceeded")
        delay_ms = int(reply.headers["retry-after-ms"])
        assert 0 < delay_ms <= 60_000
        assert int(reply.headers["retry-after"]) == max(1, -(-delay_ms // 1000))
        assert reply.headers["x-should-retry"] == "true"
        service.engine.gate.set()
        assert [each.reply().status for each in asking] == [200] * 3


def test_a_bulk_request_waits_for_room() -> None:
    with http_service(**NARROW) as service:
        asking = fill(service)
        waiting = Asking(lambda: bulk(service))
        until(lambda: len(service.server.door.in_flight) == 4, "it has not come")
        service.engine.gate.set()
        assert [each.reply().status for each in (*asking, waiting)] == [200] * 4
        assert service.model.metrics.rejected["queue_tokens"]._value.get() == 0


def test_the_deadline_ends_a_request(service: HttpService) -> None:
    service.engine.gate.clear()
    reply = service.ask(PATH, {"input": "a"}, headers={"x-request-timeout": "0.1"})
    assert (reply.status, reply.json["error"]["code"]) == (504, "timeout")
    assert reply.headers["x-should-retry"] == "false"


def test_an_unusable_deadline_or_priority_is_refused(service: HttpService) -> None:
    for seconds in ("", "0", "-1", "nan", "inf", "1e9", "soon"):
        reply = service.ask(PATH, {"input": "a"}, headers={"x-request-timeout": seconds})
        assert (reply.status, reply.json["error"]["param"]) == (400, "x-request-timeout")
    reply = service.ask(PATH, {"input": "a"}, headers={"x-headlight-priority": "high"})
    assert (reply.status, reply.json["error"]["param"]) == (400, "x-headlight-priority")
    assert "interactive or bulk" in reply.json["message"]


def test_a_client_that_leaves_has_its_queued_work_cancelled(service: HttpService) -> None:
    asking = busy(service)
    before = len(service.engine.batches)
    with service.raw(post({"input": "a"})):
        until(lambda: service.held[1] == 23, "it is not queued")
    until(lambda: service.held[1] == 22, "it is still queued")
    service.engine.gate.set()
    assert [each.reply().status for each in asking] == [200] * 2
    assert len(service.engine.batches) == before
    until(
        lambda: service.counted("openai", PATH, "499") == 1,
        "it is not counted",
    )


def test_a_pipelining_client_that_leaves_is_noticed(service: HttpService) -> None:
    asking = busy(service)
    with service.raw(post({"input": "a"}) + post({"input": "b"})):
        until(lambda: service.held[1] == 23, "it is not queued")
    until(lambda: service.held[1] == 22, "it is still queued")
    service.engine.gate.set()
    assert [each.reply().status for each in asking] == [200] * 2


def large(service: HttpService) -> socket.socket:
    """Return a connection that reads nothing of an answer which no buffer holds."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.settimeout(60)
    client.connect(("127.0.0.1", service.port))
    client.sendall(post({"input": ["a"] * 512}))
    return client


def many_entries() -> FakeRuntime:
    """Return a runtime whose answers to `large` have some 20 MB as JSON."""
    runtime = FakeRuntime()
    run = runtime.engine.run

    def run_and_widen(*args: Any, **options: Any) -> Any:
        return [
            ItemResult(pooled=np.resize(each["pooled"], 4096)) for each in run(*args, **options)
        ]

    runtime.engine.run = run_and_widen  # type: ignore[method-assign]
    return runtime


def test_a_reader_that_does_not_read_is_cut_and_gives_back_its_permits() -> None:
    with http_service(many_entries(), stall_seconds=0.5) as service:
        with large(service) as client:
            until(lambda: service.held[2] > 0, "nothing is held")
            until(lambda: service.held == (0, 0, 0), "its answer is still held")
            until(
                lambda: service.metric("headlight_rejected_total", reason="stalled_reader") == 1,
                "it is not counted",
            )
            assert len(read_all(client)) < 8_000_000
        assert service.ask(PATH, {"input": "a"}).status == 200


def test_a_reader_of_no_answer_at_all_is_cut() -> None:
    """Each answer is small, and the first ones fill the buffers of the connection."""
    asked = b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * 60
    with http_service(stall_seconds=0.2) as service, service.raw(asked):
        until(
            lambda: service.counted("json", "/openapi.json", "499") == 1,
            "it is not cut",
        )
        until(lambda: not service.server.door.connections.count, "it is still connected")


def test_permits_are_held_until_the_answer_is_read() -> None:
    with http_service(many_entries(), stall_seconds=30) as service, large(service) as client:
        until(lambda: bool(service.held[2]) and not service.held[1], "it is not computed")
        assert service.held[2] > 8192
        reply = read_reply(client)
        assert len(reply.json["data"]) == 512
        until(lambda: service.held == (0, 0, 0), "something is still held")


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (PATH, {"input": "a"}),
        ("/embed", {"inputs": "a"}),
        ("/embed_all", {"inputs": "a"}),
        ("/vectors", {"text": "a"}),
        ("/v1/encode", {"inputs": [{"text": "a"}], "outputs": {"pooled": {}}}),
    ],
)
def test_a_large_answer_is_encoded_while_others_are_answered(
    path: str, body: Any, monkeypatch: pytest.MonkeyPatch, service: HttpService
) -> None:
    begun, go = threading.Event(), threading.Event()
    text = json_answer_forms.number_text

    def slow(array: Any) -> bytes:
        begun.set()
        assert go.wait(60)
        return text(array)

    monkeypatch.setattr(exchange, "INLINE_ANSWER_BYTES", 0)
    for module in (json_answers, json_answer_forms):
        monkeypatch.setattr(module, "number_text", slow)
    asking = Asking(lambda: service.ask(path, body))
    assert begun.wait(60)
    assert service.ask("/health").status == 200
    go.set()
    assert asking.reply().status == 200


def test_bodies_that_arrive_count_as_bytes_of_requests() -> None:
    with http_service(max_queue_bytes=1 << 20, max_request_bytes=1 << 20) as service:
        body = json.dumps({"input": "a", "user": "u" * 600_000}).encode()
        data = post(body)
        with service.raw(data[:500_000]) as client:
            head = len(data) - len(body)
            until(lambda: service.held[0] == 500_000 - head, "its bytes are not counted")
            second = service.ask(PATH, body)
            assert (second.status, "retry-after" in second.headers) == (429, True)
            client.sendall(data[500_000:])
            assert read_reply(client).status == 200
