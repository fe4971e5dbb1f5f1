"""Hostile and broken clients: each gets its documented status, and its neighbours an answer."""

from __future__ import annotations

import contextlib
import json
import re
import select
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headlight_service.config.option_types import Address
from headlight_service.core.admission.rate_limit import Quotas
from headlight_service.frontends.http import exchange, json_limits
from headlight_service.frontends.http.json_limits import JsonSize
from headlight_service.security.auth_tokens import AuthTokens
from headlight_service.security.authentication import Authenticator
from tests.service.batching import Clock
from tests.service.core.pipelines import until
from tests.service.frontends.http.http_service import (
    HttpService,
    http_service,
    open_connections,
    post,
    read_all,
    read_reply,
)

HEAD = b"POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\n"


@pytest.fixture(scope="module")
def plain() -> Iterator[HttpService]:
    """Return a service without options, for all tests that leave it as it was."""
    with http_service() as service:
        yield service


def answers_others(service: HttpService) -> None:
    assert service.ask("/v1/embeddings", {"input": "a"}).status == 200


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b'{"input": "a"',
        b'{"input": NaN}',
        b'{"input": "\xff\xfe"}',
        b'{"input": "\\ud800"}',
        b"\xef\xbb\xbf\x00",
        b"[" * 100_000,
        b'{"input":' + b"[" * 2000 + b"]" * 2000 + b"}",
        b'{"input": "a"} {"input": "b"}',
    ],
    ids=lambda body: repr(body[:20]),
)
def test_a_body_that_is_no_json_is_refused(plain: HttpService, body: bytes) -> None:
    reply = plain.ask("/v1/embeddings", body)
    assert reply.status == 400
    assert re.search("not valid (JSON|UTF-8)|lone surrogate", reply.json["message"])
    answers_others(plain)


def test_an_error_quotes_nothing_of_the_body(plain: HttpService) -> None:
    for body in (b'{"input": secret}', b'{"input": "a", "encoding_format": "secret"}'):
        assert b"secret" not in plain.ask("/v1/embeddings", body).body


@pytest.mark.parametrize(
    ("header", "value", "status"),
    [
        ("content-type", "application/json", 200),
        ("content-type", "application/json; charset=utf-8", 200),
        ("content-type", "application/vnd.api+json", 200),
        ("content-type", "", 200),
        ("content-type", "text/plain", 415),
        ("content-type", "application/jsonp", 415),
        ("content-type", "multipart/form-data", 415),
        ("content-encoding", "identity", 200),
        ("content-encoding", "gzip", 415),
        ("content-encoding", "br, identity", 415),
    ],
)
def test_only_plain_json_is_taken(plain: HttpService, header: str, value: str, status: int) -> None:
    reply = plain.ask("/v1/embeddings", {"input": "a"}, headers={header: value})
    assert reply.status == status
    if status == 415:
        assert reply.json["error"]["param"] == header


@pytest.mark.parametrize("chunked", [False, True])
def test_a_large_body_is_refused_before_it_is_read(chunked: bool) -> None:
    with http_service(max_request_bytes=4096) as service:
        head = HEAD + (
            b"Transfer-Encoding: chunked\r\n\r\n"
            if chunked
            else b"Content-Length: 100000000\r\n\r\n"
        )
        with service.raw(head) as client:
            if chunked:
                client.sendall(b"2000\r\n" + b"x" * 8192 + b"\r\n")
            reply = read_reply(client)
        assert reply.status == 413
        assert "4096" in reply.json["message"]
        assert "--max-request-bytes" in reply.json["message"]
        assert reply.headers["connection"] == "close"
        answers_others(service)


def test_a_client_that_sends_100_mb_gets_its_refusal() -> None:
    """It is read for a moment: a reset could lose the response that explains it."""
    with http_service(max_request_bytes=4096) as service:
        with service.raw(HEAD + b"Content-Length: 100000000\r\n\r\n") as client:
            with contextlib.suppress(ConnectionError):
                for _ in range(100):
                    client.sendall(b"x" * 1_000_000)
            answer = read_all(client)
        assert answer == b"" or answer.startswith(b"HTTP/1.1 413 ")
        assert service.counted("openai", "/v1/embeddings", "413")
        answers_others(service)


