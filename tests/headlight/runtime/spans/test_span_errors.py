"""Requests for span vectors that are refused, with the field and the remedy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from headlight import InvalidInput
from headlight.errors import BundleError
from headlight.runtime import Runtime
from headlight.runtime.bundle.manifest import PREVIOUS_VERSION
from headlight.span_vectors import SpansSpec, Windows
from tests.conftest import MakeBundle
from tests.factory import with_options
from tests.headlight.runtime.spans.conftest import Model
from tests.span_reference import SECOND, TEXT
from tests.tampering import change_golden

LONG = {"beyond_max_length": True}
MEAN = {"pooling": "mean"}
GIVEN = "outputs.spans.given.inputs[0]"
REFUSED: dict[str, tuple[list[Any], Any, dict[str, Any], str]] = {
    "beyond the text": ([SECOND], [[(0, 4), (5, 9)]], {}, f"{GIVEN}.spans[1]: is 5 .. 9; the text"),
    "backwards": ([SECOND], [[(4, 4)]], {}, "a span starts before its end"),
    "of a second text": ([SECOND], [[(0, 1, 1)]], {}, "is 0 .. 1 of text 1"),
    "white space": ([SECOND], [[(4, 5)]], {}, "shares no character with a token"),
    "cut off": ([TEXT], [[(70, 74)]], {"truncate": "end"}, "or truncate less"),
    "no span": ([SECOND], [[]], {}, "has 0 spans; 1 to 10000"),
    "too many": ([SECOND], [[(0, 1)] * 10_001], {}, "has 10001 spans; 1 to 10000"),
    "a list too few": ([SECOND] * 2, [[(0, 1)]], {}, "has 1 lists for 2 texts"),
    "second of two": (["a", "\n"], "sentences", {}, "inputs[1].text: has only special tokens"),
    "overlap": ([SECOND], Windows(3, 3), {}, "outputs.spans.windows.overlap: is 3; must be from"),
    "no window": ([SECOND], Windows(0), {}, "outputs.spans.windows.size: is 0"),
    "negative": ([SECOND], Windows(-1), {}, "must be Windows of whole numbers"),
    "ids": (["a", [5, 6]], "sentences", {}, "inputs[1].ids: needs a single text"),
    "ids given": ([[5, 6]], [[(0, 1)]], {}, "inputs[0].ids: needs a single text"),
    "pair": (["a", ("a", "b")], Windows(2), MEAN, "inputs[1].pair: needs a single text"),
    "many sentences": (["Go. " * 10_001], "sentences", LONG, "inputs[0].text: has 10001 spans"),
    "many windows": (["a " * 10_001], Windows(1), LONG, "inputs[0].text: has 10001 spans; 1 to"),
    "a kind": ([SECOND], "words", {}, "spans: is 'words'; must be one of sentences"),
    "no kind": ([SECOND], 5, {}, 'spans: must be "sentences", Windows, or for each text'),
    "width": ([SECOND], "sentences", {"dimensions": 99}, "outputs.spans.dimensions: is 99; this"),
    "dtype": ([SECOND], "sentences", {"dtype": "int8"}, "outputs.spans.dtype: is 'int8'; must be"),
    "pooling": ([SECOND], "sentences", {"pooling": "max"}, "outputs.spans.pooling: is 'max'; must"),
    "too long": ([TEXT], "sentences", {}, "inputs[0].text: has 68 tokens, the model takes 32"),
    "long prompt": (
        [TEXT],
        "sentences",
        {"prompt": "a " * 40, "beyond_max_length": True},
        "inputs[0].text: its prompt and special tokens are 42 tokens, the model takes 32",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_by_name(dense: Model, make_bundle: MakeBundle, case: str) -> None:
    texts, spans, options, message = REFUSED[case]
    # That one takes pairs.
    of = Runtime(make_bundle("learned"), threads=1) if case == "pair" else dense.runtime
    with pytest.raises(InvalidInput) as error:
        of.span_vectors(texts, spans, **options)
    assert message in str(error.value)


@pytest.mark.parametrize("kind", ["causal", "none"])
def test_other_poolings_are_refused_unless_the_mean_is_asked(
    make_bundle: MakeBundle, kind: str
) -> None:
    other = Runtime(make_bundle(kind), threads=1)
    pooling = other.bundle.manifest.pooling
    with pytest.raises(InvalidInput, match=rf"outputs.spans.pooling: .* pools by {pooling}; ask"):
        other.span_vectors([SECOND], "sentences")
    assert len(other.span_vectors([SECOND], "sentences", pooling="mean")[0]) == 2


def test_beyond_the_longest_only_spans_are_answered(dense: Model) -> None:
    spec = SpansSpec(kind="sentences", beyond_max_length=True)
    with pytest.raises(InvalidInput, match=r"outputs.spans.beyond_max_length: takes no other"):
        dense.runtime.select(pooled=True, spans=spec)


def without_head(bundle: Path, target: Path, **changes: Any) -> Path:
    graphs = json.loads((bundle / "manifest.json").read_text())["graphs"]
    kept = [graph for graph in graphs if graph["role"] != "head"]
    return with_options(bundle, target, graphs=kept, format_version=PREVIOUS_VERSION, **changes)


@pytest.mark.parametrize(
    ("layers", "problem"),
    [(2, "needs the graph `head`"), (None, "does not say whether this model has Dense layers")],
)
def test_a_bundle_without_the_head_answers_all_but_spans(
    dense_bundle: Path, tmp_path: Path, layers: int | None, problem: str
) -> None:
    older = Runtime(
        without_head(dense_bundle / "bundle", tmp_path / "older", dense_layers=layers), threads=1
    )
    older.check_golden()
    assert older.encode(SECOND).shape == (12,)
    with pytest.raises(InvalidInput, match=f"{problem}.*headlight export MODEL --out BUNDLE"):
        older.span_vectors([SECOND], "sentences")


def test_a_wrong_head_is_found_at_start(dense_bundle: Path, tmp_path: Path) -> None:
    """Golden answers of another head stand for a graph that computes wrong numbers."""
    target = tmp_path / "wrong"
    with_options(dense_bundle / "bundle", target)
    change_golden(target, "head_answers", lambda answers: answers + 1e-3)
    with pytest.raises(BundleError, match=r"head.onnx: is off by"):
        Runtime(target, threads=1)
