"""TLS of the server: certificate, key and client authorities from files, taken anew for each handshake once they have changed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import grpc

from headlight.tls.pem import check_authorities, check_pair
from headlight.tls.watched_file import Watched
from headlight_service.config.command_line import ConfigError
from headlight_service.telemetry.json_logs import describe

log = logging.getLogger("headlight_service.security.certificates")


class Material(NamedTuple):
    """What the files hold, checked."""

    configuration: grpc.ServerCertificateConfiguration
    expires: float  # seconds since the epoch


class Certificates:
    """The server's certificate, as its files have it. What they cannot be used for is refused, and the one before stays."""

    def __init__(
        self, cert: Path, key: Path, ca: Path | None, client_ca: Path | None, on_refused: Callable[[], None]
    ) -> None:
        """Read and check the files.

        Args:
            cert: the certificate and its intermediates, PEM.
            key: its key, PEM.
            ca: the authorities, PEM, from one of which the certificate must come; None: it may come from anywhere.
            client_ca: whose certificates callers must have; None: they need none.
            on_refused: called whenever changed files are not taken.

        Raises:
            ConfigError: they cannot be used; the message names the option and what is wrong.
        """
        self._on_refused = on_refused
        self._mutual = client_ca is not None
        files = {"--tls-cert": cert, "--tls-key": key, "--tls-ca": ca, "--tls-client-ca": client_ca}
        try:
            self._files = Watched(files, parse, self._refused)
        except ValueError as error:
            raise ConfigError(str(error)) from None
        self._given = self._files.latest()

    @property
    def expires(self) -> float:
        """When the certificate does, in seconds since the epoch. Looks at the files: between handshakes they may have changed."""
        return self._files.latest().expires

    def credentials(self) -> grpc.ServerCredentials:
        """For a port that asks at each handshake."""
        given: grpc.ServerCredentials = grpc.dynamic_ssl_server_credentials(
            self._given.configuration,
            self._renewed,  # type: ignore[arg-type]  # None, for no change, is unknown to the stubs
            self._mutual,
        )
        return given

    def _renewed(self) -> grpc.ServerCertificateConfiguration | None:
        """What has changed since the last handshake; None: nothing. Asked on gRPC's threads, where an exception fails the handshake."""
        try:
            latest = self._files.latest()
        except Exception as error:
            log.error("a certificate could not be looked at", extra={"event": "tls_failure", **describe(error)})
            return None
        if latest is self._given:
            return None
        self._given = latest
        log.info("a new certificate is in use", extra={"event": "tls_renewed", "expires": latest.expires})
        return latest.configuration

    def _refused(self, problem: str) -> None:
        self._on_refused()
        log.error(f"the certificate before stays in use: {problem}", extra={"event": "tls_refused"})


def parse(found: Mapping[str, bytes]) -> Material:
    """From the contents of the files, by their options. Raises PemError."""
    cert, key, roots = found["--tls-cert"], found["--tls-key"], found.get("--tls-client-ca")
    expires = check_pair(cert, key, "server", found.get("--tls-ca"))
    if roots is not None:
        check_authorities(roots)
    return Material(grpc.ssl_server_certificate_configuration([(key, cert)], roots), expires)
