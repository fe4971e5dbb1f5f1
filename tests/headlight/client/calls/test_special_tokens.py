"""The special tokens option, as clients and command line send it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from headlight import AsyncClient, Client, InvalidInput
from headlight.cli.commands import main
from headlight.client.calls.unary_calls import occlusion_request
from headlight.pb import headlight_pb2 as pb
from tests.headlight.fake_server import FakeServicer
from tests.headlight.wire.test_priority import CALLS

SENT = [pb.SPECIAL_TOKENS_UNSPECIFIED, pb.SPECIAL_TOKENS_PARSE, pb.SPECIAL_TOKENS_TEXT]
SAID: list[dict[str, Any]] = [{}, {"special_tokens": "parse"}, {"special_tokens": "text"}]


@pytest.mark.parametrize("call", CALLS)
def test_every_method_sends_the_special_tokens_option(
    client: Client, servicer: FakeServicer, call: Callable[..., Any]
) -> None:
    for said in SAID:
        call(client, **said)
    assert [request.special_tokens for request in servicer.encoded] == SENT
    for wrong in ("plain", ["text"], 2):
        with pytest.raises(InvalidInput, match=r'^special_tokens: must be None, "parse" or "text"'):
            call(client, special_tokens=wrong)


def test_tokenize_and_occlude_send_the_special_tokens_option(
    client: Client, servicer: FakeServicer
) -> None:
    for said in SAID:
        client.tokenize(["a"], **said)
    assert [request.special_tokens for request in servicer.tokenized] == SENT
    assert (
        occlusion_request("", "one", None, {"special_tokens": "text"}).special_tokens
        == pb.SPECIAL_TOKENS_TEXT
    )


async def test_the_asyncio_client_sends_the_special_tokens_option(
    target: str, servicer: FakeServicer
) -> None:
    async with AsyncClient(target) as client:
        await client.encode(["a"], special_tokens="text")
        await client.tokenize(["a"], special_tokens="text")
    assert (
        servicer.encoded[0].special_tokens
        == servicer.tokenized[0].special_tokens
        == pb.SPECIAL_TOKENS_TEXT
    )


@pytest.mark.parametrize("command", ["embed", "attend", "heads", "tokens"])
def test_the_command_line_sends_the_special_tokens_option(
    target: str, servicer: FakeServicer, command: str
) -> None:
    for arguments in ([], ["--special-tokens", "parse"], ["--special-tokens", "text"]):
        assert main([command, "one two three", *arguments, "--target", target]) == 0
    requests = servicer.tokenized if command == "tokens" else servicer.encoded
    assert list(dict.fromkeys(request.special_tokens for request in requests)) == SENT


def test_a_service_that_does_not_declare_the_option_parses_special_tokens(client: Client) -> None:
    assert client.model().special_tokens == "parse"
