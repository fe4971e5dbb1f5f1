"""Pairs of texts and segments, through the tokenizer and through a model built for them."""

from __future__ import annotations

import shutil
from array import array
from pathlib import Path

import numpy as np
import pytest

from headlight.errors import BundleError, InvalidInput
from headlight.runtime import EncodeItem, Runtime, Selection, Tokenizer
from tests.conftest import MakeBundle
from tests.factory import small_tokenizer
from tests.tampering import relist


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    small_tokenizer().save(str(path))
    return Tokenizer(path, max_length=9)


@pytest.fixture(scope="module")
def paired(make_bundle: MakeBundle) -> Runtime:
    return Runtime(make_bundle("learned"), threads=1)


def test_a_pair_is_one_sequence_whose_offsets_are_those_of_each_text(tokenizer: Tokenizer) -> None:
    tokenized = tokenizer.encode("ab", "c d", with_info=True)
    assert tokenized.info is not None
    assert tokenized.info.pieces == ("[CLS]", "a", "##b", "[SEP]", "c", "d", "[SEP]")
    assert tokenized.info.segments == (0, 0, 0, 0, 1, 1, 1)
    assert tokenized.segments is not None
    assert tokenized.segments.tolist() == [0, 0, 0, 0, 1, 1, 1]
    assert list(zip(tokenized.info.starts, tokenized.info.ends, strict=True))[4:6] == [
        (0, 1),
        (2, 3),
    ]


def test_a_long_pair_is_refused_or_its_longer_text_truncated(tokenizer: Tokenizer) -> None:
    with pytest.raises(InvalidInput, match="has 13 tokens, the model takes 9"):
        tokenizer.encode("abcdefgh", "xy")
    cut = tokenizer.encode("abcdefgh", "xy", truncation="cut_end", with_info=True)
    assert (cut.original_length, len(cut.ids)) == (13, 9)
    assert cut.info is not None
    assert cut.info.pieces == ("[CLS]", "a", "##b", "##c", "##d", "[SEP]", "x", "##y", "[SEP]")


@pytest.mark.parametrize(("pair", "field"), [(("", "b"), "first"), (("a", ""), "second")])
def test_both_texts_of_a_pair_must_have_tokens(
    tokenizer: Tokenizer, pair: tuple[str, str], field: str
) -> None:
    with pytest.raises(InvalidInput, match=rf"^{field}: is empty"):
        tokenizer.encode(*pair)


def test_a_pair_equals_its_ids_with_segments_and_segments_matter(
    paired: Runtime,
) -> None:
    assert paired.tokenizer is not None
    assert paired.bundle.manifest.accepts == ("text", "pair", "ids")
    tokenized = paired.tokenizer.encode("first", "second")
    ids = paired.check_ids(tokenized.ids.tolist(), [0] * 7 + [1] * 7)
    assert ids.segments is not None
    assert tokenized.segments is not None
    assert ids.segments.tolist() == tokenized.segments.tolist()
    [pair, bare] = paired.encode_items([("first", "second"), tokenized.ids.tolist()])
    [same] = paired.engine.run([EncodeItem(ids.ids, Selection(), ids.segments)])
    # It was requested, so it is not None.
    np.testing.assert_allclose(pair.pooled, same.pooled, atol=1e-6)  # type: ignore[arg-type]
    assert pair.pooled is not None
    assert bare.pooled is not None
    assert np.abs(pair.pooled - bare.pooled).max() > 1e-3


@pytest.mark.parametrize(
    ("segments", "problem"),
    [
        ([0], "has 1 entries for 2 ids; give one of each, or none"),
        ([0, 2], r"the segment at 1 is not in 0 \.\. 1"),
        ([-1, 0], r"the segment at 0 is not in 0 \.\. 1"),
        ([0, 2**63], "holds something that is not a 64-bit integer"),
    ],
)
def test_invalid_segments_are_named(paired: Runtime, segments: list[int], problem: str) -> None:
    with pytest.raises(InvalidInput, match=rf"^segments: {problem}"):
        paired.check_ids([5, 6], segments)


@pytest.mark.parametrize("wrong", [-1, 109, 2**40])
def test_ids_from_arrays_are_validated_like_lists(paired: Runtime, wrong: int) -> None:
    good = paired.check_ids(array("q", [5, 6]), array("q", [0, 1]))
    assert good.segments is not None
    assert (good.ids.tolist(), good.segments.tolist()) == ([5, 6], [0, 1])
    assert good.ids.dtype.char == np.dtype(np.int64).char, "OpenVINO refuses longlong"
    assert paired.check_ids(array("q", [5, 6]), array("q")).segments is None, (
        "which stands for zeros"
    )
    for ids in ([5, wrong], array("q", [5, wrong])):
        with pytest.raises(
            InvalidInput,
            match=r"^the id at 1 is not in 0 \.\. 108; give ids of this model$",
        ):
            paired.check_ids(ids)


def test_tokens_of_ids_carry_their_segments(paired: Runtime) -> None:
    for segments, told in (([0, 1], (0, 1)), ([], (0, 0))):
        info = paired.check_ids([5, 6], segments, with_info=True).info
        assert info is not None
        assert info.segments == told


def test_a_model_without_segments_takes_neither_pairs_nor_segments(runtime: Runtime) -> None:
    with pytest.raises(InvalidInput, match=r"^inputs\[1\]\.pair: this model takes text or ids$"):
        runtime.encode_items(["a", ("a", "b")])
    with pytest.raises(
        InvalidInput, match=r"^segments: this model was trained without segments; leave it empty"
    ):
        runtime.check_ids([5], [0])


def test_a_tokenizer_with_more_segments_than_the_model_is_refused(
    make_bundle: MakeBundle, tmp_path: Path
) -> None:
    copy = Path(shutil.copytree(make_bundle("learned"), tmp_path / "bundle"))
    text = (copy / "tokenizer.json").read_text()
    (copy / "tokenizer.json").write_text(
        text.replace('"type_id": 1', '"type_id": 2').replace('"type_id":1', '"type_id":2')
    )
    relist(copy, "tokenizer.json")
    with pytest.raises(BundleError, match=r"^tokenizer\.json: uses 3 segments; the model has 2"):
        Runtime(copy, threads=1)
