"""Access to the HTTP frontend: Host names, tokens, quotas, TLS, unknown paths, health, drain."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import ssl
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from headlight.tls.pem import server_context
from headlight_service.app.listen_addresses import PortTaken
from headlight_service.app.server_setup import build_api, start_api
from headlight_service.config.option_groups import API
from headlight_service.config.option_types import Address
from headlight_service.config.options import Config
from headlight_service.core.admission.rate_limit import Quotas
from headlight_service.core.models import Models
from headlight_service.core.pipeline import Pipeline
from headlight_service.core.tokenizer_threads import TokenizerThreads
from headlight_service.frontends.http import http_server
from headlight_service.frontends.http.http_server import HttpServer
from headlight_service.security.auth_tokens import AuthTokens
from headlight_service.security.authentication import Authenticator
from headlight_service.security.certificates import Certificates
from headlight_service.telemetry.metrics import Metrics
from tests.certificates import Authority
from tests.ports import free_port
from tests.service.batching import Clock
from tests.service.core.pipelines import until
from tests.service.frontends.http.http_service import (
    HttpService,
    Reply,
    http_service,
    open_connections,
    read_all,
    read_reply,
)
from tests.service.frontends.http.test_backpressure import Asking
from tests.service.tracing import RecordedSpans, context_of

PATH = "/v1/embeddings"
TOKEN = "a" * 20
COUNT = "headlight_requests_total"


@pytest.fixture
def authenticator(tmp_path: Path) -> Authenticator:
    path = tmp_path / "tokens"
    path.write_text(f"search {TOKEN}\n")
    return Authenticator(AuthTokens(path, lambda: None))


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


LOCAL = ["localhost", "LOCALHOST:8000", "a.localhost", "127.0.0.1:8000", "127.1.2.3", "[::1]:8000"]
FOREIGN = ["evil.example", "evil.example:8000", "127.0.0.1.evil.example", "localhost.evil.example"]


def test_a_loopback_listener_refuses_foreign_hosts() -> None:
    with http_service(api_host="encoder.internal") as service:
        for host in (*LOCAL, "encoder.internal:8000"):
            assert service.ask("/health", headers={"host": host}).status == 200, host
        for host in (*FOREIGN, "10.0.0.1", "[::2]", ""):
            reply = service.ask("/health", headers={"host": host})
            assert reply.status == 421, host
            assert "--api-host" in reply.json["message"]


def test_any_host_may_be_asked_for_where_other_machines_listen() -> None:
    with http_service(api=Address("0.0.0.0", 0)) as service:
        assert service.ask("/health", headers={"host": "encoder.example"}).status == 200


def test_a_token_is_needed_except_for_health_and_the_page(authenticator: Authenticator) -> None:
    with http_service(authenticator=authenticator) as service:
        for path in ("/", "/health", "/ping"):
            assert service.ask(path).status == 200
        for path in ("/v1/models", "/metrics", "/none"):
            reply = service.ask(path)
            assert reply.status == 401
            assert reply.json["error"]["code"] == "invalid_api_key"
            assert reply.headers["www-authenticate"] == "Bearer"
            assert reply.headers["x-should-retry"] == "false"
        assert "error" in service.ask("/meta").json  # in Weaviate's form
        assert service.ask("/v1/models", headers=bearer("b" * 20)).status == 401
        assert service.ask("/v1/models", headers=bearer(TOKEN)).status == 200


def test_pages_of_allowed_origins_may_call(authenticator: Authenticator) -> None:
    """Also their refusals are readable, and a preflight brings no token."""
    allowed, other = "https://app.example", "https://evil.example"
    site = {"Sec-Fetch-Site": "cross-site"}
    asks = {
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization,content-type,x-stainless-os",
    }
    with http_service(authenticator=authenticator, cors_origins=(allowed,)) as service:

        def call(origin: str, method: str = "POST", **headers: str) -> Reply:
            body = {"input": "a"} if method == "POST" else None
            sent = {"Origin": origin, **site, **headers}
            return service.ask("/v1/embeddings", body, method=method, headers=sent)

        preflight = call(allowed, "OPTIONS", **asks)
        assert preflight.status == 204
        assert preflight.headers["access-control-allow-origin"] == allowed
        assert preflight.headers["access-control-allow-methods"] == "POST"
        assert preflight.headers["access-control-allow-headers"] == "authorization, *"
        assert preflight.headers["vary"] == "origin"
        answer = call(allowed, Authorization=f"Bearer {TOKEN}")
        assert (answer.status, answer.headers["access-control-allow-origin"]) == (200, allowed)
        assert "x-request-id" in answer.headers["access-control-expose-headers"]
        refused = call(allowed)
        assert (refused.status, refused.headers["access-control-allow-origin"]) == (401, allowed)
        for reply in (call(other, "OPTIONS", **asks), call(other), call("null")):
            assert reply.status == 403
            assert "access-control-allow-origin" not in reply.headers
            assert "--cors-origins" in reply.json["message"]
            assert "access-control-allow-credentials" not in reply.headers
    with http_service(cors_origins=("*",)) as service:
        assert call(other).headers["access-control-allow-origin"] == "*"
    with http_service(api=Address("0.0.0.0", 0)) as service:
        assert call(other).status == 200
        assert "access-control-allow-origin" not in call(other).headers
        assert call(other, "OPTIONS", **asks).status == 403


def test_without_tokens_any_key_is_accepted(service: HttpService) -> None:
    """OpenAI's clients refuse to start without one."""
    assert service.ask("/v1/models", headers=bearer("sk-any")).status == 200


