"""Remedies for a service that does not answer, in the words of a client's caller."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping

from headlight.errors import (
    Reason,
    Unavailable,
)

Spelling = Callable[[str], str]  # of an argument of the client, as its caller writes it

# Connection errors of gRPC or its TLS, and their meaning, which needs no other evidence.
ANOTHER_NAME = "the certificate there is for another name: give that by {tls_server_name}"
RENEW = "its certificate has to be renewed there"
NOT_TRUSTED = "its certificate is of an authority that is not trusted here: give that by {tls_ca}"
CONNECTIONS = {
    "Hostname Verification Check failed": ANOTHER_NAME,
    "is not in peer certificate": ANOTHER_NAME,  # the same from gRPC 1.76
    "unable to get local issuer certificate": NOT_TRUSTED,
    "self signed certificate": NOT_TRUSTED,
    "certificate has expired": RENEW,
    "WRONG_VERSION_NUMBER": (
        "what answers there has no TLS: leave out {tls} and {tls_}, "
        "or name another port by {target}"
    ),
    "Failed parsing HTTP/2": (
        "that is no gRPC in plaintext: name the port of gRPC by {target}, or give {tls} or {tls_ca}"
    ),
}
ARGUMENTS = ("target", "tls", "tls_ca", "tls_cert", "tls_key", "tls_server_name")
# in the handshake; a connection that is lost later has no last error
CLOSED = re.compile(r"last error: .*: Socket closed")
STARTING = ("Connection refused", "error: No such file or directory")
# In the order in which gRPC reads them.
PROXIES, EXEMPTIONS = ("grpc_proxy", "https_proxy", "http_proxy"), ("no_grpc_proxy", "no_proxy")
LOCAL_SCHEMES = ("unix:", "unix-abstract:", "vsock:")
OF_IPV6 = re.compile(r"last error: .* ipv6:")


def no_answer(message: str, target: str, spelling: Spelling, *, tls: bool, certified: bool) -> str:
    """Return the error for a service that does not answer, with what to do.

    Args:
        message: of gRPC.
        target: that was called.
        spelling: of the client's arguments.
        tls: whether TLS was asked for.
        certified: whether the client has a certificate.
    """
    message = " ".join(message.split())
    names = {name: spelling(name) for name in ARGUMENTS} | {"tls_": spelling("tls_...")}
    known = [means for words, means in CONNECTIONS.items() if words in message]
    advice = known[:1] or ["start a service there, or name another by {target} or HEADLIGHT_TARGET"]
    if not known and OF_IPV6.search(message) and not target.startswith(("[", "ipv6:")):
        advice.append(
            "that was its IPv6 address: what another one says is told where {target} has it, "
            "as 127.0.0.1:PORT"
        )
    if not known and CLOSED.search(message):
        credential = "TLS, by {tls} or {tls_ca}"
        if certified:
            credential = "another certificate than that of {tls_cert}"
        elif tls:
            credential = "a certificate, by {tls_cert} and {tls_key}"
        advice.append(
            f"if there is one, it closed the connection at once: it may want {credential}"
        )
    if (proxy := proxy_variable(target)) is not None:
        advice.insert(0, f"the call went through the proxy of {proxy}: {exempt(target)}")
    remedies = [each.format_map(names) for each in advice]
    return "; ".join([f"no answer from {target} ({message})", *remedies])


def proxy_variable(target: str, environ: Mapping[str, str] = os.environ) -> str | None:
    """Return the variable whose proxy gRPC takes for a target; None: it connects directly."""
    name = next((name for name in PROXIES if environ.get(name)), None)
    host = host_of(target)
    if name is None or target.startswith(LOCAL_SCHEMES):
        return None
    exempted = next((environ[name] for name in EXEMPTIONS if environ.get(name)), "")
    suffixes = [each.strip() for each in exempted.split(",") if each.strip()]
    return None if any(host.endswith(each) for each in suffixes) else name


def exempt(target: str) -> str:
    """Return the remedy that lets calls to a target pass the proxy by."""
    return f"add {host_of(target)} to no_proxy to connect directly"


def host_of(target: str) -> str:
    """Return the host of "host:port" or of a gRPC target, without brackets."""
    return target.rpartition("/")[2].rpartition(":")[0].strip("[]")


def starting(error: Unavailable) -> bool:
    """Return whether a service starts: nobody listens yet, or a proxy lets calls in before."""
    loading = error.refusal.reason is Reason.LOADING
    return loading or any(words in error.message for words in STARTING)


def misdirected(message: str) -> bool:
    """Return whether a connection failed for a cause that stays: TLS, names, authorities, port."""
    return any(words in message for words, means in CONNECTIONS.items() if means != RENEW)
