from __future__ import annotations

import math
import tracemalloc
from array import array
from typing import Any, cast, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headlight.description import Limits
from headlight.errors import InvalidInput
from headlight.outputs.contract import numbers_of
from headlight.outputs.maps.resolved_spec import resolve_indices
from headlight.outputs.registry import OUTPUTS
from headlight.pb import headlight_pb2 as pb
from headlight.runtime import Runtime
from headlight.runtime.encode_items import Selection
from headlight.runtime.tokenization.input_checks import Truncation
from headlight.spec import EmptyTexts, SpecialTokens
from headlight_service.core.models import LEAST_TOKEN_INFO_BYTES, ServedModel
from headlight_service.core.requests.request import Pair, TokenIds
from headlight_service.core.tokenization import TokenizationJob, encoding_job, tokenizing_job
from headlight_service.frontends.contract import request_decoding
from headlight_service.frontends.contract.request_decoding import (
    decode_encode,
    decode_occlude,
    decode_outputs,
    decode_tokenize,
)
from tests.service.fakes import FakeRuntime


def served(
    runtime: FakeRuntime | None = None,
    *,
    max_characters: int = 9,
    special_tokens: SpecialTokens = "parse",
    truncation: Truncation = "refuse",
    empty_texts: EmptyTexts = "refuse",
) -> ServedModel:
    """Return a model that takes requests and runs none.

    4 inputs of 6 tokens, 10 together, or 15 to tokenise alone.
    """
    limits = Limits(
        max_items=4,
        max_request_bytes=1 << 20,
        max_unary_response_bytes=15 * LEAST_TOKEN_INFO_BYTES,
        max_stream_output_bytes=1 << 20,
        max_stream_in_flight=4,
        max_request_tokens=10,
    )
    runtime = runtime or FakeRuntime(max_length=6, prompts={"query": "q: "})
    nothing = cast(Any, None)  # runs: scheduler, admission, estimate and metrics are not used
    return ServedModel(
        cast(Runtime, runtime),
        limits,
        nothing,
        nothing,
        nothing,
        nothing,
        max_characters,
        special_tokens=special_tokens,
        truncation=truncation,
        empty_texts=empty_texts,
    )


def selection(outputs: pb.Outputs, model: ServedModel) -> Selection:
    """Return the requested outputs, resolved as in the pipeline."""
    return model.select(decode_outputs(outputs, model))


def encode_job(message: pb.EncodeRequest, model: ServedModel) -> tuple[TokenizationJob, Selection]:
    """Return the tokenization job and the outputs, as the pipeline has it of a message."""
    request = decode_encode(message, model, math.inf, "")
    wanted = model.select(request.outputs)
    return encoding_job(request, model, wanted), wanted


def tokenize_job(message: pb.TokenizeRequest, model: ServedModel) -> TokenizationJob:
    """Return the tokenization job, as the pipeline has it of a message."""
    return tokenizing_job(decode_tokenize(message, model, ""), model)


def ids(count: int, segments: int = 0) -> pb.Input:
    return pb.Input(ids=pb.TokenIds(ids=[300] * count, segments=[0] * segments))


MODEL = served()
TEXT = pb.Input(text="a")


def test_texts_and_ids_become_plain_values() -> None:
    request = pb.EncodeRequest(
        inputs=[pb.Input(text="a"), pb.Input(ids=pb.TokenIds(ids=[1, 2]))],
        outputs=pb.Outputs(token_info=pb.TokenInfoOutput(), tokens=pb.TokensOutput()),
        truncation=pb.TRUNCATION_CUT_START,
    )
    job, wanted = encode_job(request, MODEL)
    assert job.inputs == ["a", TokenIds(array("q", [1, 2]), array("q"))]
    assert (job.truncation, job.with_info, job.limit) == ("cut_start", True, True)
    assert wanted == Selection(pooled=False, tokens=True)


def test_pairs_and_segments_of_ids_become_plain_values() -> None:
    inputs = [
        pb.Input(pair=pb.TextPair(first="a", second="b")),
        pb.Input(ids=pb.TokenIds(ids=[1, 2], segments=[0, 1])),
    ]
    paired = served(FakeRuntime(accepts=("text", "pair", "ids")))
    job, _ = encode_job(pb.EncodeRequest(inputs=inputs), paired)
    assert job.inputs == [Pair("a", "b"), TokenIds(array("q", [1, 2]), array("q", [0, 1]))]


@pytest.mark.parametrize("outputs", [None, pb.Outputs()])
def test_the_default_output_is_pooled(outputs: pb.Outputs | None) -> None:
    _, wanted = encode_job(pb.EncodeRequest(inputs=[TEXT], outputs=outputs), MODEL)
    assert wanted == Selection(pooled=True)


