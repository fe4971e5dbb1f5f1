"""Prompts before texts.

Their choice, their effect on offsets and truncation, and their exclusion from pooling.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper

from headlight.errors import InvalidInput
from headlight.runtime import EncodeItem, Runtime, Selection, Tokenizer
from headlight.runtime.bundle.prompts import Prompt, Prompts
from headlight.spec import AttentionSpec, Span, TokensSpec
from tests.factory import small_tokenizer, with_options
from tests.tampering import relist, set_value

PROMPTS = Prompts({"query": "q: ", "passage": "p: ", "none": ""}, "passage")
TEXTS = st.text(alphabet="aB c1,.é", min_size=1, max_size=12)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    small_tokenizer().save(str(path))
    return Tokenizer(path, max_length=8, include_prompt=False)


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        (None, None, Prompt("p: ")),
        ("query", None, Prompt("q: ", requested=True)),
        (None, "x ", Prompt("x ", requested=True)),
        (None, "", Prompt("", requested=True)),
    ],
)
def test_a_prompt_is_chosen_by_name_text_or_default(
    name: str | None, text: str | None, expected: Prompt
) -> None:
    assert PROMPTS.choose(name, text) == expected
    assert Prompts().choose(None, None) == Prompt()


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("query", "x", "prompt_name: and prompt_text are both set"),
        ("q", None, "prompt_name: is not a prompt of this model; choose query, passage, none"),
        (None, "x" * 5000, "prompt: has 5000 characters; at most 4096"),
    ],
)
def test_an_invalid_prompt_is_refused(name: str | None, text: str | None, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        PROMPTS.choose(name, text)


@given(text=TEXTS, prompt=TEXTS)
def test_a_prompt_is_tokenised_as_part_of_the_text(
    tokenizer: Tokenizer, text: str, prompt: str
) -> None:
    """Equal ids; offsets of the text alone; prompt tokens are marked."""
    found = tokenizer.encode(text, prompt=prompt, limit=False, with_info=True)
    whole = tokenizer.encode(prompt + text, limit=False, with_info=True)
    np.testing.assert_array_equal(found.ids, whole.ids)
    np.testing.assert_array_equal(found.words, whole.words)
    info, other = found.info, whole.info
    assert info is not None
    assert other is not None
    assert found.prompt_length == sum(info.prompt)
    for at, of_prompt in enumerate(info.prompt):
        if of_prompt:
            assert not info.special[at]
            assert (info.starts[at], info.ends[at]) == (0, 0)
            assert other.ends[at] <= len(prompt)
        elif not info.special[at]:
            assert info.starts[at] == max(0, other.starts[at] - len(prompt))
            assert info.ends[at] == other.ends[at] - len(prompt) > 0
            if info.pieces[at] != "[UNK]":
                assert (
                    info.pieces[at].removeprefix("##")
                    == text[info.starts[at] : info.ends[at]].lower()
                )


@pytest.mark.parametrize(("truncation", "kept"), [("cut_end", "q:abcd"), ("cut_start", "q:ghij")])
def test_truncation_keeps_the_prompt(tokenizer: Tokenizer, truncation: str, kept: str) -> None:
    found = tokenizer.encode("abcdefghij", prompt="q: ", truncation=truncation, with_info=True)  # type: ignore[arg-type]
    assert found.original_length == 14
    assert found.info is not None
    assert "".join(piece.removeprefix("##") for piece in found.info.pieces[1:-1]) == kept
    assert found.info.prompt == (False, True, True, *[False] * 5)
    assert found.words is not None
    assert len(found.words) == len(found.ids) == 8


def test_a_prompt_that_leaves_no_room_is_refused(tokenizer: Tokenizer) -> None:
    with pytest.raises(
        InvalidInput, match="prompt and special tokens are 9 tokens, the model takes 8; shorten"
    ):
        tokenizer.encode("a", prompt="bcdefgh ", truncation="cut_start")
    with pytest.raises(InvalidInput, match="has 10 tokens with its prompt"):
        tokenizer.encode("a", prompt="bcdefgh ")


def test_tokens_excluded_from_pooling_include_the_first_special_token(
    tokenizer: Tokenizer, tmp_path: Path
) -> None:
    assert tokenizer.encode("ab", prompt="q: ").left_out == 3  # [CLS] q :
    assert tokenizer.encode("ab").left_out == 0
    small_tokenizer().save(str(tmp_path / "tokenizer.json"))
    assert Tokenizer(tmp_path / "tokenizer.json", 8).encode("ab", prompt="q: ").left_out == 0


def pooling_bundle(bundle: Path, target: Path) -> Path:
    """Create a bundle whose graph `embed` returns the mean of its ids
    over the tokens that pool_mask selects.
    """
    with_options(bundle, target, include_prompt=False, prompts={"query": "q: "})
    ids, mask, pool = (
        helper.make_tensor_value_info(name, TensorProto.INT64, ["B", "S"])
        for name in ("ids", "mask", "pool_mask")
    )
    pooled = helper.make_tensor_value_info("pooled", TensorProto.FLOAT, ["B", 36])
    tokens = helper.make_tensor_value_info("tokens", TensorProto.FLOAT, ["B", "S", 36])
    nodes = [
        helper.make_node("Cast", ["ids"], ["numbers"], to=TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["numbers", "last"], ["column"]),
        helper.make_node("Mul", ["column", "ones"], ["tokens"]),
        helper.make_node("Mul", ["mask", "pool_mask"], ["kept"]),
        helper.make_node("Cast", ["kept"], ["weights"], to=TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["weights", "last"], ["weight"]),
        helper.make_node("Mul", ["tokens", "weight"], ["weighted"]),
        helper.make_node("ReduceSum", ["weighted", "first"], ["sums"], keepdims=0),
        helper.make_node("ReduceSum", ["weight", "first"], ["counts"], keepdims=0),
        helper.make_node("Div", ["sums", "counts"], ["pooled"]),
    ]
    constants = [
        helper.make_tensor("last", TensorProto.INT64, [1], [-1]),
        helper.make_tensor("first", TensorProto.INT64, [1], [1]),
        helper.make_tensor("ones", TensorProto.FLOAT, [36], [1.0] * 36),
    ]
    graph = helper.make_graph(nodes, "embed", [ids, mask, pool], [pooled, tokens], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    onnx.save(model, target / "embed.fused.onnx")  # the third graph of the manifest
    relist(target, "embed.fused.onnx")
    set_value(target, "graphs.2.inputs", ["ids", "mask", "pool_mask"])
    set_value(target, "graphs.2.outputs", ["pooled", "tokens"])
    set_value(target, "graphs.2.weights", [])
    set_value(target, "normalize", value=False)
    return target


def test_a_graph_with_a_pool_mask_receives_the_prompt_tokens(
    bundle_path: Path, tmp_path: Path
) -> None:
    bundle = pooling_bundle(bundle_path, tmp_path / "bundle")
    runtime = Runtime(bundle, threads=1, attend=False, self_test=False)
    [plain, longer] = runtime.encode_items(["ab", "abcdef"], prompt_name="query")
    tokenizer = runtime.tokenizer
    assert tokenizer is not None
    ids = tokenizer.encode("ab", prompt="q: ").ids
    # It was requested, so it is not None.
    np.testing.assert_allclose(plain.pooled, np.full(36, ids[3:].mean()))  # type: ignore[arg-type]
    [bare] = runtime.encode_items(["ab"])
    np.testing.assert_allclose(bare.pooled, np.full(36, tokenizer.encode("ab").ids.mean()))  # type: ignore[arg-type]
    [hole] = runtime.engine.run([EncodeItem(ids, Selection(), occluded=(4,), left_out=3)])
    # It was requested, so it is not None.
    np.testing.assert_allclose(hole.pooled, np.full(36, ids[[3, 5]].mean()))  # type: ignore[arg-type]
    assert longer.pooled is not None


@pytest.fixture(scope="module")
def prompted(bundle_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Runtime:
    target = tmp_path_factory.mktemp("prompted") / "bundle"
    return Runtime(
        with_options(bundle_path, target, prompts={"query": "q: "}, default_prompt="query"),
        threads=1,
    )


def test_the_default_goes_before_texts_alone(prompted: Runtime, runtime: Runtime) -> None:
    [joined] = runtime.encode_items(["q: ab"])
    [default] = prompted.encode_items(["ab"])
    [named] = prompted.encode_items(["ab"], prompt_name="query")
    [other] = prompted.encode_items(["ab"], prompt="")
    for result in (default, named):
        np.testing.assert_array_equal(result.pooled, joined.pooled)
    assert np.abs(other.pooled - joined.pooled).max() > 1e-3  # type: ignore[operator]  # asked for
    ids = prompted.tokenizer.encode("ab").ids  # type: ignore[union-attr]  # it has one
    [given_ids] = prompted.encode_items([ids.tolist()])
    np.testing.assert_array_equal(given_ids.pooled, other.pooled)
    with pytest.raises(
        InvalidInput,
        match=r"inputs\[0\]\.ids: a prompt is put before a text, but ids are used unchanged",
    ):
        prompted.encode_items([[7, 8]], prompt_name="query")


def test_spans_and_skips_account_for_the_prompt(prompted: Runtime) -> None:
    spec = AttentionSpec(queries=Span(0, 1), layers=(0,))
    [result] = prompted.encode_items(
        ["ab"], attention=spec, tokens=TokensSpec(skip_special=True, skip_prompt=True)
    )
    [whole] = prompted.encode_items(["ab"], attention=AttentionSpec(layers=(0,)), tokens=True)
    np.testing.assert_allclose(result.attention[0, :, 0], whole.attention[0, :, 3], atol=1e-6)  # type: ignore[index]
    np.testing.assert_allclose(result.tokens, whole.tokens[3:5], atol=1e-6)  # type: ignore[arg-type, index]
    [unit] = prompted.encode_items(
        ["ab"], tokens=TokensSpec(skip_prompt=True, normalize=True, dtype="float16")
    )
    assert unit.tokens is not None
    assert unit.tokens.dtype == np.float16
    assert unit.tokens.shape[0] == 4
    np.testing.assert_allclose(np.linalg.norm(unit.tokens.astype(np.float32), axis=1), 1, atol=2e-3)


def test_skipping_everything_or_unknown_tokens_is_refused(prompted: Runtime) -> None:
    with pytest.raises(
        InvalidInput, match=r"outputs\.tokens\.skip_special: .*give texts instead of ids"
    ):
        prompted.encode_items([[7, 8]], tokens=TokensSpec(skip_special=True))
    with pytest.raises(InvalidInput, match="skips every token of this input"):
        prompted.encode_items([" "], tokens=TokensSpec(skip_special=True, skip_prompt=True))


def test_pooling_weights_exclude_the_tokens_that_pooling_excludes(prompted: Runtime) -> None:
    spec = AttentionSpec(reduce=("pooling_weights",), layers=(0,))
    # It has one.
    tokenized = prompted.tokenizer.encode("abc", with_info=True)  # type: ignore[union-attr]
    selection = prompted.select(attention=spec)
    item = prompted.item(tokenized, selection)
    left = prompted.item(tokenized._replace(left_out=3), selection)
    whole = prompted.item(tokenized, prompted.select(attention=AttentionSpec(layers=(0,))))
    full, part, maps = prompted.engine.run([item, left, whole])
    np.testing.assert_allclose(full.attention[0], maps.attention[0].mean(1), atol=1e-6)  # type: ignore[index]
    np.testing.assert_allclose(part.attention[0], maps.attention[0][:, 3:].mean(1), atol=1e-6)  # type: ignore[index]
