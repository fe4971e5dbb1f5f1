"""GET /: a page for browsers, and for other clients health."""

from __future__ import annotations

from pathlib import Path

import pytest

from headlight_service.security.auth_tokens import AuthTokens
from headlight_service.security.authentication import Authenticator
from tests.service.frontends.http.http_service import HttpService, http_service

BROWSER = {"accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}


def test_a_browser_gets_the_page_with_a_policy_and_without_a_token(tmp_path: Path) -> None:
    (tmp_path / "tokens").write_text("page a-long-enough-token\n", encoding="utf-8")
    tokens = AuthTokens(tmp_path / "tokens", lambda: None)
    with http_service(authenticator=Authenticator(tokens)) as service:
        reply = service.ask("/", headers=BROWSER)
        assert (reply.status, reply.body[:15]) == (200, b"<!doctype html>")
        assert reply.headers["content-type"] == "text/html; charset=utf-8"
        policy = reply.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert reply.headers["x-content-type-options"] == "nosniff"
        assert reply.headers["referrer-policy"] == "no-referrer"
        assert reply.headers["vary"] == "accept"
        assert service.ask("/v1/model", headers=BROWSER).status == 401


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_who_asks_for_json_gets_health(service: HttpService, method: str) -> None:
    for serving, status in ((True, 200), (False, 503)):
        service.serving[0] = serving
        reply = service.ask("/", method=method, headers={"accept": "application/json"})
        assert (reply.status, reply.body, reply.headers["vary"]) == (status, b"", "accept")
        assert service.ask("/", headers=BROWSER).status == 200


@pytest.mark.parametrize("accept", [{}, {"accept": "*/*"}])
def test_others_get_the_page_of_a_service_that_serves(
    service: HttpService, accept: dict[str, str]
) -> None:
    reply = service.ask("/", headers=accept)
    assert (reply.status, reply.body[:15]) == (200, b"<!doctype html>")
    service.serving[0] = False
    assert service.ask("/", headers=accept).status == 503


def test_without_the_page_a_browser_gets_health_too() -> None:
    with http_service(page="off") as service:
        reply = service.ask("/", headers=BROWSER)
        assert (reply.status, reply.body) == (200, b"")
        service.serving[0] = False
        assert service.ask("/", headers=BROWSER).status == 503
