from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from headlight import AttentionSpec, Client, InvalidInput
from headlight.client.calls.list_work import ITEM_BYTES
from headlight.client.calls.stream_calls import PLACE_BYTES
from headlight.interface.arguments import Input
from headlight.pb import headlight_pb2 as pb
from tests.headlight.fake_model import (
    DIM,
    HEADS,
    LAYERS,
    REF,
    attention_of,
    hidden_of,
    pooled_of,
    tokens_of,
)
from tests.headlight.fake_server import FakeServicer

TEXTS = [f"text number {index} " * (index % 4 + 1) for index in range(50)]


def ids_of(text: str) -> list[int]:
    return list(tokens_of(pb.Input(text=text)).ids)


def test_vectors_are_in_the_order_of_the_texts(client: Client, servicer: FakeServicer) -> None:
    vectors = client.encode(TEXTS)
    assert vectors.dtype == np.float32
    np.testing.assert_array_equal(vectors, np.stack([pooled_of(ids_of(text)) for text in TEXTS]))
    assert len(servicer.encoded) > 1
    assert sum(len(request.inputs) for request in servicer.encoded) == len(TEXTS)


def test_requests_stay_within_every_limit(client: Client, servicer: FakeServicer) -> None:
    servicer.limits.max_items = 5
    servicer.limits.max_request_tokens = 70
    servicer.limits.max_request_bytes = 4096 + 300
    client.encode(TEXTS)  # the fake refuses requests beyond any of them
    assert max(len(request.inputs) for request in servicer.encoded) <= 5


def test_an_answer_stays_within_the_limit_of_the_server(
    client: Client, servicer: FakeServicer
) -> None:
    servicer.limits.max_unary_response_bytes = 1000
    assert client.encode(TEXTS).shape == (len(TEXTS), DIM)
    assert max(len(request.inputs) for request in servicer.encoded) == 500 // (32 + 4 * DIM)


def test_empty_input_makes_no_call(client: Client, servicer: FakeServicer) -> None:
    assert client.encode([]).shape == (0, DIM)
    assert client.encode_tokens([]) == []
    assert client.tokenize([]) == []
    assert servicer.encoded == []


@pytest.mark.parametrize("ids", [[1, 7, 2], (1, 7, 2), np.array([1, 7, 2], np.uint64)])
def test_token_ids_are_sent_unchanged(client: Client, servicer: FakeServicer, ids: Input) -> None:
    np.testing.assert_array_equal(client.encode([ids])[0], pooled_of([1, 7, 2]))
    assert list(servicer.encoded[0].inputs[0].ids.ids) == [1, 7, 2]
    assert client.tokenize([ids])[0].pieces == ("", "", "")


@pytest.mark.parametrize(
    "item",
    [3, None, b"bytes", [1.5], [[1, 2]], [], ["a"], [2**63], [True]],
)
def test_invalid_inputs_are_refused_by_name_before_sending(
    client: Client, servicer: FakeServicer, item: object
) -> None:
    with pytest.raises(InvalidInput, match=r"inputs\[1\]") as caught:
        client.encode(["good", item])  # type: ignore[list-item]
    assert caught.value.field == "inputs[1]"
    assert servicer.encoded == []


def test_a_lone_surrogate_is_refused_with_its_reason(client: Client) -> None:
    with pytest.raises(InvalidInput, match="surrogate"):
        client.encode(["\ud800"])


def test_a_text_larger_than_a_request_is_refused_with_the_limit(
    client: Client, servicer: FakeServicer
) -> None:
    servicer.limits.max_request_bytes = 8192
    with pytest.raises(InvalidInput, match="4096"):
        client.encode(["x" * 5000], truncate="end")


def test_truncation_is_requested_and_reported(client: Client, servicer: FakeServicer) -> None:
    long = "word " * 100
    embeddings = client.encode_with_info(["short", long], truncate="start")
    assert servicer.encoded[0].truncation == pb.TRUNCATION_CUT_START
    assert embeddings.token_counts.tolist() == [3, servicer.max_length]
    assert embeddings.original_token_counts.tolist() == [3, 102]
    assert embeddings.truncated.tolist() == [False, True]
    assert embeddings.model.bundle_sha256 == REF.bundle_sha256
    client.encode(["short"])
    client.encode(["short"], truncate="refuse")
    said = [request.truncation for request in servicer.encoded[1:]]
    assert said == [pb.TRUNCATION_UNSPECIFIED, pb.TRUNCATION_REFUSE]
    with pytest.raises(InvalidInput, match="truncate"):
        client.encode(["short"], truncate="middle")  # type: ignore[arg-type]


