"""Validation of arguments before anything is sent: accepted values and errors."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from headlight import AsyncClient, AttentionSpec, Client, DeadlineExceeded, Run
from headlight.client.calls.unary_calls import occlusion_request
from headlight.errors import InvalidInput
from headlight.outputs.contract import selector_of
from headlight.outputs.registry import OUTPUTS
from headlight.spec import HiddenSpec, indices_of
from tests.headlight.fake_server import FakeServicer


@pytest.mark.parametrize("layer", [np.int64(2), np.array([2]), range(2, 3)])
def test_numpy_integers_select_layers_like_python_integers(client: Client, layer: Any) -> None:
    assert client.attend("one two", layer).layers == (2,)
    assert AttentionSpec.of(layer).layers == (2,)


def test_token_ids_may_be_an_array() -> None:
    hidden = OUTPUTS["hidden"]
    output = hidden.message_of(hidden.checked(HiddenSpec(tokens=np.array([2, 0])), 1))  # type: ignore[arg-type] # what callers write
    assert list(output.tokens.indices.indices) == [2, 0]
    assert list(occlusion_request("", "one", np.array([1]), {}).tokens.indices.indices) == [1]  # type: ignore[arg-type]
    assert selector_of("all") is None


@pytest.mark.parametrize("tokens", ["none", (2**40,)])
def test_invalid_token_ids_are_refused_by_name(client: Client, tokens: Any) -> None:
    for ask in (
        lambda: client.occlusion("one two", tokens),
        lambda: client.hidden("one two", tokens=tokens),
        lambda: client.attention("one two", AttentionSpec(queries=tokens)),
    ):
        with pytest.raises(
            InvalidInput,
            match=r"^(outputs\.hidden\.|outputs\.attention\.)?(tokens|queries): .*one of all",
        ):
            ask()


def test_spans_may_be_plain_tuples() -> None:
    spec = AttentionSpec(unit="span", spans=((3, 5),))  # type: ignore[arg-type]
    attention = OUTPUTS["attention"]
    [span] = attention.message_of(attention.checked(spec, 1)).spans
    assert (span.start, span.end, span.text) == (3, 5, 0)


CALLS: list[Callable[[Client, Any], Any]] = [
    lambda client, spec: client.attention(["one"], spec),
    lambda client, spec: client.attention_bytes("one", spec),
    lambda client, spec: list(client.attention_pieces("one", spec)),
]


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("spec", [{"layers": 8}, None, HiddenSpec()])
def test_what_is_no_spec_of_the_method_is_refused_by_name(
    client: Client, call: Callable[[Client, Any], Any], spec: Any
) -> None:
    kind = type(spec).__name__
    with pytest.raises(
        InvalidInput, match=rf"^spec: is a {kind}; must be a headlight\.AttentionSpec$"
    ):
        call(client, spec)


@pytest.mark.parametrize("target", ["", " ", 5])
async def test_a_target_that_names_nothing_is_refused_before_grpc_tries_it(
    target: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    for make in (Client, AsyncClient):
        with pytest.raises(InvalidInput, match=r'^target: is .*; name a service as "host:port"$'):
            make(target)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("127.0.0.1", 'name a service as "host:port"'),
        ("127.0.0.1:http", 'name a service as "host:port"'),
        ("127.0.0.1:99999", "a port is a number from 1 to 65535"),
        (f"localhost:{'9' * 5000}", "a port is a number from 1 to 65535"),
        ("127.0.0.1:0", "a port is a number from 1 to 65535"),
        (
            "http://127.0.0.1:50051",
            'name a service as "host:port", without what a URL has; TLS is asked for by itself',
        ),
        (
            "::1:50051",
            'name a service as "host:port", an address of IPv6 in brackets: "[::1]:50051"',
        ),
        ("one:1,two:2", 'name a service as "host:port"'),
    ],
)
async def test_a_target_that_grpc_would_misread_is_refused(target: str, says: str) -> None:
    for make in (Client, AsyncClient):
        with pytest.raises(InvalidInput) as caught:
            make(target)
        assert str(caught.value).startswith(f"target: is {target!r}; {says}")


@pytest.mark.parametrize(
    "target",
    [
        "name.example:1",
        "name.example:0000000080",
        "[::1]:65535",
        "[fe80::1%eth0]:5",
        "dns:///name",
        "ipv4:10.0.0.1:5,10.0.0.2:5",
        "unix:/nowhere",
    ],
)
def test_other_targets_are_passed_to_grpc(target: str) -> None:
    Client(target).close()


async def test_a_client_that_is_closed_says_so(target: str) -> None:
    methods: list[Callable[[Any], Any]] = [
        lambda client: client.encode(["one"]),
        lambda client: client.attend("one"),
        lambda client: client.model(),
    ]
    client, other = Client(target), AsyncClient(target)
    client.model()
    await other.model()
    client.close()
    await other.close()
    for ask in methods:
        with pytest.raises(ValueError, match="the client is closed; make another"):
            ask(client)
        with pytest.raises(ValueError, match="the client is closed; make another"):
            await ask(other)


@pytest.mark.parametrize("model", [5, "\ud800"])
async def test_an_invalid_model_name_is_refused_when_the_client_is_created(
    target: str, model: Any
) -> None:
    for make in (Client, AsyncClient):
        with pytest.raises(
            InvalidInput,
            match=r"^model: is .*; must be a text that UTF-8 can express, or empty for",
        ):
            make(target, model=model)


@pytest.mark.parametrize("model", ["", None])
def test_an_empty_model_name_means_the_only_model(target: str, model: Any) -> None:
    with Client(target, model=model) as client:
        assert client.model().name == "fake"
        assert len(client.encode(["one"])) == 1


@pytest.mark.parametrize("seconds", [float("nan"), "5"])
def test_an_invalid_timeout_is_refused_by_name(target: str, seconds: Any) -> None:
    with pytest.raises(InvalidInput, match=r"^timeout: is .*; must be a number of seconds$"):
        Client(target, timeout=seconds)


@pytest.mark.parametrize("seconds", [1e10, float("inf")])
def test_very_long_timeouts_do_not_expire_at_once(target: str, seconds: float) -> None:
    with Client(target, timeout=seconds) as client:
        assert len(client.encode(["one"])) == 1


@pytest.mark.parametrize("token", [1, range(1, 2)])
def test_one_token_may_be_a_number(client: Client, servicer: FakeServicer, token: Any) -> None:
    client.hidden("one two", tokens=token)
    client.attention(["one two"], AttentionSpec.of(queries=token))
    hidden, attention = (request.outputs for request in servicer.encoded)
    assert list(hidden.hidden.tokens.indices.indices) == [1]
    assert list(attention.attention.queries.indices.indices) == [1]
    assert list(occlusion_request("", "one", token, {}).tokens.indices.indices) == [1]


def test_ranges_of_layers_and_heads_are_kept_as_ranges() -> None:
    assert AttentionSpec.of(layers=Run(0, 3)).layers == (Run(0, 3),)
    assert AttentionSpec.of(heads=[2, Run(-3), slice(0, 1)]).heads == (2, Run(-3, None), Run(0, 1))
    assert indices_of("layers", (Run(0, 1), Run(2, 3))) == (Run(0, 1), Run(2, 3))
    with pytest.raises(InvalidInput, match=r"^layers: holds 0.5; name whole numbers$"):
        AttentionSpec.of(layers=Run(0.5, 3))  # type: ignore[arg-type]


def test_a_range_of_tokens_is_refused(client: Client) -> None:
    run: Any = Run(1, 3)
    for ask in (
        lambda: AttentionSpec.of(queries=run),
        lambda: AttentionSpec.of(keys=run),
        lambda: OUTPUTS["attention"].checked(AttentionSpec(queries=run), 1),
        lambda: client.hidden("one two", tokens=run),
        lambda: client.occlusion("one two", run),
    ):
        with pytest.raises(
            InvalidInput, match=r"(queries|keys|tokens): is a Run; .* Name tokens by range\(1, 3\)$"
        ):
            ask()


def test_attention_pieces_validates_arguments_when_called(
    target: str,
) -> None:
    client = Client(target)
    with pytest.raises(InvalidInput, match="use `attention`"):
        client.attention_pieces("one", AttentionSpec(top_k=3))
    with Client(target, timeout=0.0) as late, pytest.raises(DeadlineExceeded):
        late.attention_pieces("one", AttentionSpec())
    client.close()
    with pytest.raises(ValueError, match="the client is closed"):
        client.attention_pieces("one", AttentionSpec())


async def test_attention_pieces_validates_arguments_when_called_with_asyncio(target: str) -> None:
    client = AsyncClient(target)
    with pytest.raises(InvalidInput, match="use `attention`"):
        client.attention_pieces("one", AttentionSpec(top_k=3))
    await client.close()
    with pytest.raises(ValueError, match="the client is closed"):
        client.attention_pieces("one", AttentionSpec())


def test_an_asyncio_client_must_be_created_in_an_event_loop() -> None:
    with pytest.raises(RuntimeError, match="make an AsyncClient inside a coroutine"):
        AsyncClient("127.0.0.1:1")


class Table:
    """As a DataFrame: its iteration yields the names of its columns."""

    columns = ("text", "id")

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)


@pytest.mark.parametrize(
    ("texts", "problem"),
    [
        (
            {"a": "one"},
            "is a dict, of which only the keys would be read; give list(texts.values())",
        ),
        ({"one", "two"}, "is a set, which has no order; give a list"),
        (Table(), "is a Table, of which only the names of columns would be read; give one column"),
        (7, "is int; must be a text, or a list of texts, pairs or ids"),
    ],
)
def test_what_is_no_list_of_texts_is_refused(client: Client, texts: Any, problem: str) -> None:
    for ask in (client.encode, client.tokenize, lambda given: client.compare("one", given)):
        with pytest.raises(InvalidInput) as refused:
            ask(texts)
        assert refused.value.problem == problem


def test_other_iterables_are_lists_of_texts(client: Client) -> None:
    texts = ["one", "two"]
    for given in (tuple(texts), iter(texts), np.array(texts), dict.fromkeys(texts).keys()):
        assert len(client.encode(given)) == 2


async def test_clients_cannot_be_pickled_or_copied(target: str) -> None:
    async with AsyncClient(target) as asynchronous:
        with Client(target) as client:
            for each in (client, asynchronous):
                for attempt in (pickle.dumps, copy.copy):
                    with pytest.raises(TypeError, match="holds connections and cannot be pickled"):
                        attempt(each)


def test_a_choice_of_another_type_is_shown(client: Client) -> None:
    with pytest.raises(
        InvalidInput, match=r'None, "refuse" or "end" or "start" or "only_second", not True$'
    ):
        client.encode(["one"], truncate=True)  # type: ignore[arg-type] # what callers write