def test_the_quota_is_that_of_the_token(authenticator: Authenticator) -> None:
    quotas = Quotas(1.0, 10.0, Clock())
    with http_service(authenticator=authenticator, quotas=quotas) as service:
        headers = bearer(TOKEN)
        assert service.ask(PATH, {"input": "a " * 10}, headers=headers).status == 200
        reply = service.ask(PATH, {"input": "a " * 10}, headers=headers)
        assert (reply.status, reply.json["error"]["code"]) == (429, "rate_limit_exceeded")
        assert float(reply.headers["retry-after-ms"]) > 0
        assert quotas.of("search").level < 1


def test_metrics_are_elsewhere() -> None:
    with http_service(metrics=Address("127.0.0.1", 9)) as service:
        reply = service.ask("/metrics")
        assert reply.status == 404
        assert "127.0.0.1:9" in reply.json["message"]
        assert "--metrics" in reply.json["message"]


def test_a_wrong_method_names_the_right_ones(service: HttpService) -> None:
    for method, path, allowed in (
        ("GET", PATH, "POST"),
        ("DELETE", PATH, "POST"),
        ("OPTIONS", PATH, "POST"),
        ("POST", "/v1/models", "GET, HEAD"),
        ("PUT", "/v1/models/fake", "GET, HEAD"),
    ):
        reply = service.ask(path, method=method)
        assert (reply.status, reply.headers["allow"]) == (405, allowed)
        assert not any(name.startswith("access-control") for name in reply.headers)


def test_head_is_answered_without_a_body(service: HttpService) -> None:
    reply = service.ask("/v1/models", method="HEAD")
    assert (reply.status, reply.body) == (200, b"")
    assert int(reply.headers["content-length"]) > 0


def test_slashes_are_collapsed_without_a_redirect(service: HttpService) -> None:
    for path in ("//v1/embeddings", "/v1//embeddings/", "/v1/embeddings//"):
        assert service.ask(path, {"input": "a"}).status == 200


def test_health_follows_the_service(service: HttpService) -> None:
    assert service.ask("/health").status == 200
    assert service.ask("/.well-known/ready").status == 204
    service.serving[0] = False
    for path in ("/", "/health", "/ping", "/.well-known/ready"):
        assert service.ask(path).status == 503
    assert service.ask("/.well-known/live").status == 204


def test_request_ids_are_echoed_or_made(service: HttpService) -> None:
    given = service.ask("/none", headers={"x-request-id": "abc-1"})
    assert given.headers["x-request-id"] == "abc-1"
    ids = {
        service.ask("/none", headers=headers).headers["x-request-id"]
        for headers in ({}, {"x-request-id": 'a"b'}, {"x-request-id": "a" * 500})
    }
    assert all(len(each) == 32 for each in ids)
    assert len(ids) == 3


def test_requests_are_counted_by_door_method_and_status(service: HttpService) -> None:
    service.ask(PATH, {"input": "a"})
    service.ask(PATH, {"input": 1})
    service.ask("/embed", {"inputs": "a"})
    service.ask("/invented/path/1")
    service.ask("/v1/models/a")
    service.ask("/v1/models/b")
    until(lambda: not service.server.door.in_flight, "a request is in flight")
    counted = {
        tuple(sample.labels.values()): sample.value
        for family in service.metrics.registry.collect()
        for sample in family.samples
        if sample.name == COUNT
    }
    assert counted == {
        ("openai", PATH, "200"): 1,
        ("openai", PATH, "400"): 1,
        ("tei", "/embed", "200"): 1,
        ("http", "other", "404"): 1,
        ("openai", "/v1/models/*", "404"): 2,
    }


