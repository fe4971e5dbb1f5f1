"""Limits of the servers."""

from __future__ import annotations

import resource

import pytest

from headlight_service.app.server_setup import ConnectionLimits, connection_limits


@pytest.mark.parametrize(
    ("descriptors", "limits"),
    [(1 << 20, ConnectionLimits(4096, 16384, 1024)), (1600, ConnectionLimits(400, 744, 100))],
)
def test_connections_are_limited_also_by_descriptors(
    descriptors: int, limits: ConnectionLimits, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (descriptors, descriptors))
    assert connection_limits() == limits
