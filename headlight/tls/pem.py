"""Checks of certificates and keys for TLS, as PEM, with Python's own `ssl`.

A certificate and its key run one handshake in memory. So everything that TLS would refuse is
refused before a connection, with a message: a key of another certificate, a half-written file, an
expired or unsuitable certificate.
"""

from __future__ import annotations

import contextlib
import os
import ssl
import tempfile
import time
from collections.abc import Iterator
from typing import Any, Literal

Role = Literal["server", "client"]
# The kinds of keys that gRPC's clients and servers accept, by their encoding in certificates.
# OpenSSL accepts more.
KEYS = {
    "RSA": bytes.fromhex("06092a864886f70d010101"),
    "ECDSA P-256": bytes.fromhex("06072a8648ce3d020106082a8648ce3d030107"),
    "ECDSA P-384": bytes.fromhex("06072a8648ce3d020106052b81040022"),
}
# OpenSSL's X509_V_ERR_*: the issuer is unknown, or another of the same name
FOREIGN = {2, 7, 18, 19, 20, 21}
FLIGHTS = 4  # of a handshake, plus one to read the other side's verdict


class PemError(ValueError):
    """Content of a file that cannot be used; the message has the reason, and quotes none of it."""


def check_pair(
    certificate: bytes, key: bytes, role: Role, authorities: bytes | None = None
) -> float:
    """Check that a certificate and a key can be used.

    Args:
        certificate: PEM, with its intermediate certificates behind it.
        key: PEM, not encrypted.
        role: role of the side that shows it.
        authorities: PEM, one of which must have issued it; None: the certificate itself is trusted,
            regardless of its issuer.

    Returns:
        The expiry of the certificate, in seconds since the epoch.

    Raises:
        PemError: the certificate has expired, the key is not its key, either is incomplete, the
            issuer is not one of the authorities, or gRPC cannot use keys of this kind.
    """
    if authorities is not None:
        check_authorities(authorities, "the file of the certificate's own authorities")
    text = _text(certificate, "the certificate")
    if b"ENCRYPTED" in key:
        raise PemError(
            "the key is encrypted; give it without a passphrase, "
            "in a file that only its owner can read"
        )
    tested, other = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if role == "client":
        tested, other = other, tested
    for context in (tested, other):  # set explicitly below; names are not checked
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    with _as_file(certificate) as first, _as_file(key) as second:
        _load(tested, first, second)
        if role == "client":
            _load(other, first, second)  # that side needs a certificate too, any one
    other.verify_mode = ssl.CERT_REQUIRED
    # a trusted certificate need not be a root, as for gRPC's clients
    other.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    try:
        other.load_verify_locations(
            cadata=text if authorities is None else authorities.decode("ascii")
        )
        peer, der = _shake_hands(tested, other, role)
    except ssl.SSLCertVerificationError as error:
        if authorities is not None and error.verify_code in FOREIGN:
            raise PemError(
                "the certificate is refused: it does not come from an authority that it must come "
                f"from, or its intermediates are not behind it ({error.verify_message})"
            ) from None
        raise PemError(f"the certificate is refused: {error.verify_message}") from None
    except (ssl.SSLError, ValueError) as error:
        raise PemError(f"the certificate cannot be used: {_reason(error)}") from None
    if not any(begin in der for begin in KEYS.values()):
        raise PemError(f"gRPC cannot use this kind of key; use one of {', '.join(KEYS)}")
    return float(ssl.cert_time_to_seconds(peer["notAfter"]))


def server_context(
    certificate: bytes, key: bytes, client_authorities: bytes | None = None
) -> ssl.SSLContext:
    """Return a context of HTTP/1.1 servers, of checked files.

    Args:
        certificate: PEM, with its intermediate certificates behind it.
        key: PEM, not encrypted.
        client_authorities: PEM, one of which must have issued each client's certificate; None:
            clients need none.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    with _as_file(certificate) as first, _as_file(key) as second:
        _load(context, first, second)
    if client_authorities is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        # an intermediate authority may stand alone, as for gRPC
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        context.load_verify_locations(cadata=client_authorities.decode("ascii"))
    return context


def check_authorities(certificates: bytes, what: str = "the file of authorities") -> None:
    """Check certificates of authorities: at least one, all complete, not all expired.

    Args:
        certificates: PEM.
        what: their name in the message.

    Raises:
        PemError: they cannot be used.
    """
    text, context = _text(certificates, what), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.load_verify_locations(cadata=text)
    except (ssl.SSLError, ValueError) as error:
        raise PemError(f"{what} cannot be used: {_reason(error)}") from None
    known: list[Any] = context.get_ca_certs()
    ends = [ssl.cert_time_to_seconds(certificate["notAfter"]) for certificate in known]
    if len(ends) == context.cert_store_stats()["x509"] and max(ends) <= time.time():
        raise PemError("the certificates of the authorities have expired")


def _text(pem: bytes, what: str) -> str:
    try:
        text = pem.decode("ascii")
    except UnicodeDecodeError:
        raise PemError(f"{what} is not PEM; convert it by openssl x509 -inform DER") from None
    if "-----BEGIN CERTIFICATE-----" not in text:
        raise PemError(f"{what} holds no certificate (-----BEGIN CERTIFICATE-----)")
    # a file cut inside the BEGIN line of a further certificate, which no parser reports
    if text.count("-----") % 4:
        raise PemError(f"{what} is incomplete")
    return text


@contextlib.contextmanager
def _as_file(content: bytes) -> Iterator[str]:
    """Yield the path of a file, which `ssl` needs; on Linux in memory, so no key is on disk."""
    with contextlib.ExitStack() as stack:
        if hasattr(os, "memfd_create"):
            file = stack.enter_context(os.fdopen(os.memfd_create("pem"), "wb", buffering=0))
            path = f"/proc/self/fd/{file.fileno()}"
        else:
            # readable only by this user
            path = os.path.join(stack.enter_context(tempfile.TemporaryDirectory()), "pem")
            file = stack.enter_context(open(path, "wb", buffering=0))
        file.write(content)
        yield path


def _load(context: ssl.SSLContext, certificate: str, key: str) -> None:
    try:
        context.load_cert_chain(certificate, key, password=lambda: b"")  # never ask a terminal
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise PemError("the key is not that of the certificate") from None
        raise PemError(
            f"the certificate or the key is incomplete or damaged: {_reason(error)}"
        ) from None


def _shake_hands(
    tested: ssl.SSLContext, other: ssl.SSLContext, role: Role
) -> tuple[dict[str, Any], bytes]:
    """Run a handshake in memory. Return the certificate that the other side saw: dict and DER."""
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = tested.wrap_bio(there, back, server_side=role == "server")
    peer = other.wrap_bio(back, there, server_side=role == "client")
    for _ in range(FLIGHTS):
        for side in (peer, ours):
            with contextlib.suppress(ssl.SSLWantReadError):
                side.do_handshake()
    seen: Any = peer.getpeercert()
    return dict(seen), peer.getpeercert(binary_form=True) or b""


def _reason(error: Exception) -> str:
    """Return OpenSSL's reason, which quotes nothing of the file."""
    reason = error.reason if isinstance(error, ssl.SSLError) else None
    return (reason or "not PEM").replace("_", " ").lower()
