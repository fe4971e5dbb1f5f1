"""Span vectors in this process against NumPy on PyTorch's token vectors; batches; long texts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from headlight.errors import NotFinite
from headlight.runtime.spans.span_items import window_starts
from headlight.runtime.values import Floats
from headlight.span_vectors import SpanVectors, Windows
from tests.headlight.runtime.spans.conftest import Model
from tests.span_reference import (
    SECOND,
    TEXT,
    behind_pooling,
    expected_vectors,
    pytorch_tokens,
)

SPANS: list[Any] = ["sentences", Windows(7, 3), Windows(500), [[(0, 4), (2, 30), (0, len(TEXT))]]]
EXACT: Any = {"atol": 1e-5, "rtol": 0}


@pytest.mark.parametrize("spans", SPANS, ids=str)
def test_vectors_are_means_of_pytorchs_token_vectors(model: Model, spans: Any) -> None:
    [found] = model.runtime.span_vectors([TEXT], spans, pooling="mean")
    assert found.vectors.dtype == np.float32
    np.testing.assert_allclose(found.vectors, expected_vectors(model.encoder, found), **EXACT)


@pytest.mark.parametrize("spans", ["sentences", Windows(4, 1)], ids=str)
def test_dense_layers_come_after_the_mean(dense: Model, spans: Any) -> None:
    text = TEXT[:28]
    [found] = dense.runtime.span_vectors([text], spans)
    assert found.vectors.shape == (len(found), 12)
    np.testing.assert_allclose(found.vectors, expected_vectors(dense.encoder, found), **EXACT)


def test_characters_and_tokens_of_each_span(model: Model) -> None:
    [found] = model.runtime.span_vectors([TEXT], "sentences", pooling="mean")
    parts = [TEXT[span.start : span.end] for span in found.characters]
    assert parts == [
        "Join two paths, e.g. a and b.",
        "It returns a path!",
        "Does it fail?",
        "Yes: if there is none",
    ]
    for part, own in zip(parts, found.token_ranges, strict=True):
        covered = "".join(TEXT[found.tokens.starts[at] : found.tokens.ends[at]] for at in own)
        assert covered == part.replace(" ", "")


@pytest.mark.parametrize("prompted", [False, True])
def test_a_span_of_the_whole_text_is_the_pooled_vector(dense: Model, prompted: bool) -> None:
    """The model leaves prompts out of pooling, and the special token before one with them."""
    text, prompt = TEXT[:20], "as: " if prompted else ""
    found, pooled = (
        dense.runtime.span_vectors([text], [[(0, len(text))]], include_special=True, prompt=prompt)[
            0
        ],
        dense.runtime.encode(text, prompt=prompt),
    )
    np.testing.assert_allclose(found.vectors[0], pooled, **EXACT)


def test_every_span_at_an_end_has_its_special_tokens(model: Model) -> None:
    """In any order, and as often as it is given."""
    size = len(SECOND)
    spans = [(5, size), (1, 3), (0, size), (0, 3), (1, size), (0, 3)]
    [found] = model.runtime.span_vectors([SECOND], [spans], include_special=True, pooling="mean")
    count = len(found.tokens)
    at_start = [own.start == 0 for own in found.token_ranges]
    at_end = [own.stop == count for own in found.token_ranges]
    assert at_start == [start == 0 for start, _ in spans]
    assert at_end == [end == size for _, end in spans]
    vectors = pytorch_tokens(model.encoder, found.tokens.ids).astype(np.float64)
    means = np.array([vectors[list(own)].mean(axis=0) for own in found.token_ranges])
    np.testing.assert_allclose(found.vectors, behind_pooling(model.encoder, means), **EXACT)


def test_truncation_leaves_fewer_sentences_than_are_counted(dense: Model) -> None:
    [found] = dense.runtime.span_vectors(["Go. " * 10_001], "sentences", truncate="end")
    assert 1 < len(found) < 32


def test_the_head_runs_once_for_all_texts(dense: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    runs, head = list[int](), dense.runtime.engine.head

    def counted(vectors: Floats) -> Floats:
        runs.append(len(vectors))
        return head(vectors)

    monkeypatch.setattr(dense.runtime.engine, "head", counted)
    found = dense.runtime.span_vectors([SECOND, TEXT[:28], SECOND], "sentences")
    assert runs == [sum(map(len, found))]
    assert dense.runtime.span_vectors([], "sentences") == []


def test_a_vector_of_zeros_is_refused_where_unit_length_is_due(
    dense: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = dense.runtime.engine.head

    def second_is_zero(vectors: Floats) -> Floats:
        found = head(vectors)
        found[1] = 0
        return found

    monkeypatch.setattr(dense.runtime.engine, "head", second_is_zero)
    [found] = dense.runtime.span_vectors([SECOND], "sentences", normalize=False)
    assert [bool(each.any()) for each in found.vectors] == [True, False]
    with pytest.raises(NotFinite, match="a vector of zeros has no unit length"):
        dense.runtime.span_vectors([SECOND], "sentences", normalize=True)


def test_prompts_are_seen_and_not_averaged(dense: Model) -> None:
    [found] = dense.runtime.span_vectors([SECOND], "sentences", prompt="ab: ")
    assert any(found.tokens.prompt)
    assert found.characters[0] == (0, 4, 0)
    np.testing.assert_allclose(found.vectors, expected_vectors(dense.encoder, found), **EXACT)
    [bare] = dense.runtime.span_vectors([SECOND], "sentences", prompt="")
    assert np.abs(found.vectors - bare.vectors).max() > 1e-3


def test_truncation_leaves_out_sentences_and_cuts_one(dense: Model) -> None:
    for side, kept in (("end", slice(0, 2)), ("start", slice(-3, None))):
        [found] = dense.runtime.span_vectors([TEXT], "sentences", truncate=side)  # type: ignore[arg-type]
        assert len(found.tokens) == 32
        [all_of_them] = dense.runtime.span_vectors([TEXT], "sentences", beyond_max_length=True)
        assert found.characters == all_of_them.characters[kept]
        np.testing.assert_allclose(found.vectors, expected_vectors(dense.encoder, found), **EXACT)


def test_ids_have_windows_of_all_their_tokens(model: Model) -> None:
    ids = model.runtime.tokenize([TEXT])[0].ids
    [found] = model.runtime.span_vectors([list(ids)], Windows(10, 5), pooling="mean")
    assert found.characters == ()
    assert found.token_ranges[0] == range(10)
    assert found.token_ranges[-1].stop == len(ids)
    np.testing.assert_allclose(found.vectors, expected_vectors(model.encoder, found), **EXACT)


def test_batch_mates_move_nothing(model: Model) -> None:
    texts = [TEXT, SECOND, TEXT * 1 + " And more.", "x"]
    together = model.runtime.span_vectors(texts, "sentences", pooling="mean")
    for text, found in zip(texts, together, strict=True):
        [alone] = model.runtime.span_vectors([text], "sentences", pooling="mean")
        np.testing.assert_allclose(found.vectors, alone.vectors, atol=1e-6, rtol=0)


@pytest.mark.parametrize(("dimensions", "normalize"), [(5, None), (5, False), (None, False)])
def test_vectors_are_cut_then_scaled(
    dense: Model, dimensions: int | None, normalize: bool | None
) -> None:
    [whole] = dense.runtime.span_vectors([SECOND], "sentences", normalize=False)
    [found] = dense.runtime.span_vectors(
        [SECOND], "sentences", dimensions=dimensions, normalize=normalize
    )
    expected = whole.vectors[:, :dimensions]
    if normalize is None:
        expected = expected / np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(found.vectors, expected, atol=1e-6, rtol=0)
    [halves] = dense.runtime.span_vectors(
        [SECOND], "sentences", dimensions=dimensions, normalize=normalize, dtype="float16"
    )
    np.testing.assert_array_equal(halves.vectors, found.vectors.astype(np.float16))


def long_reference(dense: Model, found: SpanVectors) -> Floats:
    """Return token vectors of a long text, each from the window where it is furthest inside.

    Special tokens are those of the first and the last window.
    """
    tokens, starts = found.tokens, found.window_starts
    marks = zip(tokens.special, tokens.prompt, strict=True)
    around = [at for at, either in enumerate(marks) if any(either)]
    room, vectors = 32 - len(around), np.zeros((len(tokens), 36), np.float32)
    depth = np.full(len(tokens), -1)
    for start in starts:
        window = [*around[:-1], *range(start, start + room), around[-1]]
        assert len(window) == 32
        inside = pytorch_tokens(dense.encoder, [tokens.ids[at] for at in window])
        for place, at in enumerate(window):
            own = min(at - start, start + room - 1 - at)
            if own >= depth[at] if at not in around else start == starts[-1] or depth[at] < 0:
                vectors[at], depth[at] = inside[place], max(0, own)
        if start == starts[0]:
            first = inside[0]
    vectors[0] = first
    return vectors


@pytest.mark.parametrize("prompt", ["", "as: "])
@pytest.mark.parametrize("spans", ["sentences", Windows(9, 4), [[(0, 240), (100, 103)]]], ids=str)
def test_long_texts_are_read_in_overlapping_windows(dense: Model, spans: Any, prompt: str) -> None:
    text = " ".join([TEXT] * 3)
    [found] = dense.runtime.span_vectors([text], spans, prompt=prompt, beyond_max_length=True)
    [whole] = dense.runtime.tokenize([text], prompt=prompt)
    assert found.tokens == whole
    assert len(found.window_starts) > 5
    expected = expected_vectors(dense.encoder, found, long_reference(dense, found))
    np.testing.assert_allclose(found.vectors, expected, **EXACT)


def test_special_tokens_of_a_long_text_come_from_its_ends(dense: Model) -> None:
    text = " ".join([TEXT] * 3)
    [found] = dense.runtime.span_vectors(
        [text], [[(0, len(text))]], include_special=True, beyond_max_length=True
    )
    assert found.token_ranges == (range(len(found.tokens)),)
    vectors = long_reference(dense, found).astype(np.float64)
    expected = behind_pooling(dense.encoder, vectors.mean(axis=0, keepdims=True))
    np.testing.assert_allclose(found.vectors, expected, **EXACT)


def test_short_texts_are_whole_beside_long_ones(dense: Model) -> None:
    texts = [SECOND, " ".join([TEXT] * 2), SECOND]
    found = dense.runtime.span_vectors(texts, "sentences", beyond_max_length=True)
    [alone] = dense.runtime.span_vectors([SECOND], "sentences")
    for each in (found[0], found[2]):
        assert each.window_starts == ()
        np.testing.assert_allclose(each.vectors, alone.vectors, atol=1e-6, rtol=0)
    assert found[1].window_starts


def test_windows_cover_a_text_and_overlap() -> None:
    for length in range(33, 120):
        starts, room = window_starts(length, (1, length - 1), 32)
        assert room == 30
        assert starts[0] == 1
        assert starts[-1] + room == length - 1
        steps = np.diff(starts)
        assert len(starts) == 1 or (steps.min() > 0 and steps.max() <= room - room // 4)
