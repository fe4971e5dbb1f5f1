"""Answers of a hostile or broken server.

Each is a BadAnswer for both clients, unary and streamed, and never data.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import pytest

from headlight import AttentionSpec, BadAnswer, Client
from headlight.errors import MixedWeights
from headlight.pb import headlight_pb2 as pb
from tests.headlight.client.broken_answers import (
    Answer,
    all_rows,
    another_output,
    cut_unasked,
    half_precision,
    narrower,
    of_another,
    one_item_more,
    other_keys,
    other_layers,
    scaled,
    units_behind_the_first,
    wider,
    with_number,
    with_rows,
    with_token,
    with_tokens,
)
from tests.headlight.conftest import Open
from tests.headlight.fake_model import DIM
from tests.headlight.fake_server import FakeServicer

SECONDS = 60  # timeout of the client, which no test reaches
TEXT = "one two three"
Method: TypeAlias = "Callable[[Any], Any]"

METHODS: dict[str, Method] = {
    "encode": lambda client: client.encode([TEXT, "four"]),
    "unit": lambda client: client.encode([TEXT, "four"], normalize=True),
    "bytes": lambda client: client.encode_with_info([TEXT], dtype=("float16", "ubinary")),
    "ids": lambda client: client.encode([[1, 5, 9]]),
    "refuse": lambda client: client.encode([TEXT, "four"], truncate="refuse"),
    "cut": lambda client: client.encode(["word " * 50], truncate="end"),
    "tokens": lambda client: client.encode_tokens([TEXT, "four"]),
    "token_vectors": lambda client: client.token_vectors([TEXT], skip_special=True),
    "attend": lambda client: client.attend(TEXT),
    "attention": lambda client: client.attention([TEXT], AttentionSpec(layers=(1, -1))),
    "rows": lambda client: client.attention([TEXT], AttentionSpec(queries=(1, -1))),
    "top": lambda client: client.attention([TEXT], AttentionSpec(top_k=2)),
    "content": lambda client: client.attention([TEXT], AttentionSpec(drop_special=True)),
    "statistics": lambda client: client.attention([TEXT], AttentionSpec(reduce=("statistics",))),
    "hidden": lambda client: client.hidden(TEXT, [0, -1]),
    "pieces": lambda client: list(client.attention_pieces(TEXT, AttentionSpec())),
    "tokenize": lambda client: client.tokenize([TEXT]),
    "tokenize_ids": lambda client: client.tokenize([[1, 5, 9]]),
    "occlusion": lambda client: client.occlusion(TEXT),
    "attention_bytes": lambda client: client.attention_bytes(TEXT, AttentionSpec()),
    "model": lambda client: client.model(),
}


@pytest.fixture
def client(open_client: Open) -> Any:
    """Return a client of either kind, which expects the model "fake"."""
    return open_client(model="fake", timeout=SECONDS)


def test_honest_answers_pass(client: Any) -> None:
    for name, method in METHODS.items():
        assert method(client) is not None, name


BAD = [
    ("encode", wider, rf"{DIM + 1}.*, and .*{DIM}.* was requested"),
    ("encode", narrower, rf"{DIM // 2}.*, and .*{DIM}.* was requested"),
    ("encode", one_item_more, "3 entries for 2 inputs"),
    ("encode", lambda response: response.items.pop(), "1 entries for 2 inputs"),
    ("encode", with_number("pooled", 9, np.nan), "NaN or infinite"),
    ("bytes", with_number("pooled", 3, np.nan, "<f2"), "NaN or infinite"),
    ("bytes", lambda response: response.pooled.reverse(), "and float16 was requested"),
    ("encode", of_another, "'another', and 'fake'"),
    ("encode", another_output, "hidden"),
    ("encode", with_tokens(33), r"token_count is 33, and 1 \.\. 32"),
    ("encode", with_tokens(0), "token_count is 0"),
    ("ids", with_tokens(4), r"token_count is 4, and 3 \.\. 3"),
    ("refuse", cut_unasked, "nothing was to be cut off"),
    ("cut", lambda response: response.items[0].ClearField("truncated"), "to be cut off"),
    ("unit", scaled("pooled", 1.01), "unit length"),
    ("unit", with_number("pooled", 0, np.nan), "NaN or infinite"),
    ("tokens", with_rows("tokens", DIM + 1), rf"{DIM + 1}.*, and .*{DIM}.* was requested"),
    ("tokens", with_number("tokens", 5, np.nan), "NaN or infinite"),
    ("tokens", half_precision, "type float16"),
    ("token_vectors", lambda response: response.kept_tokens[0].indices.reverse(), "another order"),
    ("attend", scaled("attention", 1.002), r"sums to 1\.002"),
    ("attend", scaled("attention", 0.998), r"sums to 0\.998"),
    ("attend", scaled("attention", -1), "a weight of -"),
    ("attend", with_number("attention", 7, np.nan), "NaN or infinite"),
    ("attend", of_another, "'another', and 'fake'"),
    ("attend", with_token("ids", 1, 5000), "the model knows 1000"),
    ("attend", with_token("ends", 1, 500), "leave the text"),
    ("attend", with_token("segments", 1, 1), "1 texts were sent"),
    ("attention", other_layers, r"\[0, 1\], and \[1, 2\]"),
    ("attention", other_keys, "each of all"),
    (
        "rows",
        lambda response: response.attention_map.places[0].queries.tokens.reverse(),
        "queries is",
    ),
    ("top", scaled("attention", 1.5), r"sums to .* at most 1"),
    ("top", with_number("attention_indices", 0, 40, "<u2"), "beyond its 5 keys"),
    (
        "attend",
        lambda response: response.items[0].tokens.CopyFrom(pb.TokenInfo()),
        "0 tokens described of",
    ),
    ("content", units_behind_the_first, r"units that begin at \[1, 2"),
    ("statistics", with_number("attention", 0, np.nan), "NaN or infinite"),
    ("statistics", lambda response: response.attention_map.statistics.reverse(), "statistics"),
    ("hidden", with_rows("hidden", DIM * 2), rf"{DIM * 2}.*, and .*{DIM}.* was requested"),
    ("hidden", with_number("hidden", 0, np.inf), "NaN or infinite"),
    ("hidden", lambda response: response.hidden.layers.reverse(), r"\[3, 0\], and \[0, 3\]"),
    ("pieces", scaled("attention", 1.002), r"sums to 1\.002"),
    ("pieces", of_another, "'another', and 'fake'"),
    ("attention_bytes", of_another, "'another', and 'fake'"),
]


@pytest.mark.parametrize(("method", "change", "says"), BAD)
def test_an_answer_that_does_not_match_the_request_is_a_bad_answer(
    client: Any, servicer: FakeServicer, method: str, change: Callable[[Answer], object], says: str
) -> None:
    servicer.change_answer = change
    with pytest.raises(BadAnswer, match=says) as caught:
        METHODS[method](client)
    assert "of a compatible version?" in str(caught.value)
    assert len(servicer.encoded) == 1, "nothing is repeated"


BAD_TOKENS: list[tuple[str, Callable[[pb.TokenizeResponse], object], str]] = [
    ("tokenize", of_another, "'another', and 'fake'"),
    ("tokenize", lambda response: response.items.add(), "2 entries for 1 inputs"),
    ("tokenize", lambda response: response.items[0].ids.__setitem__(0, -1), "the model knows 1000"),
    ("tokenize", lambda response: response.items[0].ends.__setitem__(1, 500), "leave the text"),
    (
        "tokenize_ids",
        lambda response: response.items[0].ids.__setitem__(0, 2),
        "not those that were sent",
    ),
]


@pytest.mark.parametrize(("method", "change", "says"), BAD_TOKENS)
def test_tokens_that_do_not_match_the_text_are_a_bad_answer(
    client: Any,
    servicer: FakeServicer,
    method: str,
    change: Callable[[pb.TokenizeResponse], object],
    says: str,
) -> None:
    servicer.change_tokens = change
    with pytest.raises(BadAnswer, match=says):
        METHODS[method](client)


BAD_OCCLUSIONS: list[tuple[Callable[[pb.OccludeResponse], object], str]] = [
    (of_another, "'another', and 'fake'"),
    (
        lambda response: setattr(response.moved, "data", np.float32(np.nan).tobytes()),
        "NaN or infinite",
    ),
    (lambda response: setattr(response.moved, "data", np.float32(-1).tobytes()), "none is below 0"),
    (lambda response: response.tokens.__setitem__(0, 50), "not some of 5"),
    (
        lambda response: setattr(response.moved, "dtype", pb.DATA_TYPE_UINT16),
        "the type 4, and float32",
    ),
]


@pytest.mark.parametrize(("change", "says"), BAD_OCCLUSIONS)
def test_impossible_distances_are_a_bad_answer(
    client: Any, servicer: FakeServicer, change: Callable[[pb.OccludeResponse], object], says: str
) -> None:
    servicer.change_occlusion = change
    with pytest.raises(BadAnswer, match=says):
        METHODS["occlusion"](client)


def with_target(response: pb.OccludeResponse) -> None:
    response.similarity = 0.5
    response.fall.CopyFrom(response.moved)


def test_a_target_is_answered_if_one_was_sent(client: Any, servicer: FakeServicer) -> None:
    with pytest.raises(BadAnswer, match="similarity and fall"):
        client.occlusion(TEXT, target="a")
    servicer.change_occlusion = with_target
    with pytest.raises(BadAnswer, match="similarity and fall"):
        METHODS["occlusion"](client)
    client.occlusion(TEXT, target="a")

    def not_finite(response: pb.OccludeResponse) -> None:
        with_target(response)
        response.similarity = float("nan")

    servicer.change_occlusion = not_finite
    with pytest.raises(BadAnswer, match="similarity is nan"):
        client.occlusion(TEXT, target="a")


BAD_MODELS: list[tuple[Callable[[Any], object], str]] = [
    (of_another, "'another', and 'fake'"),
    (lambda response: setattr(response.info, "layers", 2**31), "info.layers is 2147483648"),
    (lambda response: setattr(response.info, "heads", 0), "info.heads is 0"),
    (lambda response: response.info.MergeFrom(pb.ModelInfo(layers=512, heads=512)), "65536 maps"),
    (lambda response: setattr(response.info, "pooled_dim", 2**30), "info.pooled_dim is"),
    (lambda response: setattr(response.info, "max_length", 2**30), "info.max_length is"),
]


@pytest.mark.parametrize(
    ("method", "change", "says"),
    [
        *(("model", *bad) for bad in BAD_MODELS),
        *((method, *BAD_MODELS[1]) for method in ("encode", "attend", "pieces")),
    ],
)
def test_an_impossible_model_description_is_a_bad_answer(
    client: Any,
    servicer: FakeServicer,
    method: str,
    change: Callable[[pb.GetModelResponse], object],
    says: str,
) -> None:
    servicer.change_model = change
    with pytest.raises(BadAnswer, match=says):
        METHODS[method](client)
    assert not servicer.encoded


def test_an_unexpected_model_without_a_requested_name_is_mixed_weights(
    target: str, servicer: FakeServicer
) -> None:
    servicer.change_answer = servicer.change_tokens = of_another
    with Client(target, timeout=SECONDS) as client:
        for method in ("encode", "attend", "pieces", "tokenize"):
            with pytest.raises(MixedWeights, match=r"fake 1, now another 1\).*call again"):
                METHODS[method](client)


def test_weights_replaced_since_the_description_are_no_bad_answer(
    client: Any, servicer: FakeServicer
) -> None:
    def replaced(response: Answer) -> None:
        wider(response)
        response.model.bundle_sha256 = "cd" * 32

    servicer.change_answer = replaced
    with pytest.raises(MixedWeights, match="weights were replaced"):
        METHODS["encode"](client)


@pytest.mark.parametrize("normalized", [True, False])
def test_unit_length_is_checked_if_the_model_promises_it(
    client: Any, servicer: FakeServicer, normalized: bool
) -> None:
    servicer.normalized = normalized  # its vectors are not normalised
    with pytest.raises(BadAnswer, match="unit length") if normalized else contextlib.nullcontext():
        METHODS["encode"](client)


def test_a_vector_of_zeros_has_no_unit_length(client: Any, servicer: FakeServicer) -> None:
    servicer.change_answer = scaled("pooled", 0)
    with pytest.raises(BadAnswer, match=r"pooled\S* has a vector of length 0, and unit length"):
        METHODS["unit"](client)


@pytest.mark.parametrize(
    ("precision", "factor", "refused"),
    [
        ("fp32", 1.0009, False),
        ("fp32", 1.0011, True),
        ("bf16", 1.0079, False),
        ("bf16", 1.0081, True),
    ],
)
def test_row_sums_are_checked_to_the_precision_of_the_model(
    client: Any, servicer: FakeServicer, precision: str, factor: float, refused: bool
) -> None:
    def change(response: Answer) -> None:
        scaled("attention", factor)(response)
        response.model.precision = precision

    servicer.change_answer = change
    with pytest.raises(BadAnswer, match="sums to") if refused else contextlib.nullcontext():
        METHODS["attend"](client)


def test_more_rows_than_requested_are_a_bad_answer(client: Any, servicer: FakeServicer) -> None:
    servicer.change_answer = all_rows
    with pytest.raises(
        BadAnswer, match="kept_tokens names tokens of 0 inputs, and 1 were expected"
    ):
        METHODS["token_vectors"](client)
