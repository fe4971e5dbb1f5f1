"""TLS and tokens of the clients, against a real server.

Trust, client certificates, tokens, and changes of their files.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from concurrent import futures
from pathlib import Path
from typing import Any

import grpc
import pytest

from headlight import AsyncClient, Client, Unauthenticated, Unavailable
from headlight.cli import commands
from headlight.client.reloading_channel import ReloadingChannel
from headlight.pb import headlight_pb2 as pb
from headlight.pb.headlight_pb2_grpc import add_HeadlightServiceServicer_to_server
from tests.certificates import Authority, Pair
from tests.headlight.fake_server import FakeServicer, default_limits

TOKEN = "a-token-of-somebody"


class Watching(FakeServicer):
    """Servicer that records each caller's certificate name and token; checks it if `strict`.

    Holds calls while `gate` is clear.
    """

    strict, token = False, TOKEN

    def __init__(self) -> None:
        super().__init__(default_limits())
        self.seen: list[tuple[str, str]] = []
        self.gate = threading.Event()
        self.gate.set()
        self.waiting = threading.Semaphore(0)

    def GetModel(self, request: pb.GetModelRequest, context: Any) -> pb.GetModelResponse:
        token = dict(context.invocation_metadata()).get("authorization", "")
        [name] = context.auth_context().get("x509_common_name", [b""])
        self.seen.append((name.decode(), token))
        if self.strict and token != f"Bearer {self.token}":
            context.abort(grpc.StatusCode.UNAUTHENTICATED, "the token is wrong")
        self.waiting.release()
        assert self.gate.wait(30)
        return super().GetModel(request, context)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("access") / "authority")


@pytest.fixture
def watching() -> Watching:
    return Watching()


@contextlib.contextmanager
def serving(servicer: Watching, authority: Authority | None, mutual: bool = False) -> Iterator[str]:
    server = grpc.server(futures.ThreadPoolExecutor(4))
    add_HeadlightServiceServicer_to_server(servicer, server)
    if authority is None:
        port = server.add_insecure_port("127.0.0.1:0")
    else:
        own, root = authority.sign("server", "DNS:headlight.test"), authority.cert.read_bytes()
        pairs = [(own.key.read_bytes(), own.cert.read_bytes())]
        port = server.add_secure_port(
            "127.0.0.1:0", grpc.ssl_server_credentials(pairs, root if mutual else None, mutual)
        )
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        servicer.gate.set()
        server.stop(None).wait()


def open_channels(client: Client | AsyncClient) -> list[Any]:
    assert isinstance(client._channel, ReloadingChannel)
    return client._channel.channels


NAMED = {"tls_server_name": "headlight.test"}


def test_only_the_configured_authority_is_trusted(
    watching: Watching, authority: Authority, tmp_path: Path
) -> None:
    with serving(watching, authority) as target:
        with Client(target, tls_ca=authority.cert, tls_server_name="headlight.test") as client:
            assert client.model().name == "fake"
        for wrong in (
            {"tls_ca": Authority(tmp_path / "other").cert, **NAMED},
            {"tls_ca": authority.cert},
            {},
        ):
            arguments: Any = wrong
            with Client(target, timeout=20, **arguments) as client, pytest.raises(Unavailable):
                client.model()


def test_a_changed_client_certificate_is_used_on_a_new_connection(
    watching: Watching, authority: Authority, tmp_path: Path
) -> None:
    first, second = authority.sign("first"), authority.sign("second")
    shown = Pair(tmp_path / "tls.crt", tmp_path / "tls.key")
    first.write_to(*shown)
    with (
        serving(watching, authority, mutual=True) as target,
        Client(
            target,
            tls_ca=authority.cert,
            tls_cert=shown.cert,
            tls_key=shown.key,
            tls_server_name="headlight.test",
        ) as client,
    ):
        client.model()
        watching.gate.clear()
        running: list[Any] = []
        caller = threading.Thread(target=lambda: running.append(client.model()))
        caller.start()
        for _ in range(2):
            assert watching.waiting.acquire(timeout=30)
        shown.cert.write_bytes(second.cert.read_bytes())  # half of it: the old pair stays
        watching.gate.set()
        client.model()
        shown.key.write_bytes(second.key.read_bytes())
        client.model()
        caller.join()
        assert running[0].name == "fake", "the call that ran when the files changed was answered"
        assert [name for name, _ in watching.seen] == ["first", "first", "first", "second"]
        client.model()
        assert len(open_channels(client)) == 1, (
            "the connection before is closed once nothing runs on it"
        )


async def test_a_changed_client_certificate_is_used_with_asyncio(
    watching: Watching, authority: Authority, tmp_path: Path
) -> None:
    first, second = authority.sign("first"), authority.sign("second")
    shown = Pair(tmp_path / "tls.crt", tmp_path / "tls.key")
    first.write_to(*shown)
    token_file = tmp_path / "token"
    token_file.write_text("one\n", encoding="ascii")
    with serving(watching, authority, mutual=True) as target:
        async with AsyncClient(
            target,
            tls_ca=authority.cert,
            tls_cert=shown.cert,
            tls_key=shown.key,
            tls_server_name="headlight.test",
            token_file=token_file,
        ) as client:
            await client.model()
            watching.gate.clear()
            running = asyncio.create_task(client.model())
            for _ in range(2):
                assert await asyncio.to_thread(watching.waiting.acquire, timeout=30)
            second.write_to(*shown)
            token_file.write_text("another\n", encoding="ascii")
            following = asyncio.create_task(client.model())
            assert await asyncio.to_thread(watching.waiting.acquire, timeout=30)
            assert len(open_channels(client)) == 2
            watching.gate.set()
            assert [(await each).name for each in (running, following)] == ["fake", "fake"]
            assert watching.seen == [("first", "Bearer one")] * 2 + [("second", "Bearer another")]
            await client.encode(["a text"])
            await client.attend("a text")
            assert len(open_channels(client)) == 1


def test_a_token_is_sent_with_every_call_and_reloaded_on_change(
    watching: Watching, tmp_path: Path
) -> None:
    watching.strict = True
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n", encoding="ascii")
    with serving(watching, None) as target:
        with Client(target, token=TOKEN) as client:
            assert client.encode(["a text"]).shape[0] == 1
            assert client.attend("a text").weights.ndim == 4
        with Client(target, token_file=file) as client:
            client.model()
            file.write_text("of-another\n", encoding="ascii")
            with pytest.raises(Unauthenticated, match="the token is wrong"):
                client.model()
        with Client(target) as client, pytest.raises(Unauthenticated):
            client.model()


def test_the_command_line_takes_a_token_from_a_file_or_the_environment(
    watching: Watching,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    watching.strict = True
    file = tmp_path / "token"
    file.write_text(TOKEN, encoding="ascii")
    with serving(watching, None) as target:
        command = ["info", "--target", target, "--timeout", "30"]
        assert commands.main([*command, "--token-file", str(file)]) == 0
        for name, value in (("HEADLIGHT_TOKEN_FILE", str(file)), ("HEADLIGHT_TOKEN", TOKEN)):
            with monkeypatch.context() as patch:
                patch.setenv(name, value)
                assert commands.main(command) == 0
        # A token may be replaced on one side a moment before the other.
        assert commands.main(command) == 1
        assert "give one by --token-file" in capsys.readouterr().err
        assert commands.main([*command, "--token-file", str(tmp_path / "none")]) == 2
        assert "token_file: " in capsys.readouterr().err


def test_the_command_line_supports_tls(watching: Watching, authority: Authority) -> None:
    own = authority.sign("operator")
    with serving(watching, authority, mutual=True) as target:
        command = ["info", "--target", target, "--timeout", "30", "--tls-ca", str(authority.cert)]
        command += ["--tls-cert", str(own.cert), "--tls-key", str(own.key)]
        command += ["--tls-server-name", "headlight.test"]
        assert commands.main(command) == 0
    assert watching.seen == [("operator", "")]


def test_the_command_line_names_the_wrong_tls_option(
    watching: Watching, authority: Authority, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    named, trusted = ["--tls-server-name", "headlight.test"], ["--tls-ca", str(authority.cert)]
    for served_by, options, says in (
        (authority, [*trusted], "give that by --tls-server-name"),
        (authority, [*named], "give that by --tls-ca"),
        (
            authority,
            [*named, "--tls-ca", str(Authority(tmp_path / "other").cert)],
            "give that by --tls-ca",
        ),
        (authority, [], "it may want TLS, by --tls or --tls-ca"),
        (
            None,
            [*trusted, *named],
            "has no TLS: leave out --tls and --tls-..., or name another port by --target",
        ),
    ):
        with serving(watching, served_by) as target:
            assert commands.main(["info", "--target", target, "--timeout", "20", *options]) == 1
        assert says in capsys.readouterr().err
    with serving(watching, authority, mutual=True) as target:
        assert commands.main(["info", "--target", target, "--timeout", "20", *trusted, *named]) == 1
    assert "it may want a certificate, by --tls-cert and --tls-key" in capsys.readouterr().err


def test_tls_errors_are_not_retried(
    watching: Watching, authority: Authority, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Lists of texts otherwise wait for an unavailable service."""
    texts = tmp_path / "texts.txt"
    texts.write_text("a\nb\n", encoding="utf-8")
    with serving(watching, authority) as target:
        assert (
            commands.main(
                ["embed", "--target", target, "--file", str(texts), "--tls-ca", str(authority.cert)]
            )
            == 1
        )
    [line] = capsys.readouterr().err.splitlines()
    assert line.endswith("give that by --tls-server-name")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"tls_cert": "c"}, "tls_cert, tls_key: give both"),
        ({"token": "a", "token_file": "b"}, "token, token_file: give one"),
        ({"token": "two words"}, "token: must be one word"),
        ({"token": "line\n"}, "token: must be one word"),
        ({"token_file": "/nowhere/at/all"}, "token_file: /nowhere/at/all cannot be read"),
        ({"tls_ca": "/nowhere/at/all"}, "tls_ca: /nowhere/at/all cannot be read"),
        ({"tls_ca": __file__}, "tls_ca: the file of authorities holds no certificate"),
        (
            {"tls_ca": "a", "credentials": grpc.ssl_channel_credentials()},
            "credentials, tls_ca: give one",
        ),
    ],
)
def test_invalid_arguments_are_named(arguments: Any, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        Client("127.0.0.1:1", **arguments)


def test_without_credential_files_the_channel_is_used_directly() -> None:
    with Client("127.0.0.1:1") as client:
        assert isinstance(client._channel, grpc.Channel)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"one\nsecret\n", "token_file: must be one word of visible ASCII characters"),
        (b"s\xc3\xa9cret", "token_file: must be one word of visible ASCII characters"),
        (None, "token_file: .* cannot be read: No such file or directory"),
    ],
)
async def test_a_failed_token_reload_is_reported_when_the_old_token_is_refused(
    watching: Watching, tmp_path: Path, content: bytes | None, says: str
) -> None:
    file = tmp_path / "token"
    file.write_text(TOKEN, encoding="ascii")
    watching.strict = True
    with serving(watching, None) as target:
        async with AsyncClient(target, token_file=file) as other:
            with Client(target, token_file=file) as client:
                client.model()
                await other.model()
                file.unlink() if content is None else file.write_bytes(content)
                client.model()
                watching.token = "of-another"
                says = rf"^the token is wrong; {says}, and what was there before is still used$"
                for _ in range(2):  # also in later calls
                    with pytest.raises(Unauthenticated, match=says) as caught:
                        client.model()
                    assert "cret" not in str(caught.value)
                with pytest.raises(Unauthenticated, match=says):
                    await other.model()
                # Another length than before: two writes may have the same
                # time stamp.
                file.write_text("a-third-token", encoding="ascii")
                with pytest.raises(Unauthenticated, match=r"^the token is wrong$"):
                    client.model()


def test_a_failed_certificate_reload_is_reported_when_connecting_fails(
    authority: Authority, tmp_path: Path
) -> None:
    trusted = tmp_path / "ca.crt"
    trusted.write_bytes(authority.cert.read_bytes())
    with Client("127.0.0.1:1", tls_ca=trusted, wait_for_ready=0) as client:
        trusted.write_bytes(b"half of it")
        with pytest.raises(
            Unavailable,
            match=r"; tls_ca: .* holds no certificate .*, and what was there before is still used$",
        ):
            client.model()
