"""Certificates and keys are checked before anyone uses them."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from headlight.pem import PemError, Role, check_authorities, check_pair
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
def test_a_pair_that_fits_tells_when_it_expires(pair: Pair, role: Role) -> None:
    assert check(*pair, role) - time.time() == pytest.approx(5 * 86400, abs=600)


def test_a_chain_may_stand_behind_the_certificate(authority: Authority, pair: Pair) -> None:
    chain = pair.cert.read_bytes() + authority.cert.read_bytes()
    assert check_pair(chain, pair.key.read_bytes(), "server") == check(*pair)


def test_a_key_of_another_certificate_is_refused(authority: Authority, pair: Pair) -> None:
    with pytest.raises(PemError, match="the key is not that of the certificate"):
        check(pair.cert, authority.sign("other").key)


def test_an_expired_certificate_is_refused(authority: Authority) -> None:
    with pytest.raises(PemError, match="has expired"):
        check(*authority.sign("old", days=-1))


@pytest.mark.parametrize(("role", "usage"), [("server", "clientAuth"), ("client", "serverAuth")])
def test_a_certificate_for_something_else_is_refused(authority: Authority, role: Role, usage: str) -> None:
    found = authority.sign(usage, usage=usage)
    with pytest.raises(PemError, match="purpose"):
        check(*found, role)
    check(*found, "client" if role == "server" else "server")


@pytest.mark.parametrize("share", [0, 0.01, 0.2, 0.5, 0.9])
def test_what_is_half_written_is_refused(pair: Pair, share: float) -> None:
    certificate, key = pair.cert.read_bytes(), pair.key.read_bytes()
    with pytest.raises(PemError):
        check_pair(certificate[: int(share * len(certificate))], key, "server")
    with pytest.raises(PemError):
        check_pair(certificate, key[: int(share * len(key))], "server")


@pytest.mark.parametrize("left", [10, 40, 300])
def test_a_chain_half_written_is_refused(authority: Authority, pair: Pair, left: int) -> None:
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


@pytest.mark.parametrize("spoil", [lambda text: b"", lambda text: b"\x30\x82\x00\xff", lambda text: text[100:]])
def test_what_is_no_certificate_is_refused(pair: Pair, spoil: Callable[[bytes], bytes]) -> None:
    with pytest.raises(PemError):
        check_authorities(spoil(pair.cert.read_bytes()))


def test_authorities_are_refused_only_where_all_have_expired(authority: Authority, tmp_path: Path) -> None:
    old = Authority(tmp_path / "old", days=-1).cert.read_bytes()
    check_authorities(authority.cert.read_bytes() + old)
    with pytest.raises(PemError, match="have expired"):
        check_authorities(old)


def test_no_message_quotes_a_file(pair: Pair) -> None:
    key = pair.key.read_bytes()
    body = key.splitlines()[1]
    with pytest.raises(PemError) as error:
        check_pair(pair.cert.read_bytes(), key.replace(body, body[::-1]), "server")
    assert body.decode() not in str(error.value)
    assert body[::-1].decode() not in str(error.value)