def test_a_public_route_reads_no_body(tmp_path: Path) -> None:
    """It needs no token, so bodies sent to it must not take the bytes of others' requests."""
    (tmp_path / "tokens").write_text(f"search {'a' * 20}\n", encoding="utf-8")
    tokens = Authenticator(AuthTokens(tmp_path / "tokens", lambda: None))
    head = b"GET /health HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n"
    with (
        http_service(authenticator=tokens, stall_seconds=0.2) as service,
        service.raw(head + b" " * 70_000) as client,
    ):
        reply = read_reply(client, "GET")
        assert (reply.status, reply.headers["connection"]) == (200, "close")
        assert service.held == (0, 0, 0)


def test_a_request_without_a_body_may_name_any_type_of_it(plain: HttpService) -> None:
    for path in ("/health", "/v1/models"):
        assert plain.ask(path, headers={"content-type": "text/plain"}).status == 200


def test_a_body_of_the_limit_is_taken() -> None:
    with http_service(max_request_bytes=4096) as service:
        body = json.dumps({"input": "a", "user": ""}).encode()
        body = body.replace(b'""', b'"' + b"u" * (4096 - len(body)) + b'"')
        assert len(body) == 4096
        assert service.ask("/v1/embeddings", body).status == 200


@pytest.mark.parametrize(
    "data",
    [
        # Smuggling: two lengths.
        HEAD + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n",
        HEAD + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
        HEAD + b"Content-Length: +3\r\n\r\nabc",
        HEAD + b"Content-Length: -1\r\n\r\n",
        HEAD + b"Content-Length: 99999999999999999999\r\n\r\n",
        HEAD + b"Transfer-Encoding: gzip\r\n\r\n",
        HEAD + b"Transfer-Encoding: chunked, identity\r\n\r\n",
        HEAD + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
        HEAD + b"Content-Length : 3\r\n\r\nabc",
        HEAD + b"X: a\r\n b\r\n\r\n",
        HEAD + b"Bad\x00Name: a\r\n\r\n",
        HEAD + b"Host: evil\r\n\r\n",
        b"GET /health HTTP/1.1\r\n\r\n",  # no Host
        b"GET /health HTTP/1.1\r\nHost: [::1]evil\r\n\r\n",
        b"GET /health HTTP/2.0\r\nHost: localhost\r\n\r\n",
        b"GET /health HTTP/9.9\r\nHost: localhost\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(64),  # TLS
        b"hello\r\n\r\n",
        b"GET\r\n\r\n",
        b"CONNECT localhost:1 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET http://[/ HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ],
    ids=lambda data: repr(data[-40:]),
)
def test_bytes_that_are_no_request_are_refused(plain: HttpService, data: bytes) -> None:
    computed = len(plain.engine.batches)
    with plain.raw(data) as client:
        client.shutdown(socket.SHUT_WR)
        answer = read_all(client)
    assert answer.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 405 ", b"HTTP/1.1 404 ")), answer
    assert answer.count(b"HTTP/1.1 4") == 1
    assert len(plain.engine.batches) == computed
    answers_others(plain)


@pytest.mark.parametrize(
    "head",
    [
        b"".join(b"X-%d: a\r\n" % number for number in range(200)),
        b"X: " + b"a" * 20_000 + b"\r\n",
        b"X: " + b"a" * 60_000,
    ],
    ids=["headers", "value", "unfinished"],
)
def test_large_heads_are_refused(head: bytes) -> None:
    with http_service(stall_seconds=600) as service:
        with service.raw() as client:
            with contextlib.suppress(ConnectionError):
                client.sendall(HEAD + head + b"\r\n")
            answer = read_all(client)
        assert answer == b"" or answer.startswith(b"HTTP/1.1 431 ")
        assert service.counted("http", "other", "431")
        answers_others(service)


def test_silent_connections_and_half_heads_are_closed() -> None:
    with http_service(stall_seconds=0.2) as service:
        assert service.talk(b"") == b""
        assert service.talk(HEAD).startswith(b"HTTP/1.1 408 ")
        assert service.talk(b"\r\n\r\n") == b""


def test_a_slow_head_gets_no_more_time_for_each_byte() -> None:
    with http_service(stall_seconds=0.5) as service:
        with service.raw() as client:
            client.settimeout(0.05)
            answer = b""
            for byte in HEAD * 10:
                try:
                    client.sendall(bytes([byte]))
                    answer += client.recv(1000)
                except TimeoutError:
                    continue
                except ConnectionError:
                    break
                if answer:
                    break
        assert answer.startswith(b"HTTP/1.1 408 ")


def test_a_half_body_is_refused_and_its_connection_closed() -> None:
    with http_service(stall_seconds=0.2) as service:
        answer = service.talk(HEAD + b"Content-Length: 100\r\n\r\n{")
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert b"--stall-seconds" in answer
        assert b"connection: close" in answer


def test_a_client_that_leaves_in_its_body_is_counted(service: HttpService) -> None:
    with service.raw(HEAD + b"Content-Length: 100\r\n\r\n{"):
        pass
    until(
        lambda: service.counted("openai", "/v1/embeddings", "499") == 1,
        "the client is not counted",
    )


def test_http_1_0_is_answered_and_closed(plain: HttpService) -> None:
    body = b'{"input": "a"}'
    head = b"POST /v1/embeddings HTTP/1.0\r\nContent-Length: %d\r\n\r\n" % len(body)
    answer = plain.talk(head + body)
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert b"connection: close" in answer
    assert b"transfer-encoding" not in answer


def test_pipelined_requests_are_answered_in_their_order(plain: HttpService) -> None:
    words = ["a", "bb", "ccc"]
    with plain.raw(b"".join(post({"input": word}) for word in words)) as client:
        stream = client.makefile("rb")
        firsts = []
        for _ in words:
            assert stream.readline().startswith(b"HTTP/1.1 200 ")
            size = 0
            while (line := stream.readline().strip()) != b"":
                name, _, value = line.partition(b": ")
                size = int(value) if name == b"content-length" else size
            firsts.append(json.loads(stream.read(size))["data"][0]["embedding"][0])
    assert firsts == [1000, 2000, 3000]


def test_a_bad_request_behind_a_good_one_does_not_break_its_answer(service: HttpService) -> None:
    service.engine.gate.clear()
    with service.raw(post({"input": "a"})) as client:
        service.started()
        client.sendall(b"nonsense\r\n\r\n")
        service.engine.gate.set()
        answer = read_all(client)
    assert answer == b"" or json.loads(answer.partition(b"\r\n\r\n")[2])["object"] == "list"
    answers_others(service)


def test_upgrades_are_not_taken() -> None:
    """Java's client offers h2c with each request, and expects an answer of HTTP/1.1."""
    with (
        http_service() as service,
        service.raw(
            post({"input": "a"}, Upgrade="h2c", Connection="Upgrade, HTTP2-Settings")
        ) as client,
    ):
        assert read_reply(client).status == 200


def test_an_offer_of_an_upgrade_may_be_cut_anywhere(service: HttpService) -> None:
    data = post({"input": "a"}, Connection="Upgrade", Upgrade="h2c", X_Upgrade="b", U="c")
    begin, end = data.index(b"Upgrade\r\n"), data.index(b"\r\n\r\n")
    for cut in range(begin, end + 5):
        with service.raw(data[:cut]) as client:
            until(
                lambda: (
                    any(each._in_head for each in open_connections(service))
                    or bool(service.server.door.in_flight)
                ),
                "the first piece has not come",
            )
            client.sendall(data[cut:])
            assert read_reply(client).status == 200, data[:cut]
        until(lambda: not service.server.door.connections.count, "it is still connected")


def test_a_pipelined_request_may_offer_an_upgrade(service: HttpService) -> None:
    offer = post({"input": "a"}, Connection="Upgrade, HTTP2-Settings", Upgrade="h2c")
    last = post({"input": "a"}, Connection="close")
    answer = service.talk(post({"input": "a"}) + 2 * offer + last)
    assert answer.count(b"HTTP/1.1 200 ") == 4


def test_expect_continue_is_answered_before_the_body() -> None:
    with http_service(max_request_bytes=4096) as service:
        body = b'{"input": "a"}'
        with service.raw(
            HEAD + b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(body)
        ) as client:
            assert client.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
            client.sendall(body)
            assert read_reply(client).status == 200
        with service.raw(HEAD + b"Expect: 100-continue\r\nContent-Length: 5000\r\n\r\n") as client:
            assert client.recv(12) == b"HTTP/1.1 413"


def test_connections_that_come_at_once_replace_one_each() -> None:
    with http_service(stall_seconds=600) as service, contextlib.ExitStack() as opened:
        connections = service.server.door.connections
        connections.most = 3
        first, come = opened.enter_context(service.raw()), threading.Event()
        until(lambda: len(open_connections(service)) == 1, "not connected")
        open_connections(service)[0].loop.call_soon_threadsafe(come.wait, 60)
        others = [opened.enter_context(service.raw()) for _ in range(20)]
        come.set()
        assert [read_all(each) for each in (first, *others[:-3])] == [b""] * 18
        assert connections.count == 3


def test_the_oldest_idle_connection_makes_room(service: HttpService) -> None:
    service.server.door.connections.most = 2
    with service.raw() as first, service.raw(b"GET /health HTTP/1.1\r\n") as second:
        until(lambda: service.server.door.connections.count == 2, "not connected")
        answers_others(service)
        assert read_all(first) == b""
        second.sendall(b"Host: localhost\r\n\r\n")
        assert second.recv(12) == b"HTTP/1.1 200"


def unread(service: HttpService, data: bytes) -> socket.socket:
    """Return a connection that has sent these bytes, and reads nothing."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.settimeout(60)
    client.connect(("127.0.0.1", service.port))
    with contextlib.suppress(ConnectionError):
        client.sendall(data)
    return client


@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_a_closing_connection_that_is_not_read_is_cut(version: str) -> None:
    """Pages in its buffer, a close behind them, and requests that are not answered any more."""
    page = b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n"
    last = b"GET /health HTTP/%b\r\nHost: localhost\r\nConnection: %b\r\n\r\n" % (
        version.encode(),
        b"keep-alive" if version == "1.0" else b"close",
    )
    with http_service(stall_seconds=0.5) as service:
        with contextlib.ExitStack() as opened:
            for pages in (1, 2, 5, 30):
                opened.enter_context(unread(service, page * pages + last + page * 20))
            until(lambda: not service.server.door.connections.count, "one is not cut")
        answers_others(service)


def test_a_flood_behind_a_slow_request_is_cut() -> None:
    flood = b"GET /x HTTP/1.1\r\nHost: localhost\r\n\r\n" * 100
    with http_service(stall_seconds=600) as service:
        service.engine.gate.clear()
        with service.raw(post({"input": "a"})) as client:
            service.started()
            with contextlib.suppress(ConnectionError):
                client.sendall(flood)
            assert read_all(client) == b""
        assert service.counted("http", "other", "429")


def test_a_bad_head_behind_a_slow_request_does_not_end_it() -> None:
    large = b"GET /x HTTP/1.1\r\nHost: localhost\r\nA: " + b"a" * 40_000
    for head, answers in ((b"GET /x HTTP/1.1\r\nbad\r\n\r\n", 1), (large, 2)):
        with http_service(stall_seconds=0.2) as service:
            service.engine.gate.clear()
            with service.raw(post({"input": "a"})) as client:
                service.started()
                client.sendall(head)
                assert service.talk(HEAD).startswith(b"HTTP/1.1 408 ")  # so 0.2 s are over
                service.engine.gate.set()
                answer = read_all(client)
            assert answer.startswith(b"HTTP/1.1 200 ")
            assert answer.count(b"HTTP/1.1 ") == answers


def test_a_body_whose_client_has_left_is_not_parsed(
    monkeypatch: pytest.MonkeyPatch, service: HttpService
) -> None:
    """Until its parsing is cancelled, its bytes stay counted."""
    go, begun, parsed = threading.Event(), threading.Semaphore(0), list[int]()
    parse = json_limits.parse

    def slow(body: bytes, limits: JsonSize) -> Any:
        parsed.append(len(body))
        begun.release()
        assert go.wait(60)
        return parse(body, limits)

    monkeypatch.setattr(exchange, "parse", slow)
    data = post({"input": "a " * 20_000})
    with contextlib.ExitStack() as opened:
        for _ in range(2):  # the threads
            opened.enter_context(service.raw(data))
            assert begun.acquire(timeout=60)
        size = service.held[0]
        with service.raw(data):
            until(lambda: service.held[0] > size, "it has not come")
            until(lambda: len(service.server.door.in_flight) == 3, "it is not in flight")
        until(lambda: len(service.server.door.in_flight) == 2, "it still waits")
        assert service.held[0] == size
        go.set()
    until(lambda: not service.server.door.in_flight, "a request is in flight")
    assert len(parsed) == 2


def test_a_deadline_holds_while_other_bodies_are_parsed(
    monkeypatch: pytest.MonkeyPatch, service: HttpService
) -> None:
    go = threading.Event()

    def slow(body: bytes, limits: JsonSize) -> Any:
        assert go.wait(60)
        return json.loads(body)

    monkeypatch.setattr(exchange, "parse", slow)
    late = {"x-request-timeout": "0.1"}
    assert service.ask("/v1/embeddings", {"input": "a " * 20_000}, headers=late).status == 504
    go.set()


def test_parsing_is_charged_once() -> None:
    quotas = Quotas(1.0, 1000.0, Clock())
    body = {"inputs": "a", "user": "u" * 40_000}
    with http_service(quotas=quotas) as service:
        levels = []
        for path in ("/embed", "/", "/invocations"):
            before = quotas.of("127.0.0.1").level
            assert service.ask(path, body).status == 200
            levels.append(before - quotas.of("127.0.0.1").level)
    assert levels[0] == levels[1] == levels[2] > 40_000 / exchange.PARSED_PER_COMPUTED


ORIGINS: list[tuple[dict[str, str], int]] = [
    ({}, 200),
    ({"Origin": "http://localhost:{port}", "Sec-Fetch-Site": "same-origin"}, 200),
    ({"Sec-Fetch-Site": "none"}, 200),
    ({"Origin": "https://proxied.example"}, 200),  # by --api-host
    ({"Origin": "https://evil.example"}, 403),
    ({"Origin": "null"}, 403),
    ({"Origin": "http://localhost:1"}, 403),
    ({"Sec-Fetch-Site": "cross-site"}, 403),
    ({"Sec-Fetch-Site": "same-site"}, 403),
]


def test_other_websites_cannot_use_a_loopback_listener() -> None:
    body = {"input": "a"}
    with (
        http_service(api_host="proxied.example") as service,
        http_service(api=Address("0.0.0.0", 0)) as public,
    ):
        for headers, status in ORIGINS:
            sent = {name: value.format(port=service.port) for name, value in headers.items()}
            sent["Host"] = f"localhost:{service.port}"
            assert service.ask("/v1/embeddings", body, headers=sent).status == status, headers
            assert service.ask("/health", headers=sent).status == 200  # the same for everybody
            assert public.ask("/v1/embeddings", body, headers=headers).status == 200


def test_bodies_of_one_client_have_their_share() -> None:
    """A few that never end leave room for small ones of the same address."""
    with (
        http_service(max_queue_bytes=1 << 20, max_request_bytes=1 << 18) as service,
        contextlib.ExitStack() as opened,
    ):
        large = HEAD + b"Content-Length: 262144\r\n\r\n" + b" " * 200_000
        clients = [opened.enter_context(service.raw(large)) for _ in range(8)]
        until(lambda: service.held[0] >= 200_000, "no body has come")
        refused = [each for each in clients if select.select([each], [], [], 1.0)[0]]
        assert all(each.recv(12) == b"HTTP/1.1 429" for each in refused)
        assert 1 <= len(clients) - len(refused) <= 2
        assert service.held[0] <= 1 << 19
        answers_others(service)


def test_small_bodies_of_one_client_leave_a_quarter_for_others() -> None:
    with (
        http_service(max_queue_bytes=1 << 20, max_request_bytes=1 << 18) as service,
        contextlib.ExitStack() as opened,
    ):
        small = HEAD + b"Content-Length: 65536\r\n\r\n" + b" " * 60_000
        clients = [opened.enter_context(service.raw(small)) for _ in range(8)]
        refused = select.select(clients, [], [], 10.0)[0]
        assert refused, "all of them fit into the bytes of arriving bodies"
        assert refused[0].recv(12) == b"HTTP/1.1 429"
        assert service.held[0] <= 3 << 17
