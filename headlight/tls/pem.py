"""Certificates and keys for TLS, as PEM: checked before they are used, by what Python brings along.

A certificate and its key are tried on each other, in one handshake in memory. So whatever TLS would refuse is refused here, in
words, and before anyone connects: a key of another certificate, a file half written, one that has expired or is of no use here.
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
# By how certificates name them: of all that OpenSSL takes, what gRPC's clients and servers take from each other.
KEYS = {
    "RSA": bytes.fromhex("06092a864886f70d010101"),
    "ECDSA P-256": bytes.fromhex("06072a8648ce3d020106082a8648ce3d030107"),
    "ECDSA P-384": bytes.fromhex("06072a8648ce3d020106052b81040022"),
}
FOREIGN = {2, 7, 18, 19, 20, 21}  # OpenSSL's X509_V_ERR_*: nobody known has signed it, or somebody else of that name
FLIGHTS = 4  # turns that the two sides of a handshake take, and one more to read what the other thinks of it


class PemError(ValueError):
    """What a file holds cannot be used; the message says why, and quotes none of it."""


def check_pair(certificate: bytes, key: bytes, role: Role, authorities: bytes | None = None) -> float:
    """See that a certificate and a key can be used.

    Args:
        certificate: PEM, its intermediate certificates behind it.
        key: PEM, not encrypted.
        role: of whoever shows it.
        authorities: PEM, from one of which it must come; None: it is trusted itself, whoever issued it.

    Returns:
        When the certificate expires, in seconds since the epoch.

    Raises:
        PemError: it has, or they do not fit each other, or either is incomplete, or comes from elsewhere, or has a key of a kind
            that gRPC cannot use.
    """
    if authorities is not None:
        check_authorities(authorities, "the file of the certificate's own authorities")
    text = _text(certificate, "the certificate")
    if b"ENCRYPTED" in key:
        raise PemError("the key is encrypted; give it without a passphrase, in a file that nobody else can read")
    own, other = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if role == "client":
        own, other = other, own
    for context in (own, other):  # each checks what it is told to, and no names
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    with _as_file(certificate) as first, _as_file(key) as second:
        _load(own, first, second)
        if role == "client":
            _load(other, first, second)  # some certificate is needed for that side, too
    other.verify_mode = ssl.CERT_REQUIRED
    other.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # what is trusted need not be a root, as for gRPC's clients
    try:
        other.load_verify_locations(cadata=text if authorities is None else authorities.decode("ascii"))
        peer, found = _shake_hands(own, other, role)
    except ssl.SSLCertVerificationError as error:
        if authorities is not None and error.verify_code in FOREIGN:
            raise PemError(
                "the certificate is refused: it does not come from an authority that it must come from, or its"
                f" intermediates are not behind it ({error.verify_message})"
            ) from None
        raise PemError(f"the certificate is refused: {error.verify_message}") from None
    except (ssl.SSLError, ValueError) as error:
        raise PemError(f"the certificate cannot be used: {_reason(error)}") from None
    if not any(begin in found for begin in KEYS.values()):
        raise PemError(f"the key is of a kind that gRPC cannot use; it must be one of {', '.join(KEYS)}")
    return float(ssl.cert_time_to_seconds(peer["notAfter"]))


def check_authorities(certificates: bytes, what: str = "the file of authorities") -> None:
    """See that certificates of authorities can be used: at least one, all complete, not all of them expired.

    Args:
        certificates: PEM.
        what: to call it.

    Raises:
        PemError: they cannot.
    """
    text, context = _text(certificates, what), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.load_verify_locations(cadata=text)
    except (ssl.SSLError, ValueError) as error:
        raise PemError(f"{what} cannot be used: {_reason(error)}") from None
    known: list[Any] = context.get_ca_certs()
    ends = [ssl.cert_time_to_seconds(found["notAfter"]) for found in known]
    if len(ends) == context.cert_store_stats()["x509"] and max(ends) <= time.time():
        raise PemError("the certificates of the authorities have expired")


def _text(pem: bytes, what: str) -> str:
    try:
        text = pem.decode("ascii")
    except UnicodeDecodeError:
        raise PemError(f"{what} is not PEM; convert it by openssl x509 -inform DER") from None
    if "-----BEGIN CERTIFICATE-----" not in text:
        raise PemError(f"{what} holds no certificate (-----BEGIN CERTIFICATE-----)")
    if text.count("-----") % 4:  # cut within a line that begins a further one, which no parser minds
        raise PemError(f"{what} is incomplete")
    return text


@contextlib.contextmanager
def _as_file(content: bytes) -> Iterator[str]:
    """A path, since that is all that `ssl` takes; on Linux to memory, so that no key is written to a disk."""
    with contextlib.ExitStack() as stack:
        if hasattr(os, "memfd_create"):
            file = stack.enter_context(os.fdopen(os.memfd_create("pem"), "wb", buffering=0))
            path = f"/proc/self/fd/{file.fileno()}"
        else:
            path = os.path.join(stack.enter_context(tempfile.TemporaryDirectory()), "pem")  # for us alone
            file = stack.enter_context(open(path, "wb", buffering=0))
        file.write(content)
        yield path


def _load(context: ssl.SSLContext, certificate: str, key: str) -> None:
    try:
        context.load_cert_chain(certificate, key, password=lambda: b"")  # never ask a terminal
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise PemError("the key is not that of the certificate") from None
        raise PemError(f"the certificate or the key is incomplete or damaged: {_reason(error)}") from None


def _shake_hands(own: ssl.SSLContext, other: ssl.SSLContext, role: Role) -> tuple[dict[str, Any], bytes]:
    """One handshake in memory -> the certificate that the other side saw, in words and as DER."""
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = own.wrap_bio(there, back, server_side=role == "server")
    theirs = other.wrap_bio(back, there, server_side=role == "client")
    for _ in range(FLIGHTS):
        for side in (theirs, ours):
            with contextlib.suppress(ssl.SSLWantReadError):
                side.do_handshake()
    seen: Any = theirs.getpeercert()
    return dict(seen), theirs.getpeercert(binary_form=True) or b""


def _reason(error: Exception) -> str:
    """In OpenSSL's words, which quote nothing of the file."""
    reason = error.reason if isinstance(error, ssl.SSLError) else None
    return (reason or "not PEM").replace("_", " ").lower()
