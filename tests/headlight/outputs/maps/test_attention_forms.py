"""Every form of attention, for any valid spec and text, equals the reference by PyTorch's maps."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headlight.errors import InvalidInput
from headlight.runtime import Runtime
from headlight.spec import AttentionSpec, Run, Span
from headlight_model.checkpoint import load_checkpoint
from tests.attention_reference import Text, check
from tests.conftest import MakeBundle
from tests.specs import specs

TOLERANCE = 1e-5
WORDS = st.lists(st.text("abcxyz09", min_size=1, max_size=7), min_size=1, max_size=9).map(" ".join)
KINDS = ("rope", "sinusoidal", "learned", "alibi", "none", "causal")
Opened = Callable[[str], tuple[Runtime, Path]]


@pytest.fixture(scope="module")
def opened(make_bundle: MakeBundle, make_checkpoint: MakeBundle) -> Opened:
    runtimes: dict[str, Runtime] = {}

    def open_(kind: str) -> tuple[Runtime, Path]:
        if kind not in runtimes:
            runtimes[kind] = Runtime(make_bundle(kind), threads=1)
        return runtimes[kind], make_checkpoint(kind)

    return open_


def reference(runtime: Runtime, checkpoint: Path, text: str) -> Text:
    """Return the outputs of PyTorch for a text, and its tokens."""
    assert runtime.tokenizer is not None
    tokenized = runtime.tokenizer.encode(text, with_info=True)
    info = tokenized.info
    assert info is not None
    assert tokenized.words is not None
    encoder = load_checkpoint(checkpoint)
    with torch.inference_mode():
        out = encoder(torch.from_numpy(tokenized.ids)[None], fused=False)
    scores = torch.cat(out.scores).numpy()
    scores[scores < -1e29] = -np.inf
    words, pooling = tokenized.words.tolist(), runtime.bundle.manifest.pooling
    return Text(
        torch.cat(out.attention).numpy(),
        scores,
        info.special,
        info.starts,
        info.ends,
        words,
        pooling,
    )


def compare(runtime: Runtime, checkpoint: Path, texts: list[str], spec: AttentionSpec) -> None:
    for text, result in zip(texts, runtime.encode_items(texts, attention=spec), strict=True):
        values, scales = result.attention, result.attention_scales
        assert values is not None
        assert values.dtype == spec.dtype
        assert (result.attention_indices is None) == (spec.top_k is None)
        weights = values.astype(np.float32) if scales is None else values * scales[..., None]
        check(
            spec,
            reference(runtime, checkpoint, text),
            weights,
            values,
            result.attention_indices,
            TOLERANCE,
        )


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=WORDS, data=st.data())
def test_any_form_of_any_text_matches_pytorch(
    opened: Opened, kind: str, text: str, data: st.DataObject
) -> None:
    runtime, checkpoint = opened(kind)
    architecture = runtime.bundle.manifest.architecture
    assert runtime.tokenizer is not None
    length = len(runtime.tokenizer.encode(text).ids)
    spec = data.draw(
        specs(
            architecture.layers,
            architecture.heads,
            length,
            len(text),
            runtime.bundle.manifest.pooling,
        )
    )
    compare(runtime, checkpoint, [text], spec)


SPECS = [
    AttentionSpec(),
    AttentionSpec(layers=(-1,), heads=(2, 0)),
    AttentionSpec(heads=(Run(-2),), queries="special", keys="first"),
    AttentionSpec(reduce=("rollout",), queries=(1, -1), keys=Span(0, 2)),
    AttentionSpec(reduce=("rollout", "head_max"), drop_special=True),
    AttentionSpec(unit="span", spans=(Span(0, 1), Span(1, 3)), dtype="float16"),
    AttentionSpec(
        reduce=("pooling_weights", "head_mean", "layer_mean"),
        unit="word",
        drop_special=True,
        top_k=2,
    ),
    AttentionSpec(top_k=3),
    AttentionSpec(top_k=3, dtype="uint8", queries=(2, 1)),
    AttentionSpec(queries="first"),
    AttentionSpec(queries="first", drop_special=False, reduce=("head_max", "layer_mean")),
    AttentionSpec(reduce=("statistics",)),
    AttentionSpec(reduce=("statistics",), drop_special=True),
]


@pytest.mark.parametrize("spec", SPECS[2::5], ids=str)
def test_texts_of_different_lengths_share_a_batch(opened: Opened, spec: AttentionSpec) -> None:
    compare(
        *opened("rope"),
        ["ab cd9 efg hi", "abc", "a longer one with many more letters in it " * 2],
        spec,
    )


def test_items_with_different_outputs_share_a_batch(opened: Opened) -> None:
    """No item gets outputs or padding of another."""
    runtime, checkpoint = opened("rope")
    texts = [f"text {'abc ' * (1 + 3 * at)}" for at in range(len(SPECS))]
    items = []
    for text, spec in zip(texts, SPECS, strict=True):
        assert runtime.tokenizer is not None
        items.append(
            runtime.item(
                runtime.tokenizer.encode(text, with_info=True), runtime.select(attention=spec)
            )
        )
    for text, spec, result in zip(texts, SPECS, runtime.engine.run(items), strict=True):
        assert result.attention is not None
        weights = (
            result.attention
            if result.attention_scales is None
            else result.attention * result.attention_scales[..., None]
        )
        check(
            spec,
            reference(runtime, checkpoint, text),
            weights,
            result.attention,
            result.attention_indices,
            TOLERANCE,
        )


def test_the_pooled_row_is_that_of_the_pooled_token(opened: Opened) -> None:
    for kind in ("sinusoidal", "causal"):  # the first, the last
        compare(*opened(kind), ["some words"], AttentionSpec(reduce=("pooled_row",)))
        compare(*opened(kind), ["some words"], AttentionSpec(queries="pooled", top_k=2))


def test_special_tokens_of_id_inputs_are_unknown(opened: Opened) -> None:
    runtime, _ = opened("rope")
    [result] = runtime.encode_items([[5, 6, 7]], attention=AttentionSpec(reduce=("statistics",)))
    assert result.attention is not None
    assert np.isnan(result.attention[..., 1]).all()
    assert np.isfinite(np.delete(result.attention, 1, axis=-1)).all()
    of_span = AttentionSpec(reduce=("statistics",), queries=Span(0, 3))
    for spec in (
        AttentionSpec(drop_special=True),
        AttentionSpec(keys="special"),
        AttentionSpec(unit="word"),
        of_span,
    ):
        with pytest.raises(InvalidInput, match="give texts instead of ids"):
            runtime.encode_items([[5, 6, 7]], attention=spec)
