"""TLS of the server: certificate, key and client authorities, reloaded when their files change."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import grpc

from headlight.tls.pem import check_authorities, check_pair, server_context
from headlight.tls.watched_file import Watched
from headlight_service.config.command_line import ConfigError
from headlight_service.telemetry.json_logs import describe

log = logging.getLogger("headlight_service.security.certificates")


class Material(NamedTuple):
    """The checked contents of the files."""

    configuration: grpc.ServerCertificateConfiguration
    context: ssl.SSLContext
    expires: float  # seconds since the epoch


class Certificates:
    """The server's certificate files. Unusable ones are refused, and the previous ones stay."""

    def __init__(
        self,
        cert: Path,
        key: Path,
        ca: Path | None,
        client_ca: Path | None,
        on_refused: Callable[[], None],
    ) -> None:
        """Read and check the files.

        Args:
            cert: the certificate and its intermediates, PEM.
            key: its key, PEM.
            ca: authorities, PEM; the certificate must come from one of them; None: from any.
            client_ca: authorities of the clients' certificates; None: clients need none.
            on_refused: called if changed files cannot be used.

        Raises:
            ConfigError: they cannot be used; the message names the option and the problem.
        """
        self._on_refused = on_refused
        self._mutual = client_ca is not None
        files = {"--tls-cert": cert, "--tls-key": key, "--tls-ca": ca, "--tls-client-ca": client_ca}
        try:
            self._files = Watched(files, parse, self._refused)
        except ValueError as error:
            raise ConfigError(str(error)) from None

    @property
    def expires(self) -> float:
        """Expiry of the certificate, in seconds since the epoch.

        Checks the files: they may have changed since the last handshake.
        """
        return self._files.latest().expires

    def credentials(self) -> grpc.ServerCredentials:
        """Return credentials of one port, which checks the files at each handshake."""
        in_use = self._files.latest()

        def renewed() -> grpc.ServerCertificateConfiguration | None:
            """Return the configuration if it changed since the port's last handshake.

            Called on gRPC's threads, where an exception fails the handshake.
            """
            nonlocal in_use
            try:
                latest = self._files.latest()
            except Exception as error:
                log.error(
                    "a certificate could not be checked",
                    extra={"event": "tls_failure", **describe(error)},
                )
                return None
            if latest is in_use:
                return None
            in_use = latest
            log.info(
                "a new certificate is in use",
                extra={"event": "tls_renewed", "expires": latest.expires},
            )
            return latest.configuration

        given: grpc.ServerCredentials = grpc.dynamic_ssl_server_credentials(
            in_use.configuration,
            renewed,  # type: ignore[arg-type]  # None, for no change, is unknown to the stubs
            self._mutual,
        )
        return given

    def context(self) -> ssl.SSLContext:
        """Return a context for connections of `ssl`, which checks the files at each handshake."""
        first = self._files.latest().context

        def renew(connection: ssl.SSLObject, name: str | None, context: ssl.SSLContext) -> None:
            try:  # the connection takes certificate and authorities over
                connection.context = self._files.latest().context
            except Exception as error:  # an exception here would fail the handshake
                log.error(
                    "a certificate could not be checked",
                    extra={"event": "tls_failure", **describe(error)},
                )

        first.sni_callback = renew  # also called for clients that send no name
        return first

    def _refused(self, problem: str) -> None:
        self._on_refused()
        log.error(f"the certificate before stays in use: {problem}", extra={"event": "tls_refused"})


def parse(contents: Mapping[str, bytes]) -> Material:
    """Return the checked contents of the files, by their options. Raises PemError."""
    cert, key, roots = (
        contents["--tls-cert"],
        contents["--tls-key"],
        contents.get("--tls-client-ca"),
    )
    expires = check_pair(cert, key, "server", contents.get("--tls-ca"))
    if roots is not None:
        check_authorities(roots)
    configuration = grpc.ssl_server_certificate_configuration([(key, cert)], roots)
    return Material(configuration, server_context(cert, key, roots), expires)
