"""Channels that are replaced when credentials change: no call is lost, no channel is leaked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import grpc
import pytest

from headlight import AsyncClient, Client
from headlight.client.reloading_channel import ReloadingChannel
from headlight.tls.credentials import Access
from tests.certificates import Authority


class Made:
    """Fake channel."""

    def __init__(self) -> None:
        self.closed = False


class Setup:
    def __init__(self) -> None:
        self.now = grpc.ssl_channel_credentials()
        self.made: list[Made] = []
        self.fails = False
        self.reloading = ReloadingChannel(
            Access(lambda: self.now, None, fixed=False), self.make, self.close
        )

    def make(self, credentials: grpc.ChannelCredentials | None) -> Made:
        if self.fails:
            raise OSError("no channel can be made")
        self.made.append(Made())
        return self.made[-1]

    def close(self, channel: Made) -> None:
        assert not channel.closed
        channel.closed = True

    def change(self) -> None:
        self.now = grpc.ssl_channel_credentials()

    def call(self) -> Any:
        line = self.reloading.enter()
        assert not line.channel.closed
        self.reloading.leave(line)
        return line.channel


def test_a_failed_reload_keeps_the_current_channel_open() -> None:
    setup = Setup()
    first = setup.call()
    credentials = setup.now
    setup.change()
    setup.fails = True
    for _ in range(2):
        with pytest.raises(OSError, match="no channel can be made"):
            setup.call()
    changed, setup.now = setup.now, credentials
    assert setup.call() is first
    setup.fails, setup.now = False, changed
    second = setup.call()
    assert [each.closed for each in setup.made] == [True, False]
    assert setup.reloading.channels == [second]


def test_a_slow_thread_does_not_restore_old_credentials() -> None:
    setup = Setup()

    def overtaken() -> grpc.ChannelCredentials:
        """Return the channel that was current before another thread's call replaced it,
        unless a lock prevents that.
        """
        before = setup.now
        if not setup.reloading._lock.locked():
            setup.reloading._access = Access(lambda: setup.now, None, fixed=False)
            setup.change()
            setup.call()
        return before

    setup.reloading._access = Access(overtaken, None, fixed=False)
    setup.call()
    assert setup.reloading._generation.credentials is setup.now


def test_no_channel_is_created_after_close() -> None:
    setup = Setup()
    running = setup.reloading.enter()
    setup.change()
    second = setup.call()
    assert setup.reloading.end() == [second, running.channel]
    setup.change()
    with pytest.raises(ValueError, match="the client is closed"):
        setup.call()
    setup.reloading.leave(running)
    assert setup.reloading.channels == [second, running.channel], "both are the caller's to close"
    assert len(setup.made) == 2


@pytest.fixture
def authorities(tmp_path: Path) -> list[Authority]:
    return [Authority(tmp_path / name) for name in ("first", "second")]


async def test_a_closed_client_opens_nothing_when_files_change(
    tmp_path: Path, authorities: list[Authority]
) -> None:
    trusted = tmp_path / "ca.crt"
    trusted.write_bytes(authorities[0].cert.read_bytes())
    client, other = (
        Client("127.0.0.1:1", tls_ca=trusted),
        AsyncClient("127.0.0.1:1", tls_ca=trusted),
    )
    client.close()
    await other.close()
    channels: list[Any] = [*client._end(), *other._end()]
    trusted.write_bytes(authorities[1].cert.read_bytes())
    with pytest.raises(ValueError, match="the client is closed"):
        client.model()
    with pytest.raises(ValueError, match="the client is closed"):
        await other.model()
    left: list[Any] = [*client._end(), *other._end()]
    assert left == channels
