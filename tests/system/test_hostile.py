"""Hostile traffic over HTTP, on real processes: it takes little memory, and nobody is kept out."""

from __future__ import annotations

import contextlib
import http.client
import json
import ssl
import statistics
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from headlight import Client, Unavailable
from tests.certificates import Authority
from tests.chaos.traffic import hostile
from tests.chaos.traffic.hostile import Costs, embed, post
from tests.system.conftest import bundle_of
from tests.system.processes import Service, get

MIB = 1 << 20
ROPE = bundle_of("docs-rope")
AT_ONCE = 2.0  # seconds, on a busy machine


def p99(seconds: list[float]) -> float:
    return sorted(seconds)[int(0.99 * len(seconds))]


def test_a_flood_of_pipelined_requests_is_cut(rope: Service) -> None:
    with Costs(rope) as costs:
        for _ in range(8):
            assert hostile.pipelined_flood(rope) < 32 * MIB
    assert costs.memory < 48 * MIB
    assert costs.refused == []
    assert max(costs.seconds) < AT_ONCE


def test_as_many_pipelined_requests_as_may_wait_are_answered(rope: Service) -> None:
    with hostile.connected(rope) as client:
        ask = b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\n"
        client.sendall((ask + b"\r\n") * 60 + ask + b"Connection: close\r\n\r\n")
        assert hostile.receive_all(client).count(b"HTTP/1.1 200 ") == 61


def test_lists_of_lists_are_refused_before_they_are_objects(rope: Service) -> None:
    statuses = list[int]()
    with Costs(rope) as costs:
        callers = [
            threading.Thread(target=lambda: statuses.extend(hostile.nested_lists(rope)))
            for _ in range(12)
        ]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join(120)
    assert set(statuses) <= {400, 422, 429}
    assert len(statuses) == 8 * 12
    assert costs.memory < 256 * MIB  # of bodies, which may have --max-queue-bytes
    assert costs.refused == []
    assert p99(costs.seconds) < AT_ONCE


def test_the_largest_useful_requests_are_taken() -> None:
    options = ("--max-items", "2048", "--max-request-tokens", "32768")
    with Service(ROPE, *options) as service:
        status, body = post(service, "/v1/embeddings", {"input": ["a, [b]"] * 2048})
        assert (status, len(json.loads(body)["data"])) == (200, 2048)
        passages = [{"text": 'a "b" {c}'}] * 1000
        request = {"query": {"text": "a"}, "passages": passages}
        status, body = post(service, "/v1/compare", request)
        assert (status, len(json.loads(body)["passages"])) == (200, 1000)
        most = [[100 + at % 50 for at in range(64)]] * 512  # 32,768 ids
        status, body = post(service, "/embed", {"inputs": most})
        assert (status, len(json.loads(body))) == (200, 512)


def seconds_of(act: Callable[[], int]) -> float:
    begun = time.monotonic()
    assert act() == 200
    return time.monotonic() - begun


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls") / "authority")


def tls_options(authority: Authority) -> tuple[str, ...]:
    pair = authority.sign("localhost")
    return ("--tls-cert", str(pair.cert), "--tls-key", str(pair.key))


def embed_tls(service: Service, authority: Authority) -> int:
    host, _, port = service.rest.partition(":")
    context = ssl.create_default_context(cafile=str(authority.cert))
    context.check_hostname = False
    client = http.client.HTTPSConnection(host, int(port), context=context, timeout=60)
    with contextlib.closing(client):
        client.request("POST", "/v1/embeddings", '{"input": "a"}')
        return client.getresponse().status


def test_silent_handshakes_are_counted(authority: Authority) -> None:
    descriptors = 400
    with Service(ROPE, *tls_options(authority), before=hostile.limited(descriptors)) as service:
        service.forget_peak()
        before = service.resident_bytes()
        for _ in range(4):
            assert hostile.silent_handshakes(service, 300) >= 200
            assert service.open_files() < descriptors / 2
            assert embed_tls(service, authority) == 200
        assert service.peak_bytes() - before < 100 * MIB
        with Client(service.target, timeout=30, tls_ca=authority.cert) as client:
            assert client.encode(["a"]).shape[0] == 1


def test_bodies_that_never_end_leave_room_for_others(rope: Service) -> None:
    """40 callers that declare 4 MiB each held all bytes of requests, also those of gRPC."""
    with Client(rope.target, timeout=30) as client:
        for shape in (hostile.trickled_bodies, hostile.large_bodies):
            with Costs(rope) as costs:
                attack = threading.Thread(target=shape, args=(rope, 40, 3.0))
                attack.start()
                time.sleep(1.0)  # the callers' pause, while their bodies arrive
                assert client.encode(["a" * 1000] * 8).shape[0] == 8
                assert post(rope, "/v1/embeddings", {"input": ["a b"] * 500})[0] == 200
                attack.join(60)
            assert costs.refused == []
            assert costs.memory < 128 * MIB
            assert max(costs.seconds) < AT_ONCE


def test_unfinished_connections_keep_nobody_out() -> None:
    with Service(ROPE, before=hostile.limited(256)) as service:  # 64 connections of HTTP
        for shape in (hostile.trickled_bodies, hostile.lingering):
            with Costs(service) as costs:
                shape(service, 300, 3.0)
            assert costs.refused == []
            assert len(costs.seconds) > 20
            assert costs.descriptors < 200
            assert max(costs.seconds) < AT_ONCE


