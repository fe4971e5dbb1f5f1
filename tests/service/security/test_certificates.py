"""The server's certificate.

Read from its files for each handshake, and used only if valid.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from headlight_service.app.health import Readiness
from headlight_service.app.server_setup import build_health_server
from headlight_service.config.command_line import ConfigError
from headlight_service.security.certificates import Certificates
from tests.certificates import Authority, Pair

REQUEST = health_pb2.HealthCheckRequest()


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls") / "authority")


@pytest.fixture(scope="module")
def pairs(authority: Authority) -> list[Pair]:
    return [authority.sign(f"version-{number}", days=5 + number) for number in range(3)]


class Server:
    """Server with a certificate in files of its own."""

    def __init__(
        self, folder: Path, authority: Authority, pair: Pair, mutual: bool, ca: Path | None = None
    ) -> None:
        self.cert, self.key, self.client_ca = (
            folder / "tls.crt",
            folder / "tls.key",
            folder / "ca.crt",
        )
        self.refused = 0
        self._root = authority.cert.read_bytes()
        self.client_ca.write_bytes(self._root)
        pair.write_to(self.cert, self.key)
        self.certificates = Certificates(
            self.cert, self.key, ca, self.client_ca if mutual else None, self._count
        )
        self.server = build_health_server(Readiness(), lambda *_: None)
        self.port = self.server.bind("127.0.0.1:0", self.certificates.credentials())

    def trust(self, authority: Authority) -> None:
        """Make new connections trust another authority."""
        self._root = authority.cert.read_bytes()

    def _count(self) -> None:
        self.refused += 1

    async def certificate(self, client: Pair | None = None) -> str:
        """Return the name in the certificate that a new connection gets."""
        shown = (
            (None, None) if client is None else (client.key.read_bytes(), client.cert.read_bytes())
        )
        credentials = grpc.ssl_channel_credentials(self._root, *shown)
        # The expiry identifies the version in use.
        options = [("grpc.use_local_subchannel_pool", 1)]
        async with grpc.aio.secure_channel(
            f"localhost:{self.port}", credentials, options
        ) as channel:
            await health_pb2_grpc.HealthStub(channel).Check(REQUEST, timeout=30)
        return f"version-{round((self.certificates.expires - time.time()) / 86400) - 5}"


@pytest.fixture(params=[False, True], ids=["tls", "mutual"])
def mutual(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
async def server(
    tmp_path: Path, authority: Authority, pairs: list[Pair], mutual: bool
) -> AsyncIterator[Server]:
    made = Server(tmp_path, authority, pairs[0], mutual)
    await made.server.start()
    yield made
    await made.server.stop(None)


@pytest.fixture
def quiet_logs(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    with caplog.at_level(logging.INFO, "headlight_service.security.certificates"):
        yield caplog


def events(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [
        vars(record).get("event", "")
        for record in caplog.records
        if record.name == "headlight_service.security.certificates"
    ]


async def test_a_changed_certificate_is_used_at_the_next_handshake(
    server: Server, pairs: list[Pair], mutual: bool, quiet_logs: pytest.LogCaptureFixture
) -> None:
    client = pairs[2] if mutual else None
    assert await server.certificate(client) == "version-0"
    pairs[1].write_to(server.cert, server.key)
    assert await server.certificate(client) == "version-1"
    assert await server.certificate(client) == "version-1"
    shown = await asyncio.to_thread(ssl.get_server_certificate, ("localhost", server.port))
    new = pairs[1].cert.read_text(encoding="ascii")
    assert ssl.PEM_cert_to_DER_cert(shown) == ssl.PEM_cert_to_DER_cert(new)
    assert events(quiet_logs) == ["tls_renewed"]
    assert server.refused == 0


@pytest.mark.parametrize(
    ("fault", "mutual"),
    [("half", False), ("mixed", True), ("expired", False), ("gone", True)],
    indirect=["mutual"],
)
async def test_an_unusable_certificate_is_refused_and_the_old_one_kept(
    server: Server,
    authority: Authority,
    pairs: list[Pair],
    mutual: bool,
    fault: str,
    quiet_logs: pytest.LogCaptureFixture,
) -> None:
    client = pairs[2] if mutual else None
    if fault == "half":
        server.cert.write_bytes(pairs[1].cert.read_bytes()[:200])
    elif fault == "mixed":
        server.cert.write_bytes(pairs[1].cert.read_bytes())
    elif fault == "expired":
        authority.sign("expired", days=-1).write_to(server.cert, server.key)
    else:
        server.key.unlink()
    for _ in range(3):
        assert await server.certificate(client) == "version-0"
    assert events(quiet_logs) == ["tls_refused"]
    assert server.refused == 1
    pairs[1].write_to(server.cert, server.key)
    assert await server.certificate(client) == "version-1"


async def test_a_pair_of_a_foreign_authority_is_refused_if_one_is_configured(
    tmp_path: Path, authority: Authority, pairs: list[Pair], quiet_logs: pytest.LogCaptureFixture
) -> None:
    own = tmp_path / "own.crt"
    own.write_bytes(authority.cert.read_bytes())
    made = Server(tmp_path, authority, pairs[0], mutual=False, ca=own)
    await made.server.start()
    other = Authority(tmp_path / "other")
    foreign = other.sign("foreign", days=20)
    foreign.write_to(made.cert, made.key)
    for _ in range(3):
        assert await made.certificate() == "version-0"
    assert events(quiet_logs) == ["tls_refused"]
    assert made.refused == 1
    assert "does not come from an authority that it must come from" in quiet_logs.text
    pairs[1].write_to(made.cert, made.key)
    assert await made.certificate() == "version-1"
    own.write_bytes(other.cert.read_bytes())  # not the authority of the pair in use
    assert await made.certificate() == "version-1"
    assert made.refused == 2
    # During a replacement: both, for a while.
    own.write_bytes(authority.cert.read_bytes() + other.cert.read_bytes())
    assert await made.certificate() == "version-1"
    assert made.refused == 2
    foreign.write_to(made.cert, made.key)
    made.trust(other)
    assert await made.certificate() == "version-15"
    await made.server.stop(None)


async def test_a_new_client_authority_is_used(
    tmp_path: Path, authority: Authority, pairs: list[Pair]
) -> None:
    made = Server(tmp_path / "", authority, pairs[0], mutual=True)
    await made.server.start()
    other = Authority(tmp_path / "other")
    theirs = other.sign("client")
    with pytest.raises(grpc.aio.AioRpcError):
        await made.certificate(theirs)
    with pytest.raises(grpc.aio.AioRpcError):
        await made.certificate()
    made.client_ca.write_bytes(other.cert.read_bytes())
    await made.certificate(theirs)
    with pytest.raises(grpc.aio.AioRpcError):
        await made.certificate(pairs[1])
    await made.server.stop(None)


def test_at_start_a_bad_pair_is_an_error_that_says_why(tmp_path: Path, pairs: list[Pair]) -> None:
    with pytest.raises(
        ConfigError, match="--tls-cert, --tls-key: the key is not that of the certificate"
    ):
        Certificates(pairs[0].cert, pairs[1].key, None, None, lambda: None)
    with pytest.raises(ConfigError, match=r"none\.crt cannot be read: No such file"):
        Certificates(tmp_path / "none.crt", pairs[0].key, None, None, lambda: None)
    with pytest.raises(
        ConfigError,
        match="--tls-ca: the certificate is refused: it does not come from an authority",
    ):
        Certificates(*pairs[0], Authority(tmp_path / "other").cert, None, lambda: None)
    (tmp_path / "empty").touch()
    with pytest.raises(
        ConfigError,
        match="--tls-ca: the file of the certificate's own authorities holds no certificate",
    ):
        Certificates(*pairs[0], tmp_path / "empty", None, lambda: None)
    with pytest.raises(
        ConfigError, match="--tls-client-ca: the file of authorities holds no certificate"
    ):
        Certificates(*pairs[0], None, tmp_path / "empty", lambda: None)


@pytest.mark.parametrize("mutual", [True], indirect=True)
async def test_a_handshake_does_not_reread_unchanged_files(
    server: Server, pairs: list[Pair], mutual: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = pairs[2] if mutual else None
    read: list[Path] = []
    ours = {server.cert, server.key, server.client_ca}
    original = Path.read_bytes

    def read_bytes(path: Path) -> bytes:
        read.append(path)
        return original(path)

    monkeypatch.setattr(Path, "read_bytes", read_bytes)
    for _ in range(3):
        await server.certificate(client)
    assert not ours.intersection(read)
