"""Priorities that the clients and the command line send."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headlight import AsyncClient, Client, InvalidInput
from headlight.cli.commands import main, parser
from headlight.client.calls.unary_calls import occlusion_request
from headlight.outputs.contract import numbers_of
from headlight.pb import headlight_pb2 as pb
from headlight.spec import PRIORITIES, AttentionSpec
from headlight.wire import reading_codec
from tests.headlight.fake_server import FakeServicer

CALLS: list[Callable[..., Any]] = [
    lambda client, **said: client.encode(["a"], **said),
    lambda client, **said: client.encode_tokens(["a"], **said),
    lambda client, **said: client.token_vectors(["a"], **said),
    lambda client, **said: client.attend("a", **said),
    lambda client, **said: client.attention(["a"], AttentionSpec(), **said),
    lambda client, **said: list(client.attention_pieces("a", AttentionSpec(), **said)),
    lambda client, **said: client.attention_bytes("a", AttentionSpec(), **said),
    lambda client, **said: client.hidden("a", **said),
]


@pytest.mark.parametrize("call", CALLS)
def test_every_method_sends_the_priority(
    client: Client, servicer: FakeServicer, call: Callable[..., Any]
) -> None:
    for said in ({}, {"priority": "interactive"}, {"priority": "bulk"}):
        call(client, **said)
    assert [request.priority for request in servicer.encoded] == [
        0,
        pb.PRIORITY_INTERACTIVE,
        pb.PRIORITY_BULK,
    ]
    with pytest.raises(InvalidInput, match='priority: must be None, "interactive" or "bulk"'):
        call(client, priority="soon")


def test_occlude_sends_the_priority_and_tokenize_has_none(client: Client) -> None:
    assert occlusion_request("", "one", None, {"priority": "bulk"}).priority == pb.PRIORITY_BULK
    with pytest.raises(TypeError, match="priority"):
        client.tokenize(["a"], priority="bulk")  # type: ignore[call-arg]


def test_each_request_of_a_long_list_has_the_priority(
    client: Client, servicer: FakeServicer
) -> None:
    client.encode(["a"] * 30, priority="bulk")
    assert len(servicer.encoded) > 1
    assert {request.priority for request in servicer.encoded} == {pb.PRIORITY_BULK}


async def test_the_asyncio_client_sends_the_priority(target: str, servicer: FakeServicer) -> None:
    async with AsyncClient(target) as client:
        await client.encode(["a"], priority="bulk")
        await client.attend("a", priority="bulk")
    assert [request.priority for request in servicer.encoded] == [pb.PRIORITY_BULK] * 2


def test_priority_names_match_their_enum_numbers() -> None:
    for name in PRIORITIES:
        assert reading_codec.priority_of(numbers_of("Priority")[name]) == name
    assert reading_codec.priority_of(pb.PRIORITY_UNSPECIFIED) == "interactive"
    assert set(numbers_of("Priority")) == set(PRIORITIES)
    with pytest.raises(
        InvalidInput, match="priority: 7 is not known to this server; see the contract, or leave"
    ):
        reading_codec.priority_of(7)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["embed", "one"], pb.PRIORITY_UNSPECIFIED),
        (["embed"], pb.PRIORITY_BULK),  # standard input
        (["embed", "--file", "FILE"], pb.PRIORITY_BULK),
        (["embed", "--file", "FILE", "--priority", "interactive"], pb.PRIORITY_INTERACTIVE),
        (["embed", "one", "--priority", "bulk"], pb.PRIORITY_BULK),
        (["heads", "--file", "FILE"], pb.PRIORITY_BULK),
        (["heads", "one two three"], pb.PRIORITY_UNSPECIFIED),
        (["attend", "--file", "FILE"], pb.PRIORITY_UNSPECIFIED),  # one text, for a person
        (["attend", "one", "--priority", "bulk"], pb.PRIORITY_BULK),
    ],
)
def test_the_command_line_sends_files_and_pipes_as_bulk(
    target: str,
    servicer: FakeServicer,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    arguments: list[str],
    expected: int,
) -> None:
    monkeypatch.setattr(
        sys, "stdin", io.TextIOWrapper(io.BytesIO(b"one two three\n"), encoding="utf-8")
    )
    (tmp_path / "FILE").write_text("one two three\n")
    monkeypatch.chdir(tmp_path)
    assert main([*arguments, "--target", target]) == 0
    assert {request.priority for request in servicer.encoded} == {expected}


@pytest.mark.parametrize("command", ["embed", "attend", "heads"])
def test_help_shows_the_default_priority(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parser().parse_args([command, "--help"])
    text = " ".join(capsys.readouterr().out.split())
    assert (
        "--priority {interactive,bulk} bulk lets everybody else's requests go first; default:"
        in text
    )
