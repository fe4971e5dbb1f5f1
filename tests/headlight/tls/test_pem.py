"""Certificates and keys are checked before they are used."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent import futures
from pathlib import Path
from typing import Any

import grpc
import pytest

from headlight.pb.headlight_pb2 import GetModelRequest
from headlight.pb.headlight_pb2_grpc import HeadlightServiceStub
from headlight.tls.pem import PemError, Role, check_authorities, check_pair
from tests.certificates import Authority, Pair, openssl


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("pem") / "authority")


@pytest.fixture(scope="module")
def pair(authority: Authority) -> Pair:
    return authority.sign("good")


def check(certificate: Path, key: Path, role: Role = "server") -> float:
    return check_pair(certificate.read_bytes(), key.read_bytes(), role)


@pytest.mark.parametrize("role", ["server", "client"])
def test_a_valid_pair_reports_its_expiry(pair: Pair, role: Role) -> None:
    assert check(*pair, role) - time.time() == pytest.approx(5 * 86400, abs=600)


def test_a_chain_may_follow_the_certificate(authority: Authority, pair: Pair) -> None:
    chain = pair.cert.read_bytes() + authority.cert.read_bytes()
    assert check_pair(chain, pair.key.read_bytes(), "server") == check(*pair)


def test_a_key_of_another_certificate_is_refused(authority: Authority, pair: Pair) -> None:
    with pytest.raises(PemError, match="the key is not that of the certificate"):
        check(pair.cert, authority.sign("other").key)


def test_an_expired_certificate_is_refused(authority: Authority) -> None:
    with pytest.raises(PemError, match="has expired"):
        check(*authority.sign("old", days=-1))


@pytest.mark.parametrize(("role", "usage"), [("server", "clientAuth"), ("client", "serverAuth")])
def test_a_certificate_for_another_usage_is_refused(
    authority: Authority, role: Role, usage: str
) -> None:
    found = authority.sign(usage, usage=usage)
    with pytest.raises(PemError, match="purpose"):
        check(*found, role)
    check(*found, "client" if role == "server" else "server")


@pytest.mark.parametrize("share", [0, 0.2, 0.9])
def test_a_half_written_file_is_refused(pair: Pair, share: float) -> None:
    certificate, key = pair.cert.read_bytes(), pair.key.read_bytes()
    with pytest.raises(PemError):
        check_pair(certificate[: int(share * len(certificate))], key, "server")
    with pytest.raises(PemError):
        check_pair(certificate, key[: int(share * len(key))], "server")


@pytest.mark.parametrize("left", [10, 40, 300])
def test_a_half_written_chain_is_refused(authority: Authority, pair: Pair, left: int) -> None:
    chain = pair.cert.read_bytes() + authority.cert.read_bytes()[:left]
    with pytest.raises(PemError):
        check_pair(chain, pair.key.read_bytes(), "server")
    with pytest.raises(PemError):
        check_authorities(chain)


def test_an_encrypted_key_is_refused_with_the_remedy(pair: Pair, tmp_path: Path) -> None:
    locked = tmp_path / "locked.key"
    openssl("pkcs8", "-topk8", "-in", pair.key, "-out", locked, "-passout", "pass:secret")
    with pytest.raises(PemError, match="without a passphrase"):
        check(pair.cert, locked)


@pytest.mark.parametrize(
    "spoil", [lambda text: b"", lambda text: b"\x30\x82\x00\xff", lambda text: text[100:]]
)
def test_a_file_without_a_certificate_is_refused(
    pair: Pair, spoil: Callable[[bytes], bytes]
) -> None:
    with pytest.raises(PemError):
        check_authorities(spoil(pair.cert.read_bytes()))


def test_authorities_are_refused_only_if_all_have_expired(
    authority: Authority, tmp_path: Path
) -> None:
    old = Authority(tmp_path / "old", days=-1).cert.read_bytes()
    check_authorities(authority.cert.read_bytes() + old)
    with pytest.raises(PemError, match="have expired"):
        check_authorities(old)


def test_a_pair_must_be_signed_by_the_configured_authority(
    authority: Authority, pair: Pair, tmp_path: Path
) -> None:
    other, namesake = Authority(tmp_path / "other"), Authority(tmp_path / "namesake" / "authority")
    own, certificate, key = (
        authority.cert.read_bytes(),
        pair.cert.read_bytes(),
        pair.key.read_bytes(),
    )
    expires = check_pair(certificate, key, "server", own)
    assert expires == check_pair(certificate, key, "server", other.cert.read_bytes() + own)
    with_root = certificate + own  # including its authority does not make it trusted
    for foreign in (other, namesake):
        for chain in (certificate, with_root):
            with pytest.raises(
                PemError, match="it does not come from an authority that it must come from"
            ):
                check_pair(chain, key, "server", foreign.cert.read_bytes())
    expired = authority.sign("expired", days=-1)
    with pytest.raises(PemError, match="refused: certificate has expired"):
        check_pair(expired.cert.read_bytes(), expired.key.read_bytes(), "server", own)
    with pytest.raises(
        PemError, match="the file of the certificate's own authorities holds no certificate"
    ):
        check_pair(certificate, key, "server", b"")


def test_intermediate_certificates_follow_the_certificate(
    authority: Authority, tmp_path: Path
) -> None:
    between = Authority(tmp_path / "between", above=authority)
    cert, key = between.sign("below")
    chain, root = cert.read_bytes() + between.cert.read_bytes(), authority.cert.read_bytes()
    check_pair(chain, key.read_bytes(), "server", root)
    check_pair(cert.read_bytes(), key.read_bytes(), "server", between.cert.read_bytes())
    with pytest.raises(PemError, match="its intermediates are not behind it"):
        check_pair(cert.read_bytes(), key.read_bytes(), "server", root)


def grpc_takes(pair: Pair, shown: Pair | None = None) -> bool:
    """Return whether a gRPC client and a gRPC server with `pair` connect.

    The client uses `shown`.
    """
    server = grpc.server(futures.ThreadPoolExecutor(1))
    root = None if shown is None else shown.cert.read_bytes()
    server_credentials = grpc.ssl_server_credentials(
        [(pair.key.read_bytes(), pair.cert.read_bytes())], root, bool(root)
    )
    try:
        port = server.add_secure_port("127.0.0.1:0", server_credentials)
    except RuntimeError:
        return False
    server.start()
    own = (None, None) if shown is None else (shown.key.read_bytes(), shown.cert.read_bytes())
    client_credentials = grpc.ssl_channel_credentials(pair.cert.read_bytes(), *own)
    try:
        with grpc.secure_channel(f"localhost:{port}", client_credentials) as channel:
            HeadlightServiceStub(channel).GetModel(GetModelRequest(), timeout=30)
    except grpc.RpcError as error:
        failed: Any = error
        assert failed.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.UNIMPLEMENTED), failed
        return failed.code() is grpc.StatusCode.UNIMPLEMENTED
    finally:
        server.stop(None).wait()
    raise AssertionError("the server has no methods")


@pytest.mark.parametrize(
    ("name", "usable"),
    [
        ("rsa:2048", True),
        ("P-256", True),
        ("P-384", True),
        ("P-521", False),
        ("ed25519", False),
        ("rsa-pss", False),
    ],
)
def test_a_key_that_grpc_cannot_use_is_refused(
    authority: Authority, pair: Pair, name: str, usable: bool
) -> None:
    """Otherwise a reload would activate a pair with which no client can connect."""
    options = ("ec", "-pkeyopt", f"ec_paramgen_curve:{name}") if name.startswith("P-") else (name,)
    found = authority.sign(name.replace(":", "-"), key=("-newkey", *options, "-nodes"))
    assert grpc_takes(found) is usable
    assert grpc_takes(pair, shown=found) is usable
    roles: tuple[Role, Role] = ("server", "client")
    for role in roles:
        if usable:
            check(*found, role)
        else:
            with pytest.raises(
                PemError,
                match="gRPC cannot use this kind of key; use one of RSA, ECDSA P-256, ECDSA",
            ):
                check(*found, role)


def test_error_messages_do_not_quote_file_contents(pair: Pair) -> None:
    key = pair.key.read_bytes()
    body = key.splitlines()[1]
    with pytest.raises(PemError) as error:
        check_pair(pair.cert.read_bytes(), key.replace(body, body[::-1]), "server")
    assert body.decode() not in str(error.value)
    assert body[::-1].decode() not in str(error.value)
