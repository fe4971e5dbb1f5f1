"""The access policy that the options define together."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from headlight_service.app import assembly as loading_module
from headlight_service.config.option_types import Address
from headlight_service.config.options import Config
from headlight_service.security.access_policy import AccessPolicy, is_loopback, security_of
from headlight_service.telemetry.metrics import Metrics
from tests.service.conftest import Serve
from tests.service.logged import logged


def config(folder: Path, **options: Any) -> Config:
    (folder / "tokens").write_text("search a-token-of-search\n", encoding="ascii")
    return Config(bundle=Path("b"), auth_tokens=folder / "tokens", **options)


def test_access_is_open_without_options() -> None:
    metrics = Metrics()
    assert security_of(Config(bundle=Path("b")), metrics) == AccessPolicy()
    assert "tls" not in metrics.exposition()[1].decode()


@pytest.mark.parametrize(
    ("host", "warned"),
    [("127.0.0.1", False), ("::1", False), ("localhost", False), ("::", True), ("0.0.0.0", True)],
)
def test_plaintext_tokens_on_a_public_address_are_warned_of(
    tmp_path: Path, host: str, warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    address = Address(host, 50051)
    assert is_loopback(address) is not warned
    with caplog.at_level(logging.WARNING):
        assert security_of(config(tmp_path, grpc=address), Metrics())[1] is not None
    assert [vars(record)["event"] for record in logged(caplog)] == ["tokens_in_plaintext"] * warned


@pytest.mark.parametrize(
    ("provider", "gpu", "told"), [("auto", True, 1), ("auto", False, 0), ("cpu", True, 0)]
)
async def test_a_cpu_fallback_for_a_gpu_is_reported(
    serve: Serve, provider: str, gpu: bool, told: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loading_module, "gpu_installed", lambda: gpu)
    async with serve(provider=provider) as service:
        assert service.metric("headlight_provider_fallback") == told
