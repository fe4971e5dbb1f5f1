"""Embedding options of the clients: the requests they send, and how they read the answer."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headlight import Client, InvalidInput
from headlight.cli.commands import main
from headlight.pb import headlight_pb2 as pb
from headlight.reasons import Reason
from headlight.results import Usage
from headlight.spec import VectorType
from tests.headlight.client.calls.test_call_options import CALLS
from tests.headlight.conftest import Pipe
from tests.headlight.fake_model import DIM, hidden_of, pooled_of, tokens_of
from tests.headlight.fake_server import FakeServicer, refused

TYPES: tuple[VectorType, ...] = ("int8", "float32", "ubinary", "binary", "float16")


def tokenize(client: Client, **prompt: Any) -> None:
    client.tokenize(["a"], **prompt)


def vector(text: str) -> Any:
    return pooled_of(list(tokens_of(pb.Input(text=text)).ids))


def test_a_spec_is_sent_unchanged(client: Client, servicer: FakeServicer) -> None:
    client.encode(["a"])
    client.encode(["a"], dimensions=3, normalize=False, dtype="float16")
    plain, chosen = (request.outputs for request in servicer.encoded)
    assert plain == pb.Outputs(pooled=pb.PooledOutput())
    assert chosen.pooled == pb.PooledOutput(
        dimensions=3, normalize=False, dtypes=[pb.DATA_TYPE_FLOAT16]
    )


def test_one_type_returns_an_array_and_several_a_mapping(client: Client) -> None:
    np.testing.assert_array_equal(client.encode(["a", "b"]), [vector("a"), vector("b")])
    assert client.encode(["a"], dtype="ubinary").tolist() == [[255]]
    found = client.encode_with_info(["a", "b"], dtype=TYPES)
    assert tuple(found.by_type) == TYPES
    assert {name: (each.dtype.name, each.shape) for name, each in found.by_type.items()} == {
        "int8": ("int8", (2, DIM)),
        "float32": ("float32", (2, DIM)),
        "ubinary": ("uint8", (2, 1)),
        "binary": ("int8", (2, 1)),
        "float16": ("float16", (2, DIM)),
    }
    np.testing.assert_array_equal(found.vectors, found.by_type["int8"])
    np.testing.assert_array_equal(found.by_type["binary"], [[127], [127]])
    with pytest.raises(InvalidInput, match=r"dtype: names several types.*by_type"):
        client.encode(["a"], dtype=TYPES)  # type: ignore[arg-type]


def test_no_inputs_give_no_rows_of_each_type(client: Client) -> None:
    found = client.encode_with_info([], dimensions=8, dtype=TYPES).by_type.values()
    assert [each.shape for each in found] == [(0, 8), (0, 8), (0, 1), (0, 1), (0, 8)]
    names = ["int8", "float32", "uint8", "int8", "float16"]
    assert [each.dtype.name for each in found] == names
    assert client.encode([], dimensions=3).shape == (0, 3)


@pytest.mark.parametrize("dimensions", [0, DIM + 1])
def test_impossible_dimensions_are_refused_even_for_empty_input(
    client: Client, dimensions: int
) -> None:
    says = f"^outputs.pooled.dimensions: is {dimensions}; this model's vectors have 1 .. {DIM}$"
    with pytest.raises(InvalidInput, match=says):
        client.encode([], dimensions=dimensions)


def test_smaller_types_allow_more_texts_per_answer(client: Client, servicer: FakeServicer) -> None:
    servicer.limits.max_unary_response_bytes = 1000
    servicer.limits.max_items = servicer.limits.max_request_tokens = 1000
    client.encode([f"text {at}" for at in range(50)], dtype="ubinary")
    assert max(len(request.inputs) for request in servicer.encoded) == 500 // (32 + DIM // 8)


@pytest.mark.parametrize(
    ("values", "says"),
    [
        (
            {"dtype": "float64"},
            "dtypes: is 'float64'; must be one of float32, float16, int8, binary, ubinary",
        ),
        ({"dtype": None}, "dtypes: must be a tuple of float32, float16, int8, binary, ubinary"),
        (
            {"dimensions": 2**40},
            "dimensions: must be a whole number from 1 to the width of the vectors, and is 1099",
        ),
        (
            {"dimensions": 64.0},
            "dimensions: must be a whole number from 1 to the width of the vectors, and is 64.0",
        ),
        ({"normalize": "no"}, "normalize: must be True, False or None"),
    ],
)
def test_options_that_the_contract_cannot_express_are_refused_by_the_client(
    client: Client, values: dict[str, Any], says: str
) -> None:
    with pytest.raises(InvalidInput, match=f"^outputs.pooled.{re.escape(says)}"):
        client.encode_with_info(["a"], **values)


def test_a_refused_prompt_is_reported_under_the_name_the_caller_used(
    client: Client, servicer: FakeServicer
) -> None:
    long = InvalidInput("prompt_text", Reason.LONG_PROMPT, count=9, most=8)
    unknown = InvalidInput("prompt_name", Reason.NO_SUCH_PROMPT, names="query")
    servicer.refusals.extend([refused(long), refused(unknown)])
    with pytest.raises(InvalidInput, match=r"^prompt: has 9 characters") as caught:
        client.encode(["a"], prompt="x" * 9)
    assert caught.value.field == "prompt"
    with pytest.raises(InvalidInput, match=r"^prompt_name: .*; choose query, or use prompt$"):
        client.attend("a", prompt_name="x")


@pytest.mark.parametrize("call", [*CALLS, tokenize])
def test_every_method_sends_the_prompt(
    client: Client, servicer: FakeServicer, call: Callable[..., Any]
) -> None:
    call(client)
    call(client, prompt_name="query")
    call(client, prompt="")
    sent: list[pb.EncodeRequest | pb.TokenizeRequest] = [*servicer.encoded, *servicer.tokenized]
    said = [
        (request.WhichOneof("prompt"), request.prompt_name, request.prompt_text) for request in sent
    ]
    assert said == [(None, "", ""), ("prompt_name", "query", ""), ("prompt_text", "", "")]
    with pytest.raises(InvalidInput, match="prompt: and prompt_name are both given"):
        call(client, prompt="x", prompt_name="query")
    with pytest.raises(InvalidInput, match=r"prompt: .*texts"):
        call(client, prompt=b"x")
    with pytest.raises(InvalidInput, match=r"prompt: .*texts"):
        call(client, prompt_name=b"query")
    with pytest.raises(InvalidInput, match=r"prompt: .*UTF-8"):
        call(client, prompt="\ud800")
    with pytest.raises(TypeError, match="promt"):
        call(client, promt="x")


def test_prompts_count_where_a_list_is_split(client: Client, servicer: FakeServicer) -> None:
    servicer.limits.max_request_tokens = 60
    texts = ["one"] * 20
    client.encode(texts)
    alone = len(servicer.encoded)
    client.encode(texts, prompt="a prompt of some length ")
    assert len(servicer.encoded) - alone > alone


def test_usage_is_summed_over_requests(client: Client) -> None:
    found = client.encode_with_info(["one two", "three"], prompt="x ")
    assert found.prompt_token_counts.tolist() == [2, 2]
    assert found.usage == Usage(tokens=7, prompt_tokens=4, original_tokens=7)


def test_token_vectors_say_which_they_are(client: Client, servicer: FakeServicer) -> None:
    [found] = client.token_vectors(["one two"], skip_special=True)
    whole = hidden_of(list(found.tokens.ids), [3])[0]
    assert found.places == (1, 2)
    np.testing.assert_array_equal(found.vectors, whole[1:3])
    np.testing.assert_array_equal(
        client.encode_tokens(["one two"], skip_special=True)[0], whole[1:3]
    )
    [every] = client.token_vectors(["one two"])
    assert every.places == (0, 1, 2, 3)
    assert servicer.encoded[0].outputs.tokens == pb.TokensOutput(skip_special=True)


def test_the_command_line_sends_options(
    target: str, servicer: FakeServicer, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    own = ["embed", "--target", target, "a", "--prompt-name", "query"]
    own += ["--dimensions", "8", "--no-normalize"]
    assert main([*own, "--dtype", "int8"]) == 0
    assert capsys.readouterr().out.split() == [
        str(number) for number in (np.floor(vector("a") * 255) - 128).astype(int)
    ]
    assert servicer.encoded[0].prompt_name == "query"
    assert servicer.encoded[0].outputs.pooled == pb.PooledOutput(
        dimensions=8, normalize=False, dtypes=[pb.DATA_TYPE_INT8]
    )
    heads = ["heads", "--target", target, "one two three", "--importance"]
    assert main([*heads, "--prompt-name", "query"]) == 0
    assert {request.prompt_name for request in servicer.encoded} == {"query"}
    capsys.readouterr()
    several = ("--dtype", "ubinary", "--dtype", "float32")
    assert main([*own, *several]) == 2
    assert "--dtype: text and npy hold one type" in capsys.readouterr().err
    assert main([*own, *several, "--format", "json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["embeddings"]["ubinary"] == [[255]]
    np.testing.assert_array_equal(
        np.array(answer["embeddings"]["float32"][0], np.float32), vector("a")
    )
    assert answer["usage"] == {"tokens": 3, "prompt_tokens": 2, "original_tokens": 3}
    path = tmp_path / "out.npz"
    assert main([*own, *several, "--format", "npz", "--out", str(path)]) == 0
    with np.load(path) as archive:
        assert archive["embeddings_ubinary"].tolist() == [[255]]
        np.testing.assert_array_equal(archive["embeddings_float32"][0], vector("a"))


def test_the_command_line_shows_prompts(
    target: str, capsys: pytest.CaptureFixture[str], pipe: Pipe
) -> None:
    assert main(["info", "--target", target]) == 0
    out = capsys.readouterr().out
    assert "query 'find: '; not pooled" in out
    assert f"{DIM} wide; as" in out
    pipe(b"")
    with pytest.raises(SystemExit, match="2"):
        main(["tokens", "--target", target, "a", "--prompt", "x", "--prompt-name", "query"])
