"""Access policy of the options: credentials and authentication, set up before anything listens."""

from __future__ import annotations

import ipaddress
import logging
import ssl
from typing import NamedTuple

import grpc

from headlight_service.config.option_types import Address
from headlight_service.config.options import Config
from headlight_service.security.auth_tokens import AuthTokens
from headlight_service.security.authentication import Authenticator
from headlight_service.security.certificates import Certificates
from headlight_service.telemetry.metrics import Metrics

log = logging.getLogger("headlight_service.security.access_policy")


class AccessPolicy(NamedTuple):
    """Access to the ports of gRPC and of the HTTP frontend.

    Attributes:
        credentials: TLS of the gRPC port; None: plaintext.
        authenticator: authentication; None: no tokens, and no quotas.
        admin_credentials: those of the admin service, which has a port of its own.
        administrators: authentication of the admin service; None: its clients show certificates.
        tls: the same TLS for the HTTP frontend.
    """

    credentials: grpc.ServerCredentials | None = None
    authenticator: Authenticator | None = None
    admin_credentials: grpc.ServerCredentials | None = None
    administrators: Authenticator | None = None
    tls: ssl.SSLContext | None = None


def security_of(config: Config, metrics: Metrics) -> AccessPolicy:
    """Return the access policy of the options, and read the files that they name.

    Args:
        config: the options.
        metrics: receive the expiry and the counters.

    Raises:
        ConfigError: a file cannot be used; the message names the option.
    """
    credentials = admin_credentials = tls = None
    if config.tls_cert is not None and config.tls_key is not None:
        paths = (config.tls_cert, config.tls_key, config.tls_ca, config.tls_client_ca)
        certificates = Certificates(*paths, metrics.refused_tls().inc)
        metrics.define_tls(lambda: certificates.expires)
        credentials, tls = certificates.credentials(), certificates.context()
        admin_credentials = certificates.credentials()
    files = {"--auth-tokens": config.auth_tokens, "--admin-tokens": config.admin_tokens}
    known = dict[str, AuthTokens]()
    if any(files.values()):
        on_refused = metrics.refused_tokens().inc
        known = {
            option: AuthTokens(path, on_refused, option=option)
            for option, path in files.items()
            if path is not None
        }
    tokens, admin_tokens = map(known.get, files)
    addresses = [] if tokens is None else [config.grpc, config.api]
    addresses += [] if admin_tokens is None else [config.admin_address]
    if credentials is None and not all(map(is_loopback, filter(None, addresses))):
        log.warning(
            (
                "tokens are read in plaintext: anyone who sees the traffic can copy them; use "
                "--tls-cert, or a mesh that encrypts"
            ),
            extra={"event": "tokens_in_plaintext"},
        )
    needed = tokens is not None or config.quota_tokens_per_second is not None
    return AccessPolicy(
        credentials=credentials,
        authenticator=Authenticator(tokens) if needed else None,
        admin_credentials=admin_credentials,
        administrators=None if admin_tokens is None else Authenticator(admin_tokens),
        tls=tls,
    )


def is_loopback(address: Address) -> bool:
    """Return whether an address can be reached only from this machine."""
    try:
        return ipaddress.ip_address(address.host.partition("%")[0]).is_loopback
    except ValueError:  # a name
        return address.host == "localhost"
