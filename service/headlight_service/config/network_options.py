"""Options of addresses, TLS and clients."""

# ruff: noqa: RUF009  # `option` is dataclasses.field

from __future__ import annotations

import dataclasses
from pathlib import Path

from headlight_service.config.option_types import (
    Address,
    address,
    address_or_off,
    between,
    choice_option,
    host_name,
    option,
    origins,
)

HOST_PORT = "HOST:PORT"
API = Address("127.0.0.1", 8000)  # recognised by identity: a given address is another object


@dataclasses.dataclass(frozen=True, kw_only=True)
class AddressOptions:
    """Addresses to listen on, and the age of connections."""

    grpc: Address = option(
        Address("127.0.0.1", 50051),
        address,
        "address of gRPC; 0.0.0.0 or [::] as HOST to be reached from other machines",
        metavar=HOST_PORT,
    )
    metrics: Address = option(
        Address("127.0.0.1", 8080),
        address,
        "address of /metrics, /livez and /readyz; HOST as for --grpc",
        metavar=HOST_PORT,
        was="http",
    )
    api: Address | None = option(
        API,
        address_or_off,
        (
            "address of the HTTP APIs (OpenAI's and others') and of the page, with the TLS, tokens "
            "and quotas of --grpc; HOST as for --grpc; off: none"
        ),
        metavar="HOST:PORT|off",
        was="rest",
    )
    api_host: str | None = option(
        None,
        host_name,
        (
            "name by which clients may call --api and --metrics on a loopback address, besides "
            "localhost; other names are refused there, because a web page may have rebound them"
        ),
        metavar="NAME",
        was="rest_host",
    )
    cors_origins: tuple[str, ...] = option(
        (),
        origins,
        (
            "origins whose web pages may call --api from a browser (CORS), with commas between "
            "them, as https://app.example; *: all (default: none but its own page)"
        ),
        metavar="ORIGIN,...",
    )
    page: str = choice_option(
        "on", "a page that shows attention in a browser, at / of --api", "on", "off"
    )
    health: Address | None = option(
        None,
        address,
        (
            "address of grpc.health.v1 alone, in plaintext, for probes without TLS "
            "(default: none, only that of --grpc)"
        ),
        metavar=HOST_PORT,
    )
    # At most 24 days: gRPC counts its milliseconds in 32 bits.
    max_connection_age_seconds: float = option(
        300.0,
        between(1, 86400 * 24),
        (
            "close a connection after this time, give or take a tenth, so that clients find new "
            "replicas; calls in flight are finished"
        ),
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClientOptions:
    """TLS, authentication and quotas."""

    tls_cert: Path | None = option(
        None,
        Path,
        "certificate of --grpc and --api with its intermediates, PEM; read again when it changes",
        metavar="FILE",
    )
    tls_key: Path | None = option(
        None, Path, "private key of --tls-cert, PEM, not encrypted", metavar="FILE"
    )
    tls_ca: Path | None = option(
        None,
        Path,
        "authorities, PEM; a certificate of --tls-cert that none of them signed is refused",
        metavar="FILE",
    )
    tls_client_ca: Path | None = option(
        None,
        Path,
        "authorities, PEM; every client must show a certificate that one of them signed",
        metavar="FILE",
    )
    auth_tokens: Path | None = option(
        None,
        Path,
        (
            "file with lines NAME TOKEN or NAME sha256:HEX; every call must bring one of these "
            "tokens, except health checks and, over HTTP, /, /health, /ping, /docs and "
            "/openapi.json"
        ),
        metavar="FILE",
    )
    quota_tokens_per_second: float | None = option(
        None,
        between(1, 1e9),
        (
            "tokens of texts per second for each client, which is known by the name of its auth "
            "token, else of its certificate (default: no limit)"
        ),
        metavar="TOKENS",
    )
    quota_burst_seconds: float = option(
        10.0, between(1, 86400), "seconds of its quota that an idle client can save up"
    )
