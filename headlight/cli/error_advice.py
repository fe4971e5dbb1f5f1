"""Error messages of the command line: one line, in terms of its options, with a remedy."""

from __future__ import annotations

import argparse
import re

from headlight.cli.files import OutputError, UsageError, source
from headlight.errors import (
    DeadlineExceeded,
    HeadlightError,
    InvalidInput,
    MixedWeights,
    Overloaded,
    Unauthenticated,
    Unavailable,
)
from headlight.wire.status_errors import TOO_LATE

# Options for the fields of a request or the arguments of the client.
OPTIONS = {
    "model": "--model",
    "outputs.attention.layers": "--layer",
    "outputs.pooled.dimensions": "--dimensions",
    "outputs.pooled.dtypes": "--dtype",
    "prompt": "--prompt",
    "prompt_name": "--prompt-name",
    "special_tokens": "--special-tokens",
    "target": "--target",
    "timeout": "--timeout",
}
# Connection errors of gRPC or its TLS library that name their cause, and the cause with its remedy.
ANOTHER_NAME = "the certificate there is for another name: give that by --tls-server-name"
RENEW = "its certificate has to be renewed there"
NOT_TRUSTED = "its certificate is of an authority that is not trusted here: give that by --tls-ca"
CONNECTIONS = {
    "Hostname Verification Check failed": ANOTHER_NAME,
    "is not in peer certificate": ANOTHER_NAME,  # the same from gRPC 1.76
    "unable to get local issuer certificate": NOT_TRUSTED,
    "self signed certificate": NOT_TRUSTED,
    "certificate has expired": RENEW,
    "WRONG_VERSION_NUMBER": (
        "what answers there has no TLS: leave out --tls and --tls-..., "
        "or name another port by --target"
    ),
    "Failed parsing HTTP/2": (
        "that is no gRPC in plaintext: name the port of gRPC by --target, or give --tls or --tls-ca"
    ),
}
# only in the handshake: a connection that is lost later has no "last error"
CLOSED = re.compile(r"last error: .*: Socket closed")
OF_IPV6 = re.compile(r"last error: .* ipv6:")
INDEX = re.compile(r"\[(\d+)\]")


def advice(error: UsageError | OutputError | HeadlightError, arguments: argparse.Namespace) -> str:
    """Return an error and its remedy on one line."""
    message = " ".join(
        (in_options(error, arguments) if isinstance(error, InvalidInput) else str(error)).split()
    )
    if isinstance(error, Unavailable) and not isinstance(error, MixedWeights):
        return "; ".join(
            [f"no answer from {arguments.target} ({message})", *connecting(message, arguments)]
        )
    return "; ".join([message, *remedy(error, message, arguments)])


def misdirected(message: str) -> bool:
    """Return whether a connection failed for a lasting cause: TLS, names, authorities, port."""
    return any(words in message for words, means in CONNECTIONS.items() if means != RENEW)


def remedy(error: Exception, message: str, arguments: argparse.Namespace) -> list[str]:
    """Return the remedy for an error other than a failed connection, if its message has none."""
    if isinstance(error, Unauthenticated):
        return ["give one by --token-file, HEADLIGHT_TOKEN_FILE or HEADLIGHT_TOKEN"]
    if isinstance(error, DeadlineExceeded):
        return ["give more time by --timeout"]
    if not isinstance(error, Overloaded):
        return []
    # The queue may be full of this command's own requests.
    late = (
        ["give more time by --timeout"]
        if arguments.timeout is not None and TOO_LATE in message
        else []
    )
    again = (
        []
        if error.retry_after_seconds is None
        else [f"try again in {error.retry_after_seconds:g} s"]
    )
    return [", or ".join([*late, *again])] if late or again else []


def connecting(message: str, arguments: argparse.Namespace) -> list[str]:
    """Return the remedies for a service that does not answer."""
    known = [means for words, means in CONNECTIONS.items() if words in message]
    if known:
        return known[:1]
    found = ["start a service there, or name another by --target or HEADLIGHT_TARGET"]
    if OF_IPV6.search(message) and not arguments.target.startswith(("[", "ipv6:")):
        found.append(
            "that was its IPv6 address: what another one says is told where --target has it, "
            "as 127.0.0.1:PORT"
        )
    if CLOSED.search(message):
        found.append(
            f"if there is one, it closed the connection at once: it may want {wanted(arguments)}"
        )
    return found


def wanted(arguments: argparse.Namespace) -> str:
    """Return the credential that a service may require if it closes the connection at once."""
    if arguments.tls_cert:
        return "another certificate than that of --tls-cert"
    if arguments.tls or arguments.tls_ca or arguments.tls_server_name:
        return "a certificate, by --tls-cert and --tls-key"
    return "TLS, by --tls or --tls-ca"


def in_options(error: InvalidInput, arguments: argparse.Namespace) -> str:
    """Return the problem of an input in terms of an option, a line of a file, or a whole file."""
    field, problem = INDEX.sub("", error.field), error.problem
    if field == "prompt_name":
        problem = problem.replace("use prompt", "use --prompt")
    if field in OPTIONS:
        return f"{OPTIONS[field]}: {problem}"
    index, read = INDEX.search(error.field), source(arguments)
    if field.startswith("inputs") and index and read is not None:
        if getattr(arguments, "skip_bad", None) is False:
            problem += ", or leave such lines out by --skip-bad"
        return (
            f"{read}: line {int(index[1]) + 1}: {problem}"
            if "texts" in arguments
            else f"{read}: {problem}"
        )
    return str(error)
