"""Options of the service: one dataclass for flags, environment variables, help and validation."""

from __future__ import annotations

import argparse
import dataclasses
import itertools
from collections.abc import Mapping, Sequence

from headlight_service.config.command_line import ConfigError, parser_of, read, refuse_unknown
from headlight_service.config.option_groups import (
    API,
    AddressOptions,
    BatchOptions,
    ClientOptions,
    ComputationOptions,
    LogOptions,
    ModelOptions,
    ProcessOptions,
    QueueOptions,
    RequestOptions,
    TextOptions,
)
from headlight_service.core.admission.admission_control import largest_output


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config(
    ModelOptions,
    AddressOptions,
    ClientOptions,
    ComputationOptions,
    TextOptions,
    RequestOptions,
    QueueOptions,
    BatchOptions,
    ProcessOptions,
    LogOptions,
):
    """Every option of `headlight serve`. `--max-items` overrides HEADLIGHT_MAX_ITEMS."""

    @classmethod
    def parse(cls, arguments: Sequence[str], environ: Mapping[str, str]) -> Config:
        """Read the options.

        Args:
            arguments: the command line, without the program.
            environ: the environment.

        Raises:
            ConfigError: naming the option (or the variable) and its accepted values, or a variable
                that is not an option.
            SystemExit: after --help.
        """
        values, on_line = read(GROUPS, arguments, environ)
        # Each names the models: the command line overrides the environment.
        for other in SOURCES - on_line if SOURCES & on_line else ():
            values.pop(other, None)
        refuse_unknown(dataclasses.fields(cls), environ)
        config = cls(**values)
        config.check_together()
        return config

    def check_together(self) -> None:
        """Check that the options fit each other. Raises ConfigError."""
        listening = {
            "--grpc": self.grpc,
            "--metrics": self.metrics,
            "--health": self.health,
            "--admin-address": self.admin_address,
        }
        if self.api is not API:  # the default port may be taken; see `build_api`
            listening["--api"] = self.api
        for (one, address), (other, other_address) in itertools.combinations(listening.items(), 2):
            if address is not None and other_address is not None and address.meets(other_address):
                raise ConfigError(
                    f"{one} is {address}, {other} {other_address}; give each a port of its own"
                )
        given = (
            ("MODEL", " ".join(self.model)),
            ("--bundle", self.bundle),
            ("--models", self.models),
        )
        sources = [(name, str(value)) for name, value in given if value] or [("", "")]
        several = self.models is not None or len(self.model) > 1
        no_cert = self.tls_cert is None
        clients_are_known = self.auth_tokens is not None or self.tls_client_ca is not None
        problems = (
            (
                len(sources) > 1,
                f"{' is '.join(sources[0])}, {', '.join(map(' '.join, sources[1:]))}; give one",
            ),
            (
                several and bool(self.served_model_name),
                (
                    "--served-model-name is for one model; name each of several in a file, "
                    "and give it as --models"
                ),
            ),
            (
                several and self.bundle_sha256 is not None,
                (
                    "--bundle-sha256 is for one model; write the digest of each of several into a "
                    "file, and give it as --models"
                ),
            ),
            (
                self.max_request_tokens > self.max_queue_tokens,
                (
                    f"--max-request-tokens is {self.max_request_tokens}, --max-queue-tokens "
                    f"{self.max_queue_tokens}; the queue must hold at least one request"
                ),
            ),
            (
                self.max_request_bytes > self.max_queue_bytes,
                (
                    f"--max-request-bytes is {self.max_request_bytes}, --max-queue-bytes "
                    f"{self.max_queue_bytes}; the process must hold at least one request"
                ),
            ),
            (
                self.max_output_bytes
                and largest_output(self.max_output_bytes) < self.max_unary_response_bytes,
                "--max-output-bytes is too small for --max-unary-response-bytes;"
                " the process must hold one answer, and a reserve",
            ),
            (
                no_cert != (self.tls_key is None),
                "--tls-cert and --tls-key are needed together; give both, or neither",
            ),
            (
                no_cert and self.tls_ca is not None,
                (
                    "--tls-ca needs --tls-cert and --tls-key, whose authority it is; "
                    "for callers' use --tls-client-ca"
                ),
            ),
            (
                no_cert and self.tls_client_ca is not None,
                (
                    "--tls-client-ca needs --tls-cert and --tls-key: "
                    "without TLS nobody shows a certificate"
                ),
            ),
            (
                self.admin_address is not None
                and self.admin_tokens is None
                and self.tls_client_ca is None,
                (
                    "--admin-address needs --admin-tokens or --tls-client-ca: "
                    "without either, everybody who reaches it could replace the models"
                ),
            ),
            (
                self.quota_tokens_per_second is not None and not clients_are_known,
                "--quota-tokens-per-second needs --auth-tokens or --tls-client-ca;"
                " without either nobody knows one client from another",
            ),
        )
        for holds, problem in problems:
            if holds:
                raise ConfigError(problem)


SOURCES = {"model", "bundle", "models"}
# As --help lists them.
GROUPS = {
    "model": dataclasses.fields(ModelOptions),
    "addresses": dataclasses.fields(AddressOptions),
    "TLS and clients": dataclasses.fields(ClientOptions),
    "computation": dataclasses.fields(ComputationOptions),
    "texts": dataclasses.fields(TextOptions),
    "limits of a request": dataclasses.fields(RequestOptions),
    "queue": dataclasses.fields(QueueOptions),
    "batches": dataclasses.fields(BatchOptions),
    "process": dataclasses.fields(ProcessOptions),
    "log and traces": dataclasses.fields(LogOptions),
}


def command_parser() -> argparse.ArgumentParser:
    """Return the parser of `headlight serve`."""
    return parser_of(GROUPS)
