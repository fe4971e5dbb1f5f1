"""Embedding options in a request.

Checked before tokenization, resolved against the model.
"""

from __future__ import annotations

import numpy as np
import pytest

from headlight.errors import InvalidInput
from headlight.outputs.vector_forms import AvailableForms, VectorForm
from headlight.pb import headlight_pb2 as pb
from headlight.runtime.bundle.prompts import LONGEST_PROMPT
from headlight.spec import TokensSpec
from headlight_service.core.models import ServedModel
from headlight_service.frontends.contract.request_decoding import (
    REMEMBERED,
    REMEMBERED_BYTES,
)
from tests.service.fakes import FakeRuntime
from tests.service.frontends.contract.test_request_decoding import (
    encode_job,
    selection,
    served,
    tokenize_job,
)

RANGES = np.stack([np.zeros(8), np.ones(8)]).astype(np.float32)


def embedding_model() -> ServedModel:
    runtime = FakeRuntime(
        accepts=("text", "pair", "ids"),
        prompts={"query": "q: ", "none": ""},
        default_prompt="query",
    )
    runtime.forms = AvailableForms(16, True, {8: RANGES})
    return served(runtime, max_characters=LONGEST_PROMPT)


MODEL = embedding_model()
TEXT = pb.Input(text="a")
PAIR = pb.Input(pair=pb.TextPair(first="a", second="b"))
IDS = pb.Input(ids=pb.TokenIds(ids=[3]))
INT8, BINARY, FLOAT16 = pb.DATA_TYPE_INT8, pb.DATA_TYPE_BINARY, pb.DATA_TYPE_FLOAT16


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (pb.PooledOutput(), VectorForm()),
        (pb.PooledOutput(dimensions=3, normalize=False), VectorForm(3, False)),
        (
            pb.PooledOutput(dimensions=8, dtypes=[INT8, BINARY]),
            VectorForm(8, True, ("int8", "binary")),
        ),
    ],
)
def test_pooled_is_resolved(message: pb.PooledOutput, expected: VectorForm) -> None:
    assert selection(pb.Outputs(pooled=message), MODEL)["pooled"] == expected


def test_tokens_are_resolved() -> None:
    message = pb.TokensOutput(skip_special=True, normalize=True, dtype=FLOAT16)
    found = selection(pb.Outputs(tokens=message), MODEL)
    assert found["tokens"] == TokensSpec(skip_special=True, normalize=True, dtype="float16")
    assert found.needs_tokens
    assert not selection(pb.Outputs(tokens=pb.TokensOutput(normalize=True)), MODEL).needs_tokens


@pytest.mark.parametrize(
    ("outputs", "message"),
    [
        (pb.Outputs(pooled=pb.PooledOutput(dimensions=17)), r"outputs\.pooled\.dimensions: is 17"),
        (
            pb.Outputs(pooled=pb.PooledOutput(dtypes=[INT8])),
            "needs their ranges, and this bundle has those of 8",
        ),
        (
            pb.Outputs(pooled=pb.PooledOutput(dtypes=[pb.DATA_TYPE_UNSPECIFIED])),
            r"outputs\.pooled\.dtypes\[0\]: 0 is not known to this server",
        ),
        (
            pb.Outputs(pooled=pb.PooledOutput(dtypes=[pb.DATA_TYPE_UINT8])),
            r"dtypes\[0\]: 3 is not known",
        ),
        (
            pb.Outputs(pooled=pb.PooledOutput(dtypes=[INT8] * 10**6)),
            r"outputs\.pooled\.dtypes: has 1000000 entries",
        ),
        (pb.Outputs(tokens=pb.TokensOutput(dtype=INT8)), r"outputs\.tokens\.dtype: 5 is not known"),
        (
            pb.Outputs(attention=pb.AttentionOutput(dtype=INT8)),
            r"outputs\.attention\.dtype: 5 is not known",
        ),
    ],
)
def test_invalid_options_name_their_field(outputs: pb.Outputs, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        selection(outputs, MODEL)


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({}, "q: "),
        ({"prompt_name": "none"}, ""),
        ({"prompt_text": "x "}, "x "),
        ({"prompt_text": ""}, ""),
    ],
)
def test_the_prompt_of_a_request_is_decoded(asked: dict[str, str], expected: str) -> None:
    encode, _ = encode_job(pb.EncodeRequest(inputs=[TEXT], **asked), MODEL)  # type: ignore[arg-type]
    assert encode.prompt == expected
    assert tokenize_job(pb.TokenizeRequest(inputs=[TEXT], **asked), MODEL).prompt == expected


@pytest.mark.parametrize(("value", "kind"), [(PAIR, "pair"), (IDS, "ids")])
def test_named_prompts_are_refused_for_pairs_and_ids(value: pb.Input, kind: str) -> None:
    for asked in ({}, {"prompt_text": ""}, {"prompt_name": "none"}):
        encode_job(pb.EncodeRequest(inputs=[TEXT, value], **asked), MODEL)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match=rf"inputs\[1\]\.{kind}: a prompt is put before a text"):
        encode_job(pb.EncodeRequest(inputs=[TEXT, value], prompt_name="query"), MODEL)


def test_a_prompt_counts_among_the_characters_of_a_text() -> None:
    request = pb.EncodeRequest(inputs=[TEXT], prompt_text="x" * LONGEST_PROMPT)
    with pytest.raises(InvalidInput, match=r"inputs\[0\]\.text: has 4097 characters") as caught:
        encode_job(request, MODEL)
    assert "4096 of them its prompt; at most 4096 are read; shorten it" in caught.value.problem


def test_resolved_outputs_are_cached() -> None:
    model = served()
    outputs = pb.Outputs(pooled=pb.PooledOutput(dimensions=2))
    first = selection(outputs, model)
    assert selection(pb.Outputs.FromString(outputs.SerializeToString()), model) is first
    assert selection(pb.Outputs(pooled=pb.PooledOutput(dimensions=3)), model)["pooled"].width == 3


def test_refused_outputs_are_refused_again_and_the_cache_is_bounded() -> None:
    model = served()
    for _ in range(2):
        with pytest.raises(InvalidInput, match="dimensions"):
            selection(pb.Outputs(pooled=pb.PooledOutput(dimensions=9)), model)
    assert len(model._selections) == 0
    for size in range(2 * REMEMBERED):
        selection(pb.Outputs(attention=pb.AttentionOutput(max_bytes=size)), model)
        assert 0 < len(model.output_specs) <= REMEMBERED
        assert 0 < len(model._selections) <= REMEMBERED


def test_long_outputs_are_not_cached() -> None:
    model = served(FakeRuntime())
    outputs = pb.Outputs()
    outputs.attention.queries.indices.indices.extend(range(REMEMBERED_BYTES))
    first = selection(outputs, model)
    assert len(model.output_specs) == 0
    assert selection(outputs, model) == first
    assert len(model._selections) == 0
