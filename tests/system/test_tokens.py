"""Tokens and quotas of the real process, and errors at its start."""

from __future__ import annotations

import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase,
)

from headlight import Client, Overloaded, Unauthenticated
from tests.certificates import Authority
from tests.shipped import DIM
from tests.system.conftest import bundle_of
from tests.system.processes import ROOT, Service

TOKEN, SECOND = "the-first-token-of-search", "the-second-token-of-search"


def run_service(*options: str | Path) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-m",
        "headlight",
        "serve",
        "--bundle",
        str(bundle_of("docs-rope")),
        *map(str, options),
    ]
    ports = ["--grpc", "127.0.0.1:0", "--metrics", "127.0.0.1:0", "--api", "off"]
    return subprocess.run(
        [*command, *ports], cwd=ROOT, capture_output=True, text=True, check=False, timeout=60
    )


def test_unusable_token_options_exit_with_2_at_start(tmp_path: Path) -> None:
    authority, other = Authority(tmp_path / "authority"), Authority(tmp_path / "other")
    client_pair = authority.sign("good")
    expired = authority.sign("expired", days=-1)
    tokens = tmp_path / "tokens"
    tokens.write_text("search too-short\n", encoding="ascii")
    for options, problem in (
        (
            ("--tls-cert", client_pair.cert, "--tls-key", expired.key),
            "the key is not that of the certificate",
        ),
        (
            ("--tls-cert", client_pair.cert, "--tls-key", client_pair.key, "--tls-ca", other.cert),
            (
                "--tls-cert, --tls-key, --tls-ca: the certificate is refused: "
                "it does not come from an authority"
            ),
        ),
        (("--auth-tokens", tokens), "--auth-tokens: line 1: a token must have at least 16"),
    ):
        done = run_service(*options)
        assert done.returncode == 2, done.stderr
        assert problem in done.stderr
        assert "Traceback" not in done.stderr
        assert "too-short" not in done.stderr


def until_let_in(client: Client) -> None:
    """Retry until admitted; the file is read once a second."""
    end = time.monotonic() + 120
    while True:
        try:
            client.model()
            return
        except Unauthenticated:
            assert time.monotonic() < end, "the new token was never taken"


def test_tokens_are_required_and_rotated_and_quotas_enforced(tmp_path: Path) -> None:
    """Tokens are replaced without a restart, every method including reflection requires one,
    and no token reaches the log.
    """
    tokens = tmp_path / "tokens"
    tokens.write_text(f"search {TOKEN}\n", encoding="ascii")
    # The second of these would have to wait for minutes, beyond the client's timeout.
    large = "word " * 600
    quota = ("--quota-tokens-per-second", "1", "--quota-burst-seconds", "1000")
    with Service(bundle_of("docs-rope"), "--auth-tokens", str(tokens), *quota) as service:
        with Client(service.target, token=TOKEN, timeout=60) as client:
            assert client.encode(["a text"]).shape == (1, DIM)
            tokens.write_text(f"search {TOKEN}\nsearch {SECOND}\n", encoding="ascii")
            with Client(service.target, token=SECOND, timeout=60) as second:
                until_let_in(second)
                second.encode([large])
                with pytest.raises(Overloaded, match="quota of 1 tokens a second") as error:
                    second.encode([large])
                assert (error.value.retry_after_seconds or 0) > 1
                with pytest.raises(Overloaded):
                    client.encode([large])
        for wrong in ({}, {"token": TOKEN[:-1]}):
            arguments: Any = wrong
            with (
                Client(service.target, timeout=30, **arguments) as stranger,
                pytest.raises(Unauthenticated),
            ):
                stranger.encode(["a text"])
        with grpc.insecure_channel(service.target) as channel:
            with pytest.raises(grpc.RpcError) as refused:
                list(ProtoReflectionDescriptorDatabase(channel).get_services())
            answer: Any = refused.value
            assert answer.code() is grpc.StatusCode.UNAUTHENTICATED
            health = health_pb2_grpc.HealthStub(channel).Check(
                health_pb2.HealthCheckRequest(), timeout=10
            )
            assert health.status == health_pb2.HealthCheckResponse.SERVING
        log = str(service.log)
        with urllib.request.urlopen(f"http://{service.http}/metrics", timeout=60) as answer:
            text = answer.read().decode()
    assert 'headlight_rejected_total{model="docs-rope",reason="quota"}' in text
    assert 'grpc_code="UNAUTHENTICATED"' in text
    for secret in (TOKEN, SECOND, TOKEN[:-1], "search"):
        assert secret not in log
        assert secret not in text