def test_a_refusal_names_the_index_in_the_list_of_the_caller(client: Client) -> None:
    texts = [*TEXTS, "", *TEXTS]
    with pytest.raises(InvalidInput, match="at least one character") as caught:
        client.encode(texts)
    assert caught.value.field == f"inputs[{len(TEXTS)}].text"
    with pytest.raises(InvalidInput) as caught:
        client.encode_tokens(texts)
    assert caught.value.field == f"inputs[{len(TEXTS)}].text"


def test_attention_arrives_in_chunks_out_of_order(client: Client) -> None:
    attention = client.attend("read a file and decode it")
    ids = ids_of("read a file and decode it")
    np.testing.assert_array_equal(attention.weights, attention_of(ids, list(range(LAYERS))))
    assert attention.weights.shape == (LAYERS, HEADS, len(ids), len(ids))
    assert attention.layers == (0, 1, 2)
    assert attention.tokens.pieces[:2] == ("[CLS]", "read")
    assert attention.model.name == "fake"


def test_layers_are_returned_in_the_requested_order(client: Client) -> None:
    attention = client.attend("a b", layers=[-1, 0])
    assert attention.layers == (2, 0)
    np.testing.assert_array_equal(attention.weights, attention_of(ids_of("a b"), [2, 0]))
    with pytest.raises(InvalidInput, match="is 9; valid are"):
        client.attend("a b", layers=[9])
    with pytest.raises(InvalidInput, match="None means all"):
        client.attend("a b", layers=[])


def test_token_vectors_of_many_texts_over_one_stream(
    client: Client, servicer: FakeServicer
) -> None:
    """The fake answers two requests at a time, the later first, their frames interleaved."""
    vectors = client.encode_tokens(TEXTS)
    assert len(servicer.encoded) > 2
    for text, rows in zip(TEXTS, vectors, strict=True):
        np.testing.assert_array_equal(rows, hidden_of(ids_of(text), [LAYERS])[0])


@pytest.mark.parametrize(
    "ask",
    [
        lambda client, text: client.attend(text).weights,
        lambda client, text: client.attention([text], AttentionSpec(top_k=2))[0].values,
        lambda client, text: client.hidden(text).states,
        lambda client, text: client.encode_tokens([text])[0],
    ],
)
def test_a_small_answer_is_a_unary_call_with_the_same_numbers(
    client: Client, servicer: FakeServicer, ask: Callable[[Client, str], Any]
) -> None:
    unary = ask(client, "a few words")
    assert servicer.streams == 0
    servicer.limits.max_unary_response_bytes = 64
    client._description = None
    np.testing.assert_array_equal(ask(client, "a few words"), unary)
    assert servicer.streams == 1


def test_an_answer_larger_than_expected_is_streamed(client: Client, servicer: FakeServicer) -> None:
    expected = client.attend("a few words").weights
    servicer.limits.max_unary_response_bytes = 64  # as of another replica; the client knows 1 MiB
    np.testing.assert_array_equal(client.attend("a few words").weights, expected)
    assert servicer.streams == 1


def test_token_vectors_stay_within_the_output_limit(client: Client, servicer: FakeServicer) -> None:
    token_bytes = PLACE_BYTES + 4 * DIM
    servicer.limits.max_stream_output_bytes = 2 * (ITEM_BYTES + servicer.max_length * token_bytes)
    client.encode_tokens(["x" * 100] * 7)
    assert [len(request.inputs) for request in servicer.encoded] in ([2, 2, 2, 1], [2, 2, 1, 2])


def test_tokenize_splits_requests_by_the_size_of_the_answer(
    client: Client, servicer: FakeServicer
) -> None:
    servicer.limits.max_unary_response_bytes = 4096 + 4000
    tokens = client.tokenize(["a b c d e f g h i j"] * 20)
    assert [len(entry) for entry in tokens] == [12] * 20
    assert len(servicer.tokenized) > 5


def test_concurrency_is_at_least_one(target: str) -> None:
    for wrong in (0, -1, 1.5, math.nan, "4", None):
        with pytest.raises(ValueError, match="concurrency"):
            Client(target, concurrency=wrong)  # type: ignore[arg-type]
    with Client(target, concurrency=1) as client:
        assert client.encode(TEXTS).shape == (len(TEXTS), DIM)


def test_a_description_forgotten_by_another_thread_is_harmless(target: str) -> None:
    """For example after a refusal."""

    class Forgetful(Client):
        _description = property(lambda self: None, lambda self, description: None)

    with Forgetful(target) as client:
        assert client.encode(["a"]).shape == (1, DIM)
