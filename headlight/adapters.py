"""Attention and hidden states as other tools expect them. None of these tools is needed to import this, and NumPy is enough for most.

Headlight's last two axes are query and key, and so are those of Hugging Face, BertViz and TransformerLens: rows sum to 1. LIT has
them the other way round, and only `to_lit` transposes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np

from headlight.results import Attention, Floats, Hidden

if TYPE_CHECKING:
    from torch import Tensor  # noqa: TID251 # a type alone


@overload
def to_hf(value: Attention | Hidden, *, torch: Literal[False] = False) -> tuple[Floats, ...]: ...
@overload
def to_hf(value: Attention | Hidden, *, torch: Literal[True]) -> tuple[Tensor, ...]: ...
def to_hf(value: Attention | Hidden, *, torch: bool = False) -> tuple[Floats, ...] | tuple[Tensor, ...]:
    """What `model(..., output_attentions=True, output_hidden_states=True)` of Hugging Face returns for a batch of one text.

    The last of all hidden states is there the output of the last norm, where a model has one behind its last block (pre-norm, as
    GPT-2). Headlight's is the output of that block, before the norm; in post-norm models, as BERT, the two are the same.

    Args:
        value: attention, or hidden states.
        torch: PyTorch tensors instead of NumPy arrays. They share memory with `value` where it is writable.

    Returns:
        For each layer of `value.layers`, in that order, float32 [1, H, n, n] (query, key) or float32 [1, n, D] (float16 where the
        states are, unless `torch`). Ask for all layers where the reader takes an index for a layer.

    Raises:
        ImportError: `torch`, and PyTorch is not installed.
    """
    arrays = value.weights if isinstance(value, Attention) else value.states
    layers = tuple(arrays[index : index + 1] for index in range(len(arrays)))
    return tuple(tensor(layer) for layer in layers) if torch else layers


def to_bertviz(attention: Attention, text: str | tuple[str, str] | None = None) -> dict[str, Any]:
    """The arguments of BertViz's views: `head_view(**to_bertviz(attention))`, and `model_view` alike.

    Args:
        attention: of any layers; each is shown under its absolute number.
        text: the text, or the pair, for labels that read as it does; None: the vocabulary's pieces, which BertViz prettifies.

    Returns:
        `attention`, float32 tensors [1, H, n, n] (query, key) of which BertViz finds those held by `include_layers`; `tokens`, n
        labels. For a pair also `sentence_b_start`, the first token of the second text.

    Raises:
        ImportError: PyTorch is not installed.
        ValueError: one text for tokens of a pair.
    """
    held = dict(zip(attention.layers, to_hf(attention, torch=True), strict=True))
    # BertViz takes the position in this list for the number of a layer. What fills it up is never shown: no numbers, no memory.
    blank = tensor(np.full((1, 1, 1, 1), np.nan, np.float32)).expand(next(iter(held.values())).shape)
    arguments: dict[str, Any] = {
        "attention": [held.get(layer, blank) for layer in range(max(held) + 1)],
        "tokens": list(attention.tokens.labels(text)),
        "include_layers": list(attention.layers),
    }
    if text is not None:
        arguments["prettify_tokens"] = False  # it would remove signs of the text that vocabularies use as marks
    segments = attention.tokens.segments
    start = segments.index(1) if 1 in segments else 0
    if start and segments == (0,) * start + (1,) * (len(segments) - start):  # one run to the end
        arguments["sentence_b_start"] = start
    return arguments


@overload
def to_transformer_lens(value: Attention | Hidden, *, torch: Literal[False] = False) -> dict[str, Floats]: ...
@overload
def to_transformer_lens(value: Attention | Hidden, *, torch: Literal[True]) -> dict[str, Tensor]: ...
def to_transformer_lens(
    value: Attention | Hidden, *, torch: bool = False
) -> Mapping[str, Floats] | Mapping[str, Tensor]:
    """The entries of TransformerLens' activation cache (`run_with_cache`) that are known, by the names of their hooks.

    Attention of layer l is `blocks.{l}.attn.hook_pattern`. Hidden state l, the output of a whole block, is
    `blocks.{l-1}.hook_resid_post`, and state 0 is what enters the first block, `blocks.0.hook_resid_pre`: not `hook_embed`, which in
    most models is the word vectors alone, without positions. In a pre-norm model these are the residual stream. In a post-norm model
    they are what follows the block's second norm, as TransformerLens 4 has it for BERT; `HookedEncoder` of earlier versions calls that
    `hook_normalized_resid_post`.

    Args:
        value: attention, or hidden states.
        torch: PyTorch tensors, as an `ActivationCache` wants them, instead of NumPy arrays.

    Returns:
        float32 [1, H, n, n] (query, key), or float32 [1, n, D], by name, in the order of `value.layers`.

    Raises:
        ImportError: `torch`, and PyTorch is not installed.
    """
    if isinstance(value, Attention):
        names = [f"blocks.{layer}.attn.hook_pattern" for layer in value.layers]
    else:
        names = [
            f"blocks.{state - 1}.hook_resid_post" if state else "blocks.0.hook_resid_pre" for state in value.layers
        ]
    arrays: tuple[Any, ...] = to_hf(value, torch=True) if torch else to_hf(value)
    return dict(zip(names, arrays, strict=True))


def to_lit(attention: Attention, text: str | tuple[str, str] | None = None) -> dict[str, list[str] | Floats]:
    """One text's predictions for the Learning Interpretability Tool (LIT).

    Fields are named and turned as in LIT's own example of BERT (`lit_nlp.examples.glue`), whose layers count from 1. Describe them in
    the wrapper's `output_spec` as `Tokens()` and `AttentionHeads(align_in="tokens", align_out="tokens")`.

    Args:
        attention: of any layers.
        text: the text, or the pair, for labels that read as it does; None: the vocabulary's pieces.

    Returns:
        `tokens`, n strings, and for each layer `layer_{layer + 1}/attention`, float32 [H, n, n], a copy: axis -2 is the KEY, axis -1
        the query (each column sums to 1).

    Raises:
        ValueError: one text for tokens of a pair.
    """
    # Copied, so that what LIT caches does not hold the weights of all layers.
    turned = {
        f"layer_{layer + 1}/attention": attention.layer(layer).swapaxes(-1, -2).copy() for layer in attention.layers
    }
    return {"tokens": list(attention.tokens.labels(text)), **turned}


def tensor(array: Floats) -> Tensor:
    """A PyTorch tensor of the same numbers and, where PyTorch can write to it, the same memory. Raises ImportError without PyTorch."""
    try:
        import torch  # noqa: PLC0415, TID251 # optional: whoever stays with NumPy needs no PyTorch
    except ImportError:
        raise ImportError("tensors need PyTorch: pip install torch") from None
    return torch.from_numpy(np.require(array, np.float32, ["C", "W"]))