UNDECODABLE: list[tuple[str, Any]] = [
    (PATH, {"input": 1}),
    ("/embed", {"inputs": True}),
    ("/embed", {"inputs": ""}),
    ("/embed_all", {"inputs": "a", "truncate": 1}),
    ("/similarity", {"inputs": {}}),
    ("/tokenize", {"inputs": 1}),
    ("/vectors", {"text": 1}),
    ("/v1/encode", {"inputs": []}),
]


def test_every_door_counts_what_it_cannot_decode(service: HttpService) -> None:
    rejected = service.model.metrics.rejected
    for count, (path, body) in enumerate(UNDECODABLE, 1):
        assert service.ask(path, body).status in (400, 422)
        counts = {reason: counter._value.get() for reason, counter in rejected.items()}
        expected = {"invalid_input": count}
        assert {reason: each for reason, each in counts.items() if each} == expected, path


def test_a_request_has_spans_in_its_callers_trace(recorded: RecordedSpans) -> None:
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    with http_service(tracing=recorded.tracing) as service:
        headers = {"traceparent": parent, "x-request-id": "abc"}
        assert service.ask(PATH, {"input": "a"}, headers=headers).status == 200
        assert service.ask(PATH, {"input": ""}).status == 400
        until(lambda: len(recorded.named(f"POST {PATH}")) == 2, "a span is missing")
        good, bad = recorded.named(f"POST {PATH}")
        assert recorded.stages(good) == ["tokenize", "queue", "infer", "reply"]
        assert f"{context_of(good).trace_id:x}" == parent.split("-")[1].lstrip("0")
        of_good, of_bad = dict(good.attributes or {}), dict(bad.attributes or {})
        assert (of_good["headlight.request_id"], of_good["http.route"]) == ("abc", PATH)
        assert of_good["http.response.status_code"] == 200
        assert (of_bad["http.response.status_code"], of_bad["error.type"]) == (400, "invalid_input")
        assert bad.status.is_unset  # the client's error


def test_a_bug_is_logged_and_only_its_id_is_sent(
    service: HttpService, caplog: pytest.LogCaptureFixture
) -> None:
    service.engine.broken = ValueError("secret")
    reply = service.ask(PATH, {"input": "a"}, headers={"x-request-id": "abc"})
    assert reply.status == 500
    assert b"secret" not in reply.body
    assert reply.json["error"]["type"] == "server_error"
    [record] = [each for each in caplog.records if "error_id" in vars(each)]
    assert vars(record)["request_id"] == "abc"
    assert vars(record)["error_id"] in reply.json["message"]


