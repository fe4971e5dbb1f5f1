"""Code written for one kind of encoder runs on the others, with the same results and errors."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headlight import AsyncClient, AttentionSpec, Client, Encoder, InvalidInput, Span
from headlight.analysis import analyse
from headlight.errors import HeadlightError
from headlight.runtime import Runtime
from tests.headlight.interface.conftest import DIM

KINDS = ("Runtime", "Client", "AsyncClient")
OTHERS = ("Runtime", "AsyncClient")  # compared with a Client
TEXT, OTHER, PAIR, IDS = "read a file", "close it", ("one", "two"), [2, 9, 12, 3]
LONG = "word " * 60  # more tokens than the model takes
MASK = [[1.0, 0.0, 0.5]]
METHODS = [name for name, _ in inspect.getmembers(Encoder, inspect.isfunction) if name[0] != "_"]

CALLS: dict[str, Callable[[Encoder], Any]] = {
    "lone text": lambda model: model.encode(TEXT),
    "list": lambda model: model.encode([TEXT, OTHER, IDS, np.array(IDS), PAIR]),
    "generator": lambda model: model.encode(text for text in (TEXT, OTHER)),
    "tuple": lambda model: model.encode((TEXT, OTHER)),
    "nothing": lambda model: model.encode([]),
    "form": lambda model: model.encode([TEXT], dimensions=8, normalize=False, dtype="float16"),
    "bits": lambda model: model.encode([], dimensions=16, dtype="ubinary"),
    "mask": lambda model: model.encode([TEXT], head_mask=MASK),
    "prompt": lambda model: model.encode([TEXT], prompt_name="query"),
    "info": lambda model: model.encode_with_info([TEXT, LONG], prompt="p ", truncate="start"),
    "lone info": lambda model: model.encode_with_info(TEXT),
    "types": lambda model: model.encode_with_info([TEXT], dtype=("int8", "float32")),
    "tokens": lambda model: model.encode_tokens([TEXT, IDS], normalize=True, dtype="float16"),
    "token vectors": lambda model: model.token_vectors(
        [TEXT, OTHER], prompt_name="query", skip_special=True, skip_prompt=True
    ),
    "all token vectors": lambda model: model.token_vectors([IDS]),
    "attend": lambda model: model.attend(TEXT),
    "attend pair": lambda model: model.attend(PAIR, [-1], priority="bulk"),
    "attend ids": lambda model: model.attend(IDS, 0),
    "whole": lambda model: model.attention([TEXT, PAIR], AttentionSpec()),
    "words": lambda model: model.attention(
        [TEXT], AttentionSpec.of(-1, reduce="head_mean", unit="word", drop_special=True)
    ),
    "spans": lambda model: model.attention(
        [TEXT],
        AttentionSpec.of(keys=Span(0, 11), unit="span", spans=[(0, 4), (5, 11)]),
        head_mask=MASK,
    ),
    "top": lambda model: model.attention(
        TEXT, AttentionSpec.of(pairs=[(0, 2), (0, 0)], top_k=3, dtype="uint8")
    ),
    "statistics": lambda model: model.attention([TEXT], AttentionSpec.of(reduce="statistics")),
    "scores": lambda model: model.attention([TEXT], AttentionSpec(scores=True, dtype="float16")),
    "lists": lambda model: model.attention(
        [TEXT],
        AttentionSpec(queries=[np.int64(1), -1], heads=[1, 0]),  # type: ignore[arg-type]
    ),
    "pieces": lambda model: list(model.attention_pieces(TEXT, AttentionSpec.of(heads=[2, 0]))),
    "rows": lambda model: list(
        model.attention_pieces(TEXT, AttentionSpec.of(reduce="pooling_weights"))
    ),
    "bytes": lambda model: model.attention_bytes(TEXT, AttentionSpec(top_k=2)),
    "occlusion": lambda model: model.occlusion(TEXT),
    "compare": lambda model: model.compare(TEXT, [OTHER, IDS], late_interaction=True),
    "evidence": lambda model: model.compare(
        TEXT, [OTHER, TEXT], evidence=["attention", "occlusion"], matrix="float16", sort=True
    ),
    "target": lambda model: model.occlusion(TEXT, target=OTHER),
    "occlusion of some": lambda model: model.occlusion(PAIR, [1, -2], truncate="end"),
    "hidden": lambda model: model.hidden(TEXT),
    "some hidden": lambda model: model.hidden(TEXT, -1, tokens=[2, 0], dtype="float16"),
    "tokenize": lambda model: model.tokenize([TEXT, PAIR, IDS, LONG]),
    "plain tokens": lambda model: model.tokenize("a [SEP] b", special_tokens="text"),
    "similarity": lambda model: model.similarity(model.encode(TEXT), model.encode([TEXT, OTHER])),
    "analysis": lambda model: analyse(model, [TEXT, OTHER], ablate=True),
}

REFUSED: dict[str, Callable[[Encoder], Any]] = {
    "no list": lambda model: model.encode(5),  # type: ignore[arg-type]
    "no input": lambda model: model.encode([TEXT, None]),  # type: ignore[list-item]
    "ids alone": lambda model: model.encode(IDS),  # type: ignore[arg-type]
    "surrogate": lambda model: model.tokenize(["\ud800"]),
    "empty": lambda model: model.encode([TEXT, ""]),
    "empty half": lambda model: model.attend(("a", "")),
    "long": lambda model: model.encode_tokens([TEXT, LONG]),
    "unknown id": lambda model: model.encode([[2, 10**6]]),
    "ids with a prompt": lambda model: model.encode([IDS], prompt_name="query"),
    "unknown prompt": lambda model: model.encode([TEXT], prompt_name="passage"),
    "two prompts": lambda model: model.encode([TEXT], prompt_name="query", prompt="q: "),
    "long prompt": lambda model: model.encode([TEXT], prompt="x" * 5000),
    "prompt that is none": lambda model: model.tokenize([TEXT], prompt=b"q"),  # type: ignore[arg-type]
    "truncate": lambda model: model.encode(TEXT, truncate="middle"),  # type: ignore[arg-type]
    "priority": lambda model: model.attend(TEXT, priority="soon"),  # type: ignore[arg-type]
    "special tokens": lambda model: model.encode(TEXT, special_tokens="html"),  # type: ignore[arg-type]
    "dimensions": lambda model: model.encode(TEXT, dimensions=DIM + 1),
    "no dimensions": lambda model: model.encode(TEXT, dimensions=1.5),  # type: ignore[arg-type]
    "bits of 7": lambda model: model.encode(TEXT, dimensions=7, dtype="binary"),
    "ranges": lambda model: model.encode(TEXT, dimensions=8, dtype="int8"),
    "type": lambda model: model.encode(TEXT, dtype="float64"),  # type: ignore[arg-type]
    "types": lambda model: model.encode(TEXT, dtype=("int8",)),  # type: ignore[arg-type]
    "normalize": lambda model: model.encode(TEXT, normalize="no"),  # type: ignore[arg-type]
    "mask of another shape": lambda model: model.encode(TEXT, head_mask=[[1.0]]),
    "mask out of range": lambda model: model.encode(TEXT, head_mask=[[1.0, 2.0, 0.0]]),
    "mask of text": lambda model: model.attention(TEXT, AttentionSpec(), head_mask=[["a"] * 3]),
    "layer": lambda model: model.attend(TEXT, 7),
    "layer that is none": lambda model: model.attend(TEXT, "last"),  # type: ignore[arg-type]
    "hidden layer": lambda model: model.hidden(TEXT, [0, 3]),
    "hidden type": lambda model: model.hidden(TEXT, dtype="uint8"),
    "no spec": lambda model: model.attention([TEXT], {"layers": 0}),  # type: ignore[arg-type]
    "head": lambda model: model.attention([TEXT], AttentionSpec.of(heads=[5])),
    "reduction": lambda model: model.attention([TEXT], AttentionSpec(reduce=("mean",))),  # type: ignore[arg-type]
    "top of none": lambda model: model.attention([TEXT], AttentionSpec(top_k="3")),  # type: ignore[arg-type]
    "token": lambda model: model.attention([TEXT], AttentionSpec.of(queries=[99])),
    "words of ids": lambda model: model.attention([IDS], AttentionSpec.of(unit="word")),
    "pieces of two parts": lambda model: list(
        model.attention_pieces(TEXT, AttentionSpec(dtype="uint8"))
    ),
    "special tokens of ids": lambda model: model.token_vectors([IDS], skip_special=True),
    "type of token vectors": lambda model: model.encode_tokens(TEXT, dtype="int8"),  # type: ignore[arg-type]
    "occluded token": lambda model: model.occlusion(TEXT, [99]),
    "occlusion of nothing": lambda model: model.occlusion("", None),
    "similarity of texts": lambda model: model.similarity(TEXT, TEXT),
    "similarity of widths": lambda model: model.similarity(np.ones(3), np.ones((2, 4))),
}


def assert_same(found: Any, expected: Any) -> None:
    """Compare results of any method: types and texts exactly, numbers within rounding."""
    assert type(found) is type(expected)
    if isinstance(expected, np.ndarray):
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
        tolerance = {"float32": 2e-6, "float16": 2e-3}.get(expected.dtype.name, 1)
        np.testing.assert_allclose(
            found.astype(np.float64), expected.astype(np.float64), atol=tolerance, rtol=0
        )
    elif dataclasses.is_dataclass(expected):
        for field in dataclasses.fields(expected):
            assert_same(getattr(found, field.name), getattr(expected, field.name))
    elif isinstance(expected, dict):
        assert list(found) == list(expected)
        assert_same(list(found.values()), list(expected.values()))
    elif isinstance(expected, list | tuple):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_same(one, other)
    elif isinstance(expected, float):
        assert found == pytest.approx(expected, abs=2e-6)
    else:
        assert found == expected


@pytest.mark.parametrize("kind", OTHERS)
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_results_are_the_same(
    encoders: dict[str, Encoder], kind: str, call: Callable[[Encoder], Any]
) -> None:
    assert_same(call(encoders[kind]), call(encoders["Client"]))


@pytest.mark.parametrize("kind", OTHERS)
@pytest.mark.parametrize("call", REFUSED.values(), ids=REFUSED)
def test_errors_are_the_same(
    encoders: dict[str, Encoder], kind: str, call: Callable[[Encoder], Any]
) -> None:
    with pytest.raises(InvalidInput) as expected:
        call(encoders["Client"])
    with pytest.raises(HeadlightError) as found:
        call(encoders[kind])
    assert (type(found.value), str(found.value)) == (InvalidInput, str(expected.value))
    assert found.value.__cause__ is None


@pytest.mark.parametrize("kind", KINDS)
def test_a_lone_text_has_one_vector_and_elsewhere_is_a_list_of_one(
    encoders: dict[str, Encoder], kind: str
) -> None:
    model = encoders[kind]
    assert model.encode(TEXT).shape == (DIM,)
    assert model.encode((TEXT, OTHER)).shape == (2, DIM)
    assert model.encode([(TEXT, OTHER)]).shape == (1, DIM)
    assert model.encode_with_info(TEXT).vectors.shape == (1, DIM)
    assert len(model.token_vectors(TEXT)) == len(model.tokenize(TEXT)) == 1
    assert model.attend(TEXT).text == TEXT
    assert model.attend(PAIR).text == PAIR
    assert model.attend(IDS).text is None


@pytest.mark.parametrize("kind", KINDS)
def test_attention_beyond_the_bytes_that_a_spec_allows_is_refused(
    encoders: dict[str, Encoder], kind: str
) -> None:
    model, spec = encoders[kind], AttentionSpec(max_bytes=100)
    size = model.attention_bytes(TEXT, spec)
    with pytest.raises(InvalidInput, match=f"would have {size} bytes, over the 100 allowed"):
        model.attention([TEXT], spec)


@pytest.mark.parametrize("kind", OTHERS)
def test_a_description_is_the_same_but_for_limits_and_names(
    encoders: dict[str, Encoder], kind: str
) -> None:
    found, expected = encoders[kind].model(), encoders["Client"].model()
    # Nor does a runtime have the names of a service.
    assert dataclasses.replace(found, limits=expected.limits, names=expected.names) == expected
    assert found.similarity == "dot"


def test_every_method_has_the_same_arguments_with_asyncio() -> None:
    assert {"encode", "attend", "rerank"} <= set(METHODS)
    for name in METHODS:
        expected = inspect.signature(getattr(Encoder, name))
        for kind in (Client, Runtime):
            assert inspect.signature(getattr(kind, name)) == expected, name
        found = inspect.signature(getattr(AsyncClient, name))
        assert list(found.parameters.values()) == list(expected.parameters.values()), name


def test_a_runtime_is_closed_as_a_client_is(bundle: Path) -> None:
    with Runtime(bundle, threads=1) as runtime:
        pieces = runtime.attention_pieces(TEXT, AttentionSpec())
        assert runtime.encode(TEXT).shape == (DIM,)
    for ask in (
        lambda: runtime.encode(TEXT),
        runtime.model,
        lambda: runtime.attention_pieces(TEXT, AttentionSpec()),
        lambda: next(pieces),
    ):
        with pytest.raises(ValueError, match="the runtime is closed; make another"):
            ask()
    runtime.close()


def test_a_runtime_without_attention_refuses_it_and_says_so(bundle: Path) -> None:
    with Runtime(bundle, threads=1, attend=False) as runtime:
        assert runtime.model().outputs == ("pooled", "tokens", "token_info", "spans")
        for ask, field in (
            (lambda: runtime.attend(TEXT), r"outputs\.attention"),
            (lambda: runtime.hidden(TEXT), r"outputs\.hidden"),
            (lambda: runtime.encode(TEXT, head_mask=MASK), "head_mask"),
        ):
            with pytest.raises(InvalidInput, match=f"^{field}: .* opened with attend=False"):
                ask()


@pytest.mark.parametrize("kind", ["Client", "Runtime"])
def test_an_unknown_argument_names_the_nearest(encoders: dict[str, Encoder], kind: str) -> None:
    with pytest.raises(TypeError, match=r"'dimension' \(did you mean dimensions\?\)"):
        encoders[kind].encode("a", dimension=8)  # type: ignore[call-arg]
