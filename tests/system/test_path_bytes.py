"""A request whose `:path` is not UTF-8 gets a status; no call on another connection is lost.

One such request stops a server of grpc.aio (docs/decisions/grpc-aio-path-report.md).
"""

from __future__ import annotations

import asyncio
import ssl
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from headlight.results import Floats
from tests.certificates import Authority
from tests.chaos.faults.paths import HUNG_UP, burst, endure, steadily
from tests.chaos.traffic.neighbours import Neighbours, expected_vectors
from tests.chaos.traffic.probes import Ports, Probes, ports_of
from tests.system.conftest import bundle_of
from tests.system.nginx import Nginx, of_addresses
from tests.system.processes import Service

BUNDLE = bundle_of("docs-rope")
HEALTH = ("--health", "127.0.0.1:0")
TOKEN = "the-token-of-a-neighbour"
UNIMPLEMENTED, UNAUTHENTICATED = (
    code.value[0] for code in (grpc.StatusCode.UNIMPLEMENTED, grpc.StatusCode.UNAUTHENTICATED)
)
STEADY, EVERY_SECONDS = 30, 0.1
BURST, SOME = 10_000, 500
FEW, MANY = 4, 1000  # connections
TRUTH_SECONDS = 5  # `nox -s soak` has more


@pytest.fixture(scope="module")
def expected() -> dict[str, Floats]:
    return expected_vectors(BUNDLE)


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    with Service(BUNDLE, *HEALTH) as running:
        yield running
    log_is_clean(running)


def log_is_clean(ended: Service) -> None:
    """Check the log of an ended service: earlier, the last lines may be missing."""
    assert ended.failures() == []
    assert "a.b" not in str(ended.log)


async def serves(ports: Ports, expected: dict[str, Floats]) -> None:
    """Check that every probe says ready, and a call is answered."""
    probes = Probes(ports, *next(iter(expected.items())))
    assert await probes.look() == "OK"
    assert probes.problems() == []


async def test_a_request_every_100_ms_fails_no_call_of_others(
    service: Service, expected: dict[str, Floats]
) -> None:
    ports = ports_of(service)
    assert ports.health is not None
    async with Neighbours(ports.target, expected) as neighbours:
        ends = await asyncio.gather(
            *(steadily(port, STEADY, EVERY_SECONDS) for port in (ports.target, ports.health))
        )
    assert neighbours.problems() == []
    assert ends == [{UNIMPLEMENTED: STEADY}] * 2
    await serves(ports, expected)


@pytest.mark.parametrize(("port", "connections"), [("target", MANY), ("health", FEW)])
async def test_a_burst_fails_no_call_of_others(
    service: Service, expected: dict[str, Floats], port: str, connections: int
) -> None:
    ports = ports_of(service)
    async with Neighbours(ports.target, expected) as neighbours:
        statuses = await burst(getattr(ports, port), BURST, connections)
    assert neighbours.problems() == []
    assert statuses == {UNIMPLEMENTED: BURST}
    await serves(ports, expected)


async def test_probes_agree_with_real_calls(service: Service, expected: dict[str, Floats]) -> None:
    found, probes = await endure(ports_of(service), TRUTH_SECONDS, expected)
    assert found.problems == []
    assert probes.looks >= TRUTH_SECONDS
    assert service.process.poll() is None


async def test_a_client_without_a_token_fails_no_call_of_others_over_tls(
    tmp_path: Path, expected: dict[str, Floats]
) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text(f"neighbour {TOKEN}\n", encoding="ascii")
    authority = Authority(tmp_path / "authority")
    pair = authority.sign("service")
    context = ssl.create_default_context(cafile=str(authority.cert))
    context.set_alpn_protocols(["h2"])
    credentials = grpc.ssl_channel_credentials(authority.cert.read_bytes())
    options = (
        *("--auth-tokens", str(tokens)),
        *("--tls-cert", str(pair.cert), "--tls-key", str(pair.key)),
    )
    with Service(BUNDLE, *HEALTH, *options) as service:
        ports = ports_of(service, token=TOKEN, credentials=credentials)
        async with Neighbours(
            ports.target, expected, token=TOKEN, tls_ca=authority.cert
        ) as neighbours:
            statuses = await burst(ports.target, SOME, FEW, context)
        assert neighbours.problems() == []
        assert statuses.keys() <= {UNIMPLEMENTED, UNAUTHENTICATED}
        assert statuses.total() == SOME
        await serves(ports, expected)
    log_is_clean(service)


async def test_requests_through_nginx_fail_no_call_of_others(
    service: Service, tmp_path: Path, expected: dict[str, Floats]
) -> None:
    """nginx passes the path unchanged; clients of its port and of the service's lose no call."""
    ports = ports_of(service)
    with Nginx(tmp_path, *of_addresses([ports.target])) as nginx:
        async with (
            Neighbours(nginx.target, expected) as behind,
            Neighbours(ports.target, expected) as beside,
        ):
            statuses: Counter[int] = await burst(nginx.target, SOME, FEW)
        assert behind.problems() + beside.problems() == []
        assert statuses.total() == SOME
        assert not statuses[HUNG_UP]
        await serves(ports, expected)
