"""A service that does not answer: what the error says, in the words of its caller."""

from __future__ import annotations

import traceback
from pathlib import Path

import pytest

import headlight
from headlight import AsyncClient, AttentionSpec, Client, Unavailable
from headlight.cli.shared_options import Undisturbed
from headlight.client.connection_advice import no_answer, proxy_variable
from tests.ports import free_address

PACKAGE = str(Path(headlight.__file__).parent)
FAILED = "connections to all backends failing; last error: "
START = "start a service there, or name another by --target or HEADLIGHT_TARGET"
AT_ONCE = "if there is one, it closed the connection at once: it may want "
REFUSED = "Failed to connect to remote host: Connection refused"
NOT_GRPC = "Failed parsing HTTP/2 (Expected SETTINGS frame as the first frame, got frame type 79)"
NONE, TLS, CERTIFIED = (
    {"tls": False, "certified": False},
    {"tls": True, "certified": False},
    {"tls": True, "certified": True},
)


@pytest.mark.parametrize(
    ("words", "target", "given", "says"),
    [
        (f"UNKNOWN: ipv4:127.0.0.1:1: {REFUSED}", "localhost:1", NONE, START),
        (
            "UNAVAILABLE: ipv4:127.0.0.1:1: Socket closed",
            "localhost:1",
            NONE,
            f"{START}; {AT_ONCE}TLS, by --tls or --tls-ca",
        ),
        (
            "UNAVAILABLE: ipv4:127.0.0.1:1: Socket closed",
            "localhost:1",
            TLS,
            f"{START}; {AT_ONCE}a certificate, by --tls-cert and --tls-key",
        ),
        (
            "UNAVAILABLE: ipv4:127.0.0.1:1: Socket closed",
            "localhost:1",
            CERTIFIED,
            f"{START}; {AT_ONCE}another certificate than that of --tls-cert",
        ),
        (
            f"UNKNOWN: ipv6:%5B::1%5D:1: {REFUSED}",
            "localhost:1",
            NONE,
            f"{START}; that was its IPv6 address: what another one says is told where "
            "--target has it, as 127.0.0.1:PORT",
        ),
        (f"UNKNOWN: ipv6:%5B::1%5D:1: {REFUSED}", "[::1]:1", NONE, START),
        (
            "UNKNOWN: ipv4:127.0.0.1:1: Peer name 127.0.0.1 is not in peer certificate",
            "localhost:1",
            TLS,
            "the certificate there is for another name: give that by --tls-server-name",
        ),
        (
            "Ssl handshake failed: WRONG_VERSION_NUMBER",
            "localhost:1",
            TLS,
            "what answers there has no TLS: leave out --tls and --tls-..., "
            "or name another port by --target",
        ),
        (
            f"UNAVAILABLE: ipv4:127.0.0.1:1: {NOT_GRPC}",
            "localhost:1",
            NONE,
            "that is no gRPC in plaintext: name the port of gRPC by --target, "
            "or give --tls or --tls-ca",
        ),
    ],
)
def test_what_grpc_says_of_a_connection_is_told_with_what_mends_it(
    words: str, target: str, given: dict[str, bool], says: str
) -> None:
    told = no_answer(FAILED + words, target, Undisturbed._spelling, **given)
    assert told == f"no answer from {target} ({FAILED}{words}); {says}"


def test_a_connection_lost_later_was_not_closed_at_once() -> None:
    told = no_answer("Socket closed", "127.0.0.1:1", Undisturbed._spelling, **NONE)
    assert told == f"no answer from 127.0.0.1:1 (Socket closed); {START}"


async def test_a_service_that_is_not_there_is_reported_with_the_arguments_and_in_few_frames() -> (
    None
):
    """As `headlight` on the command line does, whose tests have its words."""
    target = free_address()
    found = []
    with Client(target, wait_for_ready=0) as client:
        for ask in (
            lambda: client.encode("text"),
            lambda: client.attend("text"),
            lambda: list(client.attention_pieces("text", AttentionSpec())),
        ):
            with pytest.raises(Unavailable) as caught:
                ask()
            found.append(caught.value)
    async with AsyncClient(target, wait_for_ready=0) as other:
        with pytest.raises(Unavailable) as caught:
            await other.encode("text")
        found.append(caught.value)
    for error in found:
        assert error.message.startswith(f"no answer from {target} (")
        assert error.message.endswith(
            "); start a service there, or name another by target= or HEADLIGHT_TARGET"
        )
        frames = traceback.extract_tb(error.__traceback__)
        assert len([frame for frame in frames if frame.filename.startswith(PACKAGE)]) <= 6
        assert error.__cause__ is None
        assert error.__suppress_context__


@pytest.mark.parametrize(
    ("target", "environ", "expected"),
    [
        ("127.0.0.1:1", {"http_proxy": "http://p"}, "http_proxy"),
        ("h.test:1", {"http_proxy": "http://p", "grpc_proxy": "http://q"}, "grpc_proxy"),
        ("h.test:1", {"http_proxy": "http://p", "no_proxy": "localhost, .test"}, None),
        ("h.test:1", {"http_proxy": "http://p", "no_proxy": "localhost"}, "http_proxy"),
        ("dns:///h.test:1", {"http_proxy": "http://p", "no_grpc_proxy": "h.test"}, None),
        ("unix:/socket", {"http_proxy": "http://p"}, None),
        ("h.test:1", {}, None),
    ],
)
def test_a_proxy_is_known_unless_the_host_is_exempt(
    target: str, environ: dict[str, str], expected: str | None
) -> None:
    assert proxy_variable(target, environ) == expected


def test_the_proxy_of_a_failed_call_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", f"http://{free_address()}")
    monkeypatch.delenv("no_proxy", raising=False)
    target = free_address()
    with (
        Client(target, wait_for_ready=0) as client,
        pytest.raises(Unavailable, match=r"proxy of http_proxy: add 127\.0\.0\.1 to no_proxy"),
    ):
        client.encode("text")