def test_neighbours_of_many_occlusions_wait_for_one_batch(rope: Service) -> None:
    """Sixteen callers, each of whom occludes a text of the greatest length."""
    text = ("one road went on in the wood and the other did not " * 110)[:5600]
    alone, beside, largest = list[float](), list[float](), list[float]()
    for _ in range(3):
        largest.append(seconds_of(lambda: embed(rope, text)))
    for _ in range(200):
        alone.append(seconds_of(lambda: embed(rope)))
    texts = rope.counted("headlight_texts_total")
    with contextlib.ExitStack() as opened:
        for _ in range(16):
            client = opened.enter_context(hostile.connected(rope))
            client.sendall(hostile.request("/v1/occlude", {"input": {"text": text}}))
        while rope.counted("headlight_texts_total") < texts + 16 + 100:  # all have begun
            assert embed(rope) == 200
        for _ in range(300):
            beside.append(seconds_of(lambda: embed(rope)))
    batch = statistics.median(largest)
    print(f"p99 {p99(alone):.4f} s alone, {p99(beside):.4f} s beside; a batch {batch:.4f} s")
    assert p99(beside) <= p99(alone) + batch


def test_trailers_are_not_headers(rope: Service) -> None:
    assert hostile.trailers(rope).startswith(b"HTTP/1.1 200 ")
    for line in ("X-Request-Timeout: nonsense", "Host: evil.example", "Content-Encoding: gzip"):
        assert hostile.trailers(rope, line).startswith(b"HTTP/1.1 200 "), line


def test_a_token_in_a_trailer_does_not_count(tmp_path: Path) -> None:
    (tmp_path / "tokens").write_text("search abcdefghijklmnopqrst\n", encoding="ascii")
    line = "Authorization: Bearer abcdefghijklmnopqrst"
    with Service(ROPE, "--auth-tokens", str(tmp_path / "tokens")) as service:
        assert hostile.trailers(service, line).startswith(b"HTTP/1.1 401 ")
        assert hostile.trailers(service, head=f"{line}\r\n").startswith(b"HTTP/1.1 200 ")
        twice = f"{line}\r\nAuthorization: Bearer other\r\n"
        assert hostile.trailers(service, head=twice).startswith(b"HTTP/1.1 400 ")
        with grpc.insecure_channel(service.target) as channel:
            making: Any = channel.unary_unary  # typed as if serializers were needed
            call = making("/headlight.v1.HeadlightService/GetModel")
            good = ("authorization", "Bearer abcdefghijklmnopqrst")
            call(b"", metadata=(good,), timeout=30)
            with pytest.raises(grpc.RpcError) as refused:
                call(b"", metadata=(good, ("authorization", "Bearer other")), timeout=30)
            assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED


def test_the_operational_port_of_a_loopback_checks_host(rope: Service) -> None:
    host, _, port = rope.http.partition(":")
    for name, status in (("evil.example", 421), ("localhost", 200), (rope.http, 200)):
        client = http.client.HTTPConnection(host, int(port), timeout=60)
        with contextlib.closing(client):
            client.request("GET", "/metrics", headers={"Host": name})
            assert client.getresponse().status == status


def test_large_answers_need_no_new_thread() -> None:
    """With a `pids` limit that is reached, each was a 500."""
    body = {"inputs": ["a b c d e f g h"] * 200}
    with Service(ROPE, before=hostile.own_user()) as service:
        assert post(service, "/v1/embeddings", {"input": ["a"] * 100})[0] == 200
        hostile.allow_no_thread(service)
        status, answer = post(service, "/embed_all", body)
        assert (status, len(json.loads(answer))) == (200, 200)


def answers(client: Client) -> bool:
    try:
        return len(client.encode(["a"])) == 1
    except Unavailable:
        return False


def test_silent_grpc_connections_leave_descriptors() -> None:
    with Service(ROPE, before=hostile.limited(1024)) as service:
        with hostile.connections(service.target, 1100):
            time.sleep(1.0)  # the clients' silence
            assert service.open_files() < 700
            assert embed(service) == 200
            assert "process_open_fds" in get(service.http, "/metrics")
            begun = time.monotonic()
            with Client(service.target, timeout=60) as client:
                while not answers(client):
                    assert time.monotonic() - begun < 20  # the silent ones are gone after 5 s
        with grpc.insecure_channel(service.target) as channel:
            health = health_pb2_grpc.HealthStub(channel)
            checked = health.Check(health_pb2.HealthCheckRequest(), timeout=30)
            assert checked.status == health_pb2.HealthCheckResponse.SERVING


def test_a_body_that_never_ends_does_not_delay_the_end() -> None:
    head = (hostile.HEAD.format("/v1/embeddings") + "Content-Length: 100\r\n\r\n{").encode()
    with Service(ROPE, "--grace-seconds", "30") as service, hostile.connected(service) as client:
        client.sendall(head)
        assert embed(service) == 200  # accepted later, so the first is read by now
        begun = time.monotonic()
        service.terminate()
        assert hostile.receive_all(client).startswith(b"HTTP/1.1 503 ")
        assert service.wait() == 0
        assert time.monotonic() - begun < 15
    assert [entry["event"] for entry in service.log[-2:]] == ["draining", "stopped"]
