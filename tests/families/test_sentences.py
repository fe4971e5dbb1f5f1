"""Folders of sentence-transformers, exported and compared with that library itself.

Over the wire: test_hub.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import transformers
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer
from sentence_transformers.util.quantization import quantize_embeddings

from headlight import InvalidInput
from headlight.runtime import Runtime
from headlight_export.folders.origin import read_origin
from headlight_export.writer.bundle_writer import export_origin
from tests.families.sentences import (
    DIM,
    POOLING,
    PROMPTS,
    WIDTH,
    write_gemma,
    write_sentences,
    write_t5,
)

transformers.logging.set_verbosity_error()

# The last is truncated.
TEXTS = ["a", "what is this?", "One of the LONGER texts of them all.", "short one", "x" * 80]
# A prompt that pooling leaves out has no effect on texts without one.
FORMS: dict[str, dict[str, Any]] = {
    pooling: {"pooling": pooling, "prompts": PROMPTS, "include_prompt": False}
    for pooling in POOLING
}
FORMS |= {
    "normalized": {"normalize": True, "prompts": PROMPTS, "default_prompt": "passage"},
    "dense": {"dense": True, "pooling": "cls"},
    "dense, normalized": {"dense": True, "normalize": True},
    "dense, gemma3": {"write": write_gemma, "dense": True, "normalize": True, "prompts": PROMPTS},
    "dense, t5": {"write": write_t5, "dense": True, "normalize": True},
}
Opened = tuple[str, SentenceTransformer, Runtime]


@pytest.fixture(scope="module", params=FORMS)
def opened(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Opened]:
    """Yield each form: its name, the library's model, and a runtime of its folder."""
    folder = tmp_path_factory.mktemp("sentences")
    theirs = write_sentences(folder, **FORMS[request.param])
    export_origin(read_origin(folder / "model"), folder / "bundle")
    with Runtime(folder / "bundle", threads=1) as runtime:
        yield request.param, theirs, runtime


def of_forms(*names: str) -> pytest.MarkDecorator:
    """Return a decorator of a test of some forms alone."""
    return pytest.mark.parametrize("opened", names, indirect=True)


def check(got: NDArray[np.float32], expected: NDArray[np.float32]) -> None:
    """Check cosine and difference, relative to the vector's length, as the project promises."""
    lengths = np.linalg.norm(expected, axis=1)
    cosine = (got * expected).sum(axis=1) / np.linalg.norm(got, axis=1) / lengths
    assert cosine.min() >= 0.999999
    assert (np.abs(got - expected).max(axis=1) / lengths).max() <= 1e-5


def test_vectors_match_the_library(opened: Opened) -> None:
    form, theirs, runtime = opened
    got = runtime.encode(TEXTS, truncate="end")
    assert got.shape == (len(TEXTS), WIDTH if "dense" in form else DIM)
    check(got, theirs.encode(TEXTS))


@of_forms("dense, gemma3")
def test_texts_beyond_the_window_match_alone_in_a_batch_and_on_openvino(opened: Opened) -> None:
    _, theirs, runtime = opened
    assert runtime.bundle.manifest.max_length > 2 * 12
    expected = theirs.encode(TEXTS)
    for provider in ("cpu", "openvino"):
        with Runtime(runtime.bundle.path, provider=provider, threads=1) as each:
            check(each.encode(TEXTS, truncate="end"), expected)
            alone = [each.encode([text], truncate="end") for text in TEXTS]
            check(np.concatenate(alone), expected)


@of_forms("normalized", "dense, gemma3")
def test_prompts_by_name_by_text_and_by_default_match_the_library(opened: Opened) -> None:
    _, theirs, runtime = opened
    check(
        runtime.encode(TEXTS[:3], prompt_name="query"),
        theirs.encode(TEXTS[:3], prompt_name="query"),
    )
    check(runtime.encode(TEXTS[:3], prompt="see "), theirs.encode(TEXTS[:3], prompt="see "))
    check(
        runtime.encode(TEXTS, prompt_name="query", truncate="end"),
        theirs.encode(TEXTS, prompt_name="query"),
    )
    with pytest.raises(InvalidInput, match=r"prompt_name.*passage, query"):
        runtime.encode(TEXTS, prompt_name="none")


@of_forms(*POOLING)
def test_prompts_excluded_from_pooling_match_the_library(opened: Opened) -> None:
    _, theirs, runtime = opened
    got = runtime.encode(TEXTS[:4], prompt_name="query")
    check(got, theirs.encode(TEXTS[:4], prompt_name="query"))
    assert np.abs(got - runtime.encode(TEXTS[:4])).max() > 1e-3
    alone = np.concatenate([runtime.encode([text], prompt_name="query") for text in TEXTS[:4]])
    assert np.abs(got - alone).max() <= 1e-6 * np.linalg.norm(alone, axis=1).max()


@of_forms("dense, normalized")
def test_truncated_vectors_match_the_library(opened: Opened) -> None:
    _, theirs, runtime = opened
    for dimensions in (1, 8, 17):
        expected = theirs.encode(TEXTS, truncate_dim=dimensions, normalize_embeddings=True)
        check(runtime.encode(TEXTS, dimensions=dimensions, truncate="end"), expected)


@of_forms("mean")
def test_vector_types_match_the_library(opened: Opened) -> None:
    _, theirs, runtime = opened
    expected = theirs.encode(TEXTS[:4], truncate_dim=32)
    kinds = runtime.encode_with_info(
        TEXTS[:4], dimensions=32, dtype=("float32", "binary", "ubinary")
    ).by_type
    check(kinds["float32"], expected)
    clear = np.abs(expected) > 1e-5  # elsewhere rounding decides the sign
    assert clear.all()
    for kind in ("binary", "ubinary"):
        assert np.array_equal(kinds[kind], quantize_embeddings(expected, kind))
