"""TLS of the real process.

Certificates replaced under load, and connections that must be refused.
"""

from __future__ import annotations

import asyncio
import functools
import os
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from headlight import AsyncClient, Client, Unavailable
from headlight.pb import headlight_pb2 as pb
from headlight.pb import headlight_pb2_grpc as pb_grpc
from tests.certificates import Authority, Pair
from tests.system.conftest import bundle_of
from tests.system.processes import Service

ROTATIONS = 10
CALLERS = 4
BEFORE = 6  # calls between two rotations


class Secret:
    """Files as Kubernetes mounts them.

    Links to links into a folder for each version, all swapped at once.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._version = 0
        folder.mkdir()

    def write(self, **files: bytes) -> None:
        """Write a new version. `tls_crt` becomes tls.crt."""
        self._version += 1
        version = self._folder / f"..{self._version}"
        version.mkdir()
        for name, content in files.items():
            (version / name.replace("_", ".")).write_bytes(content)
        (self._folder / "..next").symlink_to(version.name)
        os.replace(self._folder / "..next", self._folder / "..data")
        for name in files:
            link = self._folder / name.replace("_", ".")
            if not link.is_symlink():
                link.symlink_to(Path("..data") / link.name)

    def path(self, name: str) -> Path:
        return self._folder / name


def pair_files(pair: Pair, authority: Authority) -> dict[str, bytes]:
    return {
        "tls_crt": pair.cert.read_bytes(),
        "tls_key": pair.key.read_bytes(),
        "ca_crt": authority.cert.read_bytes(),
        "own_crt": authority.cert.read_bytes(),
    }


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls") / "authority")


@pytest.fixture(scope="module")
def client_pair(authority: Authority) -> Pair:
    return authority.sign("batch-jobs", names="")


@pytest.fixture(scope="module")
def secret(tmp_path_factory: pytest.TempPathFactory, authority: Authority) -> Secret:
    made = Secret(tmp_path_factory.mktemp("mounted") / "tls")
    made.write(**pair_files(authority.sign("first"), authority))
    return made


@pytest.fixture(scope="module")
def mutual(secret: Secret) -> Iterator[Service]:
    """Start a service with mutual TLS, its certificates in a mounted Secret."""
    files = {
        "--tls-cert": "tls.crt",
        "--tls-key": "tls.key",
        "--tls-ca": "own.crt",
        "--tls-client-ca": "ca.crt",
    }
    options = [part for option, name in files.items() for part in (option, str(secret.path(name)))]
    with Service(bundle_of("docs-rope"), *options, "--health", "127.0.0.1:0") as service:
        yield service


def metric(service: Service, name: str) -> float:
    with urllib.request.urlopen(f"http://{service.http}/metrics", timeout=60) as answer:
        lines = answer.read().decode().splitlines()
    [value] = [line.split()[-1] for line in lines if line.startswith(name + " ")]
    return float(value)


REFUSED = "headlight_tls_reload_failures_total"
EXPIRY = "headlight_tls_certificate_expiry_timestamp_seconds"


def connect(service: Service, authority: Authority, pair: Pair | None) -> grpc.aio.Channel:
    """Return a new connection, shared with no other channel."""
    shown = (None, None) if pair is None else (pair.key.read_bytes(), pair.cert.read_bytes())
    credentials = grpc.ssl_channel_credentials(authority.cert.read_bytes(), *shown)
    return grpc.aio.secure_channel(
        service.target, credentials, [("grpc.use_local_subchannel_pool", 1)]
    )


async def encode(service: Service, authority: Authority, pair: Pair | None) -> pb.EncodeResponse:
    """Make one call on a connection of its own.

    Without retries, which could hide a failed handshake.
    """
    async with connect(service, authority, pair) as channel:
        stub = pb_grpc.HeadlightServiceStub(channel)
        answer: pb.EncodeResponse = await stub.Encode(
            pb.EncodeRequest(inputs=[pb.Input(text="a text")]), timeout=60
        )
        return answer


class Load:
    """Callers that make a connection for each call, beside a client that stays connected.

    Attributes:
        handshakes: so far.
        stayed: calls of the client.
    """

    def __init__(self, service: Service, authority: Authority, pair: Pair) -> None:
        self._service, self._authority, self._pair = service, authority, pair
        self._more = asyncio.Condition()
        self._stop = False
        self.handshakes = self.stayed = 0

    async def knock(self) -> None:
        while not self._stop:
            answer = await encode(self._service, self._authority, self._pair)
            assert len(answer.items) == 1
            self.handshakes += 1
            async with self._more:
                self._more.notify_all()

    async def stay(self) -> None:
        cert, key = self._pair
        async with AsyncClient(
            self._service.target, tls_ca=self._authority.cert, tls_cert=cert, tls_key=key
        ) as client:
            while not self._stop:
                assert np.isfinite(await client.encode(["one", "two"])).all()
                self.stayed += 1

    async def during(self, steps: Iterable[Callable[[], None]]) -> None:
        """Run steps; between two steps, and after the last, there are BEFORE handshakes."""
        async with asyncio.TaskGroup() as tasks:
            for work in (self.stay, *[self.knock] * CALLERS):
                tasks.create_task(work())
            for step in (*steps, self.stop):
                goal = self.handshakes + BEFORE
                async with self._more:
                    while self.handshakes < goal:
                        await self._more.wait()
                step()

    def stop(self) -> None:
        self._stop = True


async def test_ten_rotations_under_load_fail_no_handshake_and_no_call(
    mutual: Service, secret: Secret, authority: Authority, client_pair: Pair
) -> None:
    versions = [
        pair_files(authority.sign(f"version-{days}", days=days), authority)
        for days in range(2, 2 + ROTATIONS)
    ]
    known, load = len(mutual.log), Load(mutual, authority, client_pair)
    await load.during(functools.partial(secret.write, **files) for files in versions)
    while [entry["event"] for entry in mutual.log[known:]].count("tls_renewed") < ROTATIONS:
        mutual.wait_for("tls_renewed")  # a line of the log is read a moment after it is written
    events = [entry for entry in mutual.log[known:] if str(entry["event"]).startswith("tls_")]
    assert [entry["event"] for entry in events] == ["tls_renewed"] * ROTATIONS
    used = {entry["expires"] for entry in events}
    assert len(used) == ROTATIONS
    assert load.handshakes >= ROTATIONS * BEFORE
    assert load.stayed
    assert metric(mutual, REFUSED) == 0
    assert metric(mutual, EXPIRY) == max(used)


@pytest.mark.parametrize("fault", ["expired", "half", "mixed", "authority", "foreign"])
async def test_unusable_certificates_are_refused_and_the_old_ones_kept(
    mutual: Service,
    secret: Secret,
    authority: Authority,
    client_pair: Pair,
    fault: str,
    tmp_path: Path,
) -> None:
    good = pair_files(authority.sign("before", days=9), authority)
    secret.write(**good)
    await encode(mutual, authority, client_pair)
    refused, expiry = metric(mutual, REFUSED), metric(mutual, EXPIRY)
    later = pair_files(authority.sign("later", days=12), authority)
    bad = {
        "expired": pair_files(authority.sign("expired", days=-1), authority),
        "half": {**later, "tls_crt": later["tls_crt"][:300]},
        "mixed": {**good, "tls_crt": later["tls_crt"]},
        "authority": {**later, "ca_crt": later["ca_crt"][: len(later["ca_crt"]) // 2]},
        "foreign": pair_files(Authority(tmp_path / "foreign").sign("foreign", days=12), authority),
    }
    secret.write(**bad[fault])
    for _ in range(3):
        await encode(mutual, authority, client_pair)
    assert metric(mutual, REFUSED) == refused + 1
    assert metric(mutual, EXPIRY) == expiry
    assert mutual.wait_for("tls_refused")["level"] == "error"
    secret.write(**later)
    await encode(mutual, authority, client_pair)
    assert metric(mutual, EXPIRY) > expiry


async def test_unauthenticated_and_foreign_peers_are_refused(
    mutual: Service, authority: Authority, client_pair: Pair, tmp_path: Path
) -> None:
    """Clients without a certificate or with a foreign one.

    By the client: a server of another authority, and plaintext.
    """
    other = Authority(tmp_path / "other")
    strangers = [(authority, None), (authority, other.sign("stranger")), (other, client_pair)]
    strangers.append((authority, authority.sign("late", days=-1)))
    for trusted, pair in strangers:
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await encode(mutual, trusted, pair)
        assert error.value.code() is grpc.StatusCode.UNAVAILABLE
    with Client(mutual.target, timeout=10) as client, pytest.raises(Unavailable):
        client.model()
    await encode(mutual, authority, client_pair)


def test_probes_need_no_certificate_on_their_own_port(mutual: Service) -> None:
    port = next(entry["health_port"] for entry in mutual.log if entry["event"] == "listening")
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        for name in ("", "headlight.v1.HeadlightService", "readiness", "startup", "liveness"):
            answer = stub.Check(health_pb2.HealthCheckRequest(service=name), timeout=10)
            assert answer.status == health_pb2.HealthCheckResponse.SERVING, name
        with pytest.raises(grpc.RpcError) as error:
            pb_grpc.HeadlightServiceStub(channel).GetModel(pb.GetModelRequest(), timeout=10)
        refused: Any = error.value
        assert refused.code() is grpc.StatusCode.UNIMPLEMENTED
    assert metric(mutual, "headlight_ready") == 1
    assert metric(mutual, "headlight_stuck") == 0
