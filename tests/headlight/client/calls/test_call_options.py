"""Options of single calls, priority and special tokens, as the clients send them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from headlight import AsyncClient, Client, InvalidInput
from headlight.cli.commands import main
from headlight.client.calls.unary_calls import occlusion_request
from headlight.pb import headlight_pb2 as pb
from headlight.spec import AttentionSpec
from tests.headlight.fake_server import FakeServicer

CALLS: list[Callable[..., Any]] = [
    lambda client, **options: client.encode(["a"], **options),
    lambda client, **options: client.encode_with_info(["a"], **options),
    lambda client, **options: client.encode_tokens(["a"], **options),
    lambda client, **options: client.token_vectors(["a"], **options),
    lambda client, **options: client.attend("a", **options),
    lambda client, **options: client.attention(["a"], AttentionSpec(), **options),
    lambda client, **options: list(client.attention_pieces("a", AttentionSpec(), **options)),
    lambda client, **options: client.attention_bytes("a", AttentionSpec(), **options),
    lambda client, **options: client.hidden("a", **options),
]
# By option: the values that a caller may give, as they are sent; the first is left out.
SENT: dict[str, dict[str | None, int]] = {
    "priority": {None: 0, "interactive": pb.PRIORITY_INTERACTIVE, "bulk": pb.PRIORITY_BULK},
    "special_tokens": {None: 0, "parse": pb.SPECIAL_TOKENS_PARSE, "text": pb.SPECIAL_TOKENS_TEXT},
}


def given(option: str) -> list[Any]:
    """Return the keyword arguments of each value."""
    return [{} if value is None else {option: value} for value in SENT[option]]


@pytest.mark.parametrize("call", CALLS)
def test_every_method_sends_its_options(
    client: Client, servicer: FakeServicer, call: Callable[..., Any]
) -> None:
    for option, values in SENT.items():
        servicer.encoded.clear()
        for arguments in given(option):
            call(client, **arguments)
        assert [getattr(request, option) for request in servicer.encoded] == [*values.values()]
        first, last = list(values)[1:]
        for wrong in ("soon", ["text"], 2):
            says = f'^{option}: must be None, "{first}" or "{last}"'
            with pytest.raises(InvalidInput, match=says):
                call(client, **{option: wrong})


@pytest.mark.parametrize("option", SENT)
async def test_the_asyncio_client_and_occlude_send_the_option(
    target: str, servicer: FakeServicer, option: str
) -> None:
    async with AsyncClient(target) as client:
        for arguments in given(option):
            await client.encode(["a"], **arguments)
    sent = [getattr(request, option) for request in servicer.encoded]
    occluded = [
        getattr(occlusion_request("", "one", None, arguments), option)
        for arguments in given(option)
    ]
    assert sent == occluded == [*SENT[option].values()]


def test_tokenize_has_special_tokens_and_no_priority(
    client: Client, servicer: FakeServicer
) -> None:
    for arguments in given("special_tokens"):
        client.tokenize(["a"], **arguments)
    sent = [request.special_tokens for request in servicer.tokenized]
    assert sent == [*SENT["special_tokens"].values()]
    with pytest.raises(TypeError, match="priority"):
        client.tokenize(["a"], priority="bulk")  # type: ignore[call-arg]


@pytest.mark.parametrize("command", ["embed", "attend", "heads", "tokens"])
def test_the_command_line_sends_the_special_tokens_option(
    target: str, servicer: FakeServicer, command: str
) -> None:
    for arguments in ([], ["--special-tokens", "parse"], ["--special-tokens", "text"]):
        assert main([command, "one two three", *arguments, "--target", target]) == 0
    requests = servicer.tokenized if command == "tokens" else servicer.encoded
    sent = list(dict.fromkeys(request.special_tokens for request in requests))
    assert sent == [*SENT["special_tokens"].values()]


def test_a_service_that_does_not_declare_the_option_parses_special_tokens(client: Client) -> None:
    assert client.model().special_tokens == "parse"