def test_every_truncation_is_decoded() -> None:
    assert set(numbers_of("Truncation")) == set(get_args(Truncation))


@pytest.mark.parametrize(
    ("option", "of_service", "given", "expected"),
    [
        ("truncation", "refuse", pb.TRUNCATION_UNSPECIFIED, "refuse"),
        ("truncation", "cut_start", pb.TRUNCATION_UNSPECIFIED, "cut_start"),
        ("truncation", "cut_end", pb.TRUNCATION_REFUSE, "refuse"),
        ("truncation", "cut_start", pb.TRUNCATION_CUT_END, "cut_end"),
        ("empty_texts", "encode", pb.EMPTY_TEXTS_UNSPECIFIED, "encode"),
        ("empty_texts", "encode", pb.EMPTY_TEXTS_REFUSE, "refuse"),
        ("empty_texts", "refuse", pb.EMPTY_TEXTS_ENCODE, "encode"),
        ("special_tokens", "text", pb.SPECIAL_TOKENS_UNSPECIFIED, "text"),
        ("special_tokens", "text", pb.SPECIAL_TOKENS_PARSE, "parse"),
        ("special_tokens", "parse", pb.SPECIAL_TOKENS_TEXT, "text"),
    ],
)
def test_an_option_of_a_request_overrides_that_of_the_service(
    option: str, of_service: Any, given: Any, expected: str
) -> None:
    model, fields = served(**{option: of_service}), {option: given}
    encode, _ = encode_job(pb.EncodeRequest(inputs=[TEXT], **fields), model)
    assert getattr(encode, option) == expected
    if option != "empty_texts":
        occlude = decode_occlude(pb.OccludeRequest(input=TEXT, **fields), model, math.inf, "")
        assert (getattr(occlude, option) or of_service) == expected
    if option == "special_tokens":
        tokenize = tokenize_job(pb.TokenizeRequest(inputs=[TEXT], **fields), model)
        assert tokenize.special_tokens == expected


def test_tokenize_has_no_limit_on_text_length() -> None:
    job = tokenize_job(pb.TokenizeRequest(inputs=[TEXT]), MODEL)
    assert (job.with_info, job.limit, job.max_tokens) == (True, False, 15)


@pytest.mark.parametrize(
    ("request_", "field", "problem"),
    [
        (pb.EncodeRequest(), "inputs", "give 1 to 4"),
        (pb.EncodeRequest(inputs=[TEXT] * 5), "inputs", "has 5 entries; give 1 to 4"),
        (pb.EncodeRequest(inputs=[TEXT, pb.Input()]), "inputs[1]", "set text or ids"),
        (
            pb.EncodeRequest(inputs=[TEXT, pb.Input(pair=pb.TextPair(first="a"))]),
            "inputs[1].pair",
            "takes text or ids",
        ),
        (pb.EncodeRequest(inputs=[TEXT], truncation=17), "truncation", "17 is not known"),  # type: ignore[arg-type]
        (pb.EncodeRequest(inputs=[TEXT], priority=7), "priority", "7 is not known"),  # type: ignore[arg-type]
        (pb.EncodeRequest(inputs=[TEXT], empty_texts=9), "empty_texts", "9 is not known"),  # type: ignore[arg-type]
        (pb.EncodeRequest(inputs=[TEXT], special_tokens=9), "special_tokens", "9 is not known"),  # type: ignore[arg-type]
        (pb.EncodeRequest(inputs=[TEXT, ids(0)]), "inputs[1].ids", "has 0 ids; give 1 to 6"),
        (pb.EncodeRequest(inputs=[TEXT, ids(7)]), "inputs[1].ids", "has 7 ids; give 1 to 6"),
        (
            pb.EncodeRequest(inputs=[ids(3, 2)]),
            "inputs[0].ids.segments",
            "has 2 entries for 3 ids; give one of each",
        ),
        (
            pb.EncodeRequest(inputs=[ids(7)], truncation=pb.TRUNCATION_CUT_END),
            "inputs[0].ids",
            "has 7 ids",
        ),
    ],
)
def test_invalid_fields_are_named(request_: pb.EncodeRequest, field: str, problem: str) -> None:
    with pytest.raises(InvalidInput) as error:
        encode_job(request_, MODEL)
    assert error.value.field == field
    assert problem in error.value.message


@pytest.mark.parametrize("name", ["attention", "hidden"])
def test_attention_is_refused_without_the_attend_graph(name: str) -> None:
    outputs = pb.Outputs()
    getattr(outputs, name).SetInParent()
    with pytest.raises(InvalidInput, match=f"outputs.{name}: this server"):
        selection(outputs, served(FakeRuntime(attend=False, accepts=("text",))))


