"""Vectors that are matched one by one: roles, types and the tokens that have one."""

from __future__ import annotations

import numpy as np
import pytest

from headlight import InvalidInput
from headlight.runtime import Runtime
from headlight.spec import MultiVectorSpec
from tests import scorers

TEXT = "a planet"  # [CLS] a p l a n e t [SEP]; ids 5 .. 30 are letters
FILL = scorers.ROLES["query"].expanded_length


def test_a_query_is_marked_and_filled_up_with_tokens_that_none_sees(matching: Runtime) -> None:
    [tokens] = matching.tokenize(TEXT, role="query")
    assert tokens.ids[:2] == (2, 5)
    assert tokens.ids[-2:] == (4, 4)
    assert len(tokens) == FILL
    assert tokens.special == (True, True, *(False,) * 7, True, True, True)
    [query] = matching.encode_multi_vector(TEXT, role="query")
    assert query.shape == (FILL, 16)
    # Without the tokens that fill up, the others are the same: they are not seen.
    bare = [id for id in tokens.ids if id != 4]
    whole = matching.token_vectors([bare])[0].vectors
    filled = matching.token_vectors([TEXT], role="query")[0].vectors
    np.testing.assert_allclose(filled[: len(bare)], whole, atol=1e-5)
    [unit] = matching.encode_tokens([TEXT], role="query", normalize=True)
    np.testing.assert_allclose(np.linalg.norm(unit, axis=1), 1, atol=1e-5)


def test_vectors_of_skipped_ids_are_left_out_of_documents(matching: Runtime) -> None:
    [tokens] = matching.tokenize("abcde", role="document")
    assert tokens.ids == (2, 6, 5, 32, 33, 34, 35, 3)
    [document] = matching.encode_multi_vector("abcde", role="document")
    [unset] = matching.encode_multi_vector("abcde")
    np.testing.assert_array_equal(document, unset)
    assert document.shape == (5, 16)
    np.testing.assert_allclose(np.linalg.norm(document, axis=1), 1, atol=1e-5)
    [of_ids] = matching.encode_multi_vector([list(tokens.ids)], role="document")
    np.testing.assert_allclose(of_ids, document, atol=1e-6)


def test_a_role_has_a_length_of_its_own(matching: Runtime) -> None:
    with pytest.raises(InvalidInput, match=r"has 15 tokens.* 11"):
        matching.encode_multi_vector("planetplanets", role="query")
    [cut] = matching.encode_multi_vector("planetplanets", role="query", truncate="end")
    assert len(cut) == FILL
    with pytest.raises(InvalidInput, match="no token of this input has a vector"):
        matching.encode_multi_vector([[32, 33]], role="document")
    with pytest.raises(InvalidInput, match=r'role.*"query" or "document"'):
        matching.encode_multi_vector("a", role="answer")  # type: ignore[arg-type]


def test_types_hold_the_same_vectors(matching: Runtime) -> None:
    def of(dtype: str) -> np.ndarray:
        [vectors] = matching.encode_multi_vector(TEXT, dtype=dtype)  # type: ignore[arg-type]
        return vectors

    whole = of("float32")
    np.testing.assert_allclose(of("float16"), whole, atol=1e-3)
    np.testing.assert_allclose(of("int8") / 127, whole, atol=0.004)
    np.testing.assert_array_equal(of("ubinary"), np.packbits(whole > 0, axis=-1))
    assert of("binary").dtype == np.int8
    with pytest.raises(InvalidInput, match=r"outputs\.multi_vector\.dtype"):
        matching.select(multi_vector=MultiVectorSpec(dtype="int4"))  # type: ignore[arg-type]
