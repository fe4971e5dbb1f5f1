"""Attention and hidden states in the formats of other tools.

Importing this module requires none of these tools, and most functions need only NumPy. Headlight's
last two axes are query and key, as in Hugging Face, BertViz and TransformerLens: rows sum to 1. LIT
has key, then query, so only `to_lit` transposes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np

from headlight.results import Attention, Floats, Hidden

if TYPE_CHECKING:
    from torch import Tensor  # noqa: TID251 # only a type


@overload
def to_hf(value: Attention | Hidden, *, torch: Literal[False] = False) -> tuple[Floats, ...]: ...
@overload
def to_hf(value: Attention | Hidden, *, torch: Literal[True]) -> tuple[Tensor, ...]: ...
def to_hf(
    value: Attention | Hidden, *, torch: bool = False
) -> tuple[Floats, ...] | tuple[Tensor, ...]:
    """Return Hugging Face's `output_attentions` or `output_hidden_states` for a batch of one text.

    A pre-norm model, such as GPT-2, has a norm after its last block. In Hugging Face, the output of
    that norm is the last hidden state. In Headlight, the last hidden state is the output of the
    block, before the norm. In post-norm models, such as BERT, the two are the same.

    Args:
        value: attention, or hidden states.
        torch: PyTorch tensors instead of NumPy arrays. They share memory with `value` if it is
            writable.

    Returns:
        For each layer of `value.layers`, in that order, float32 [1, H, n, n] (query, key) or
        float32 [1, n, D]. Float16 states stay float16 unless `torch` is true. Request all layers if
        the consumer uses an index of the tuple as a layer number.

    Raises:
        ImportError: `torch` is true, and PyTorch is not installed.
    """
    arrays = value.weights if isinstance(value, Attention) else value.states
    layers = tuple(arrays[index : index + 1] for index in range(len(arrays)))
    return tuple(tensor(layer) for layer in layers) if torch else layers


def to_bertviz(attention: Attention, text: str | tuple[str, str] | None = None) -> dict[str, Any]:
    """Return the arguments of BertViz's `head_view(**to_bertviz(attention))` and `model_view`.

    Args:
        attention: attention of any layers; each is shown under its absolute number.
        text: the text or the pair, whose own characters then label the tokens; None: the
            vocabulary's pieces, which BertViz prettifies.

    Returns:
        `attention`, float32 tensors [1, H, n, n] (query, key), of which BertViz shows those in
        `include_layers`; `tokens`, n labels. For a pair also `sentence_b_start`, the first token of
        the second text.

    Raises:
        ImportError: PyTorch is not installed.
        ValueError: `text` is one text, and the tokens are those of a pair.
    """
    held = dict(zip(attention.layers, to_hf(attention, torch=True), strict=True))
    # BertViz reads the position in this list as the layer number, so missing layers have a filler.
    # It is never shown: NaN, expanded without memory.
    blank = tensor(np.full((1, 1, 1, 1), np.nan, np.float32)).expand(
        next(iter(held.values())).shape
    )
    arguments: dict[str, Any] = {
        "attention": [held.get(layer, blank) for layer in range(max(held) + 1)],
        "tokens": list(attention.tokens.labels(text)),
        "include_layers": list(attention.layers),
    }
    if text is not None:
        # it would remove characters of the text that vocabularies also use as markers
        arguments["prettify_tokens"] = False
    segments = attention.tokens.segments
    start = segments.index(1) if 1 in segments else 0
    if start and segments == (0,) * start + (1,) * (len(segments) - start):  # one run to the end
        arguments["sentence_b_start"] = start
    return arguments


@overload
def to_transformer_lens(
    value: Attention | Hidden, *, torch: Literal[False] = False
) -> dict[str, Floats]: ...
@overload
def to_transformer_lens(
    value: Attention | Hidden, *, torch: Literal[True]
) -> dict[str, Tensor]: ...
def to_transformer_lens(
    value: Attention | Hidden, *, torch: bool = False
) -> Mapping[str, Floats] | Mapping[str, Tensor]:
    """Return the entries of TransformerLens' activation cache that `value` has, by hook name.

    Attention of layer l is `blocks.{l}.attn.hook_pattern`. Hidden state l, the output of a whole
    block, is `blocks.{l-1}.hook_resid_post`. State 0 is the input of the first block,
    `blocks.0.hook_resid_pre`. It is not `hook_embed`, which in most models is the word vectors
    alone, without positions.

    In a pre-norm model these are the residual stream. In a post-norm model they are the output of
    the block's second norm, as in TransformerLens 4 for BERT. In earlier versions, `HookedEncoder`
    calls it `hook_normalized_resid_post`.

    Args:
        value: attention, or hidden states.
        torch: PyTorch tensors, which an `ActivationCache` requires, instead of NumPy arrays.

    Returns:
        float32 [1, H, n, n] (query, key), or float32 [1, n, D], by name, in the order of
        `value.layers`.

    Raises:
        ImportError: `torch` is true, and PyTorch is not installed.
    """
    if isinstance(value, Attention):
        names = [f"blocks.{layer}.attn.hook_pattern" for layer in value.layers]
    else:
        names = [
            f"blocks.{state - 1}.hook_resid_post" if state else "blocks.0.hook_resid_pre"
            for state in value.layers
        ]
    arrays: tuple[Any, ...] = to_hf(value, torch=True) if torch else to_hf(value)
    return dict(zip(names, arrays, strict=True))


def to_lit(
    attention: Attention, text: str | tuple[str, str] | None = None
) -> dict[str, list[str] | Floats]:
    """Return one text's predictions for the Learning Interpretability Tool (LIT).

    Names and axes are those of LIT's own BERT example (`lit_nlp.examples.glue`), which counts
    layers from 1. Describe them in the wrapper's `output_spec` as `Tokens()` and
    `AttentionHeads(align_in="tokens", align_out="tokens")`.

    Args:
        attention: attention of any layers.
        text: the text or the pair, whose own characters then label the tokens; None: the
            vocabulary's pieces.

    Returns:
        `tokens`, n strings, and for each layer `layer_{layer + 1}/attention`, float32 [H, n, n], a
        copy: axis -2 is the KEY, axis -1 the query (each column sums to 1).

    Raises:
        ValueError: `text` is one text, and the tokens are those of a pair.
    """
    # Copied, so that LIT's cache does not hold the weights of all layers.
    turned = {
        f"layer_{layer + 1}/attention": attention.layer(layer).swapaxes(-1, -2).copy()
        for layer in attention.layers
    }
    return {"tokens": list(attention.tokens.labels(text)), **turned}


def tensor(array: Floats) -> Tensor:
    """Return a float32 PyTorch tensor of the same numbers.

    It shares memory with the array if that is float32, contiguous and writable. Raises ImportError
    if PyTorch is not installed.
    """
    try:
        import torch  # noqa: PLC0415, TID251 # optional: NumPy arrays need no PyTorch
    except ImportError:
        raise ImportError("tensors need PyTorch: pip install torch") from None
    return torch.from_numpy(np.require(array, np.float32, ["C", "W"]))