def test_a_drain_refuses_new_requests_and_finishes_the_others(service: HttpService) -> None:
    service.engine.gate.clear()
    asking = Asking(lambda: service.ask(PATH, {"input": "a"}))
    service.started()
    with service.raw(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n") as idle:
        assert read_reply(idle).status == 200
        service.server.drain()
        refused = service.ask(PATH, {"input": "b"})
        assert refused.status == 503
        assert refused.headers["connection"] == "close"
        assert refused.headers["retry-after"] == "1"
        left = list[int]()
        stop = threading.Thread(target=lambda: left.append(asyncio.run(service.server.stop(60))))
        stop.start()
        service.engine.gate.set()
        stop.join(60)
        assert left == [0]
        assert idle.recv(1) == b""
    assert (asking.reply().status, asking.reply().headers["connection"]) == (200, "close")


def test_requests_that_outlast_the_grace_time_are_counted_and_cut(service: HttpService) -> None:
    service.engine.gate.clear()
    with service.raw(request()) as client:
        service.started()
        assert asyncio.run(service.server.stop(0.05)) == 1
        assert read_reply(client).status == 503


def request() -> bytes:
    body = json.dumps({"input": "a"}).encode()
    return b"POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s" % (
        len(body),
        body,
    )


def test_certificates_are_renewed_and_name_the_client(tmp_path: Path) -> None:
    authority, other = Authority(tmp_path / "one"), Authority(tmp_path / "two")
    files = tmp_path / "tls.crt", tmp_path / "tls.key"
    ca = tmp_path / "ca.crt"
    ca.write_bytes(authority.cert.read_bytes())
    authority.sign("first").write_to(*files)
    certificates = Certificates(*files, None, ca, lambda: None)
    quotas = Quotas(1.0, 100.0, Clock())

    def client(trusted: Authority, own: Authority) -> ssl.SSLContext:
        context = ssl.create_default_context(cadata=trusted.cert.read_text())
        pair = own.sign("caller")
        context.load_cert_chain(pair.cert, pair.key)
        return context

    with http_service(
        tls=certificates.context(), authenticator=Authenticator(None), quotas=quotas
    ) as service:
        service.tls = client(authority, authority)
        assert service.ask(PATH, {"input": "a b"}).status == 200
        assert len(quotas._kept) == 1
        assert "" not in quotas._kept
        # Authority and certificate are replaced, for the next connections.
        ca.write_bytes(other.cert.read_bytes())
        other.sign("second").write_to(*files)
        with pytest.raises(ssl.SSLError):
            service.ask("/health")
        service.tls = client(other, other)
        assert service.ask("/health").status == 200
        service.tls = client(other, authority)
        with pytest.raises((ssl.SSLError, ConnectionError)):
            service.ask("/health")


def test_an_intermediate_authority_of_clients_may_stand_alone(tmp_path: Path) -> None:
    root, server = Authority(tmp_path / "root"), Authority(tmp_path / "server")
    middle = Authority(tmp_path / "middle", above=root)
    own, caller = server.sign("localhost"), middle.sign("caller")
    context = server_context(
        own.cert.read_bytes(), own.key.read_bytes(), client_authorities=middle.cert.read_bytes()
    )
    with http_service(tls=context) as service:
        service.tls = ssl.create_default_context(cadata=server.cert.read_text())
        service.tls.load_cert_chain(caller.cert, caller.key)
        assert service.ask("/health").status == 200


def test_a_client_without_a_certificate_is_refused_if_one_is_required(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "one")
    pair, trusted = authority.sign("localhost"), authority.cert.read_bytes()
    context = server_context(pair.cert.read_bytes(), pair.key.read_bytes(), trusted)
    with http_service(tls=context) as service:
        service.tls = ssl.create_default_context(cadata=trusted.decode("ascii"))
        with pytest.raises((ssl.SSLError, ConnectionError)):
            service.ask("/health")


def test_a_response_closes_an_old_connection() -> None:
    health = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with http_service(max_connection_age_seconds=1e-3) as service, service.raw() as client:
        until(lambda: bool(open_connections(service)), "not connected")
        until(lambda: time.monotonic() > open_connections(service)[0].ends, "still young")
        client.sendall(health)
        assert read_reply(client, "GET").headers["connection"] == "close"
        assert client.recv(1) == b""
    with http_service() as service, service.raw(health) as client:
        assert "connection" not in read_reply(client, "GET").headers


def test_a_silent_client_has_no_minute_for_its_handshake(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_server, "HANDSHAKE_SECONDS", 0.2)
    pair = Authority(tmp_path / "one").sign("localhost")
    context = server_context(pair.cert.read_bytes(), pair.key.read_bytes())
    with http_service(tls=context) as service, service.raw() as client:
        client.settimeout(30)
        assert read_all(client) == b""


def test_a_failure_to_listen_is_reported_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*_: object) -> None:
        raise OSError("no descriptor is left")

    monkeypatch.setattr(http_server, "START_SECONDS", 600)
    with http_service() as service, socket.socket() as bound:
        monkeypatch.setattr(http_server._Server, "serve", fail)
        bound.bind(("127.0.0.1", 0))
        server = HttpServer(bound, service.server.door)
        with pytest.raises(OSError, match="did not begin to listen"):
            server.start()


def built(config: Config) -> object:
    pipeline = Pipeline(Models(), TokenizerThreads(1))
    server = build_api(config, pipeline, Metrics(), lambda: True)
    if server is not None:
        server._bound.close()
    return server


def test_a_taken_default_port_is_a_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with http_service() as service:
        taken = Address("127.0.0.1", service.port)
        with pytest.raises(PortTaken, match="--api"):
            built(Config(bundle=Path("b"), api=taken))
        for place in ("headlight_service.app.server_setup", "headlight_service.config.options"):
            monkeypatch.setattr(f"{place}.API", taken)
        with caplog.at_level(logging.WARNING):
            assert built(Config(bundle=Path("b"), api=taken)) is None
        assert "--api off" in caplog.text
    assert built(Config(bundle=Path("b"), api=None)) is None
    assert Config(bundle=Path("b")).api is API


def test_a_port_taken_after_it_was_reserved_is_a_warning_for_the_default(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    models, tokenizers = Models(), TokenizerThreads(1)
    pipeline = Pipeline(models, tokenizers)
    try:
        named = Config(bundle=Path("b"), api=Address("127.0.0.1", free_port()))
        for default in (False, True):
            server = build_api(named, pipeline, Metrics(), lambda: True)
            assert server is not None
            with socket.create_server(("127.0.0.1", server.port)):
                if not default:
                    with pytest.raises(PortTaken, match="--api"):
                        start_api(server, named)
                    monkeypatch.setattr("headlight_service.app.server_setup.API", named.api)
                else:
                    with caplog.at_level(logging.WARNING):
                        assert start_api(server, named) is False
        assert "--api off" in caplog.text
    finally:
        tokenizers.close()