def test_layers_of_hidden_states_count_the_embeddings() -> None:
    outputs = pb.Outputs(
        hidden=pb.HiddenOutput(layers=[-1, 0]), attention=pb.AttentionOutput(layers=[-1])
    )
    found = selection(outputs, MODEL)
    assert {name: choice.layers for name, choice in found.items()} == {
        "attention": (2,),
        "hidden": (3, 0),
    }
    assert selection(pb.Outputs(hidden=pb.HiddenOutput()), MODEL)["hidden"].layers == (0, 1, 2, 3)


@given(st.integers(1, 12), st.lists(st.integers(-15, 15), max_size=6))
def test_layer_selections_are_resolved(count: int, layers: list[int]) -> None:
    absolute = [layer + count if layer < 0 else layer for layer in layers]
    outside = [place for place, layer in enumerate(absolute) if not 0 <= layer < count]
    if not layers:
        assert resolve_indices("f", tuple(layers), count) == tuple(range(count))
    elif outside:
        with pytest.raises(
            InvalidInput, match=rf"f\[{outside[0]}\]: is .*; valid are -{count} \.\. {count - 1}"
        ):
            resolve_indices("f", tuple(layers), count)
    elif len(set(absolute)) < len(absolute):
        with pytest.raises(InvalidInput, match="f: names one twice"):
            resolve_indices("f", tuple(layers), count)
    else:
        assert resolve_indices("f", tuple(layers), count) == tuple(absolute)


@pytest.mark.parametrize(
    "unknown", [b"\x7a\x00", b"\x1a\x03\xf2\x01\x00"]
)  # field 15 of Outputs; field 30 of Outputs.attention
def test_unknown_output_fields_of_a_newer_client_are_refused(
    unknown: bytes,
) -> None:
    with pytest.raises(
        InvalidInput, match="outputs: asks for something that this server does not know"
    ):
        selection(pb.Outputs.FromString(unknown), MODEL)


def test_a_text_beyond_the_tokenizer_limit_is_refused_untokenised() -> None:
    encode_job(pb.EncodeRequest(inputs=[pb.Input(text="é" * 9)]), MODEL)
    with pytest.raises(
        InvalidInput, match=r"inputs\[1\]\.text: has 10 characters; at most 9 are read"
    ):
        encode_job(pb.EncodeRequest(inputs=[TEXT, pb.Input(text="é" * 10)]), MODEL)


def test_ids_in_tokenize_have_the_limits_of_that_method() -> None:
    tokenize_job(pb.TokenizeRequest(inputs=[ids(6), ids(6), ids(3)]), MODEL)
    with pytest.raises(InvalidInput, match="have more than 15 tokens together"):
        tokenize_job(pb.TokenizeRequest(inputs=[ids(6), ids(6), ids(4)]), MODEL)


@pytest.mark.parametrize(("count", "segments"), [(1_000_000, 0), (2, 1_000_000)])
def test_ids_and_segments_over_the_limit_are_refused_without_becoming_objects(
    count: int, segments: int
) -> None:
    request = pb.EncodeRequest(inputs=[ids(count, segments)])
    tracemalloc.start()
    try:
        with pytest.raises(InvalidInput):
            encode_job(request, MODEL)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_more_inputs_than_a_request_may_have_are_refused_before_they_are_decoded() -> None:
    with pytest.raises(InvalidInput, match="has 5 entries; give 1 to 4"):
        request_decoding.decode_inputs([pb.Input(text="a")] * 5, served(), 10)


@pytest.mark.parametrize(
    ("field", "outputs"),
    [
        ("attention.layers", pb.Outputs(attention=pb.AttentionOutput(layers=[0] * 1000))),
        ("attention.heads", pb.Outputs(attention=pb.AttentionOutput(heads=[0] * 1000))),
        ("hidden.layers", pb.Outputs(hidden=pb.HiddenOutput(layers=[0] * 1000))),
    ],
)
def test_a_list_longer_than_the_model_has_values_is_refused(
    field: str, outputs: pb.Outputs
) -> None:
    with pytest.raises(InvalidInput, match=f"{field}: has 1000 entries, and the model has at most"):
        decode_outputs(outputs, served())


def test_spans_of_all_inputs_are_counted_before_they_are_decoded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A message holds millions of them, and each becomes an object."""
    decoded = list[pb.SpansOutput]()
    monkeypatch.setattr(OUTPUTS["spans"], "spec_of", decoded.append)
    own = pb.TextSpans(spans=[pb.TextSpan(end=1)] * 6)
    outputs = pb.Outputs(spans=pb.SpansOutput(given=pb.GivenSpans(inputs=[own] * 2)))
    with pytest.raises(InvalidInput, match=r"outputs.spans: has 12 spans; at most 10 a request"):
        decode_outputs(outputs, served())
    assert not decoded
