"""Which outputs a request wants, in which form, and with which heads: checked against the model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from headlight.errors import InvalidInput
from headlight.pb import headlight_pb2 as pb
from headlight.runtime.attention.resolved_spec import resolve_attention, resolve_hidden
from headlight.runtime.encode_items import Selection
from headlight.runtime.values import Floats
from headlight.runtime.vectors.vector_forms import resolve_pooled, resolve_rows
from headlight.wire.attention_codec import REDUCTIONS, attention_spec, has_unknown, hidden_spec
from headlight.wire.vector_codec import VECTOR_TYPES, pooled_spec, tokens_spec
from headlight_service.core.model_interface import ATTENTION_OFF, Interface

# Requests mostly ask for what others before them have asked for. So many wishes are kept, of so many bytes each.
REMEMBERED, REMEMBERED_BYTES = 256, 256


def selection(outputs: pb.Outputs, interface: Interface) -> Selection:
    """The outputs wanted, resolved; pooled where nothing is named.

    Raises:
        InvalidInput: naming the field and the valid range.
    """
    asked = outputs.SerializeToString()
    found = interface.selections.get(asked)
    if found is None:
        found = _resolved(outputs, interface)
        if len(asked) <= REMEMBERED_BYTES:
            if len(interface.selections) >= REMEMBERED:
                interface.selections.clear()
            interface.selections[asked] = found
    return found


def _resolved(outputs: pb.Outputs, interface: Interface) -> Selection:
    _check_counts(outputs, interface)
    if has_unknown(outputs):
        raise InvalidInput("outputs", "asks for something that this server does not know; it is older than the client")
    wanted = {field.name for field, _ in outputs.ListFields()} or {"pooled"}
    if not interface.attend:
        for name in ("attention", "hidden"):
            if name in wanted:
                raise InvalidInput(f"outputs.{name}", ATTENTION_OFF)
    architecture, pooling = interface.architecture, interface.pooling
    attention = hidden = None
    if "attention" in wanted:
        attention = resolve_attention(attention_spec(outputs.attention), architecture, pooling)
    if "hidden" in wanted:
        hidden = resolve_hidden(hidden_spec(outputs.hidden), architecture, pooling)
    vector = resolve_pooled(pooled_spec(outputs.pooled), interface.offer)
    rows = resolve_rows(tokens_spec(outputs.tokens))
    return Selection("pooled" in wanted, "tokens" in wanted, attention, hidden, vector, rows)


def _check_counts(outputs: pb.Outputs, interface: Interface) -> None:
    """Refuse lists longer than anything that they could name, by their length alone: a message holds millions of entries."""
    layers, heads, tokens = interface.architecture.layers, interface.architecture.heads, interface.max_length
    asked, states = outputs.attention, outputs.hidden
    counts = {
        "pooled.dtypes": (len(outputs.pooled.dtypes), len(VECTOR_TYPES)),
        "attention.layers": (len(asked.layers) + len(asked.layer_runs), layers),
        "attention.heads": (len(asked.heads) + len(asked.head_runs), heads),
        "attention.pairs": (len(asked.pairs), layers * heads),
        "attention.reduce": (len(asked.reduce), len(REDUCTIONS)),
        "attention.spans": (len(asked.spans), tokens),
        "attention.queries": (len(asked.queries.indices.indices), tokens),
        "attention.keys": (len(asked.keys.indices.indices), tokens),
        "hidden.layers": (len(states.layers) + len(states.layer_runs), layers + 1),
        "hidden.tokens": (len(states.tokens.indices.indices), tokens),
    }
    for name, (count, most) in counts.items():
        check_count(f"outputs.{name}", count, most)


def check_count(field: str, count: int, most: int) -> None:
    """Raises InvalidInput where a list has more entries than there are to be named."""
    if count > most:
        raise InvalidInput(field, f"has {count} entries, of which there are at most {most}; name each once")


def head_masks(inputs: Sequence[pb.Input], interface: Interface) -> list[Floats | None]:
    """Of each input, float32 [L, H]; None: all heads are whole.

    Raises:
        InvalidInput: naming the input, and what its mask must hold.
    """
    if True not in [value.HasField("head_mask") for value in inputs]:
        return [None] * len(inputs)
    masks = list[Floats | None]()
    layers, heads = interface.architecture.layers, interface.architecture.heads
    for at, value in enumerate(inputs):
        if not value.HasField("head_mask"):
            masks.append(None)
            continue
        field = f"inputs[{at}].head_mask"
        if not interface.attend:
            raise InvalidInput(field, ATTENTION_OFF)
        if len(value.head_mask.values) != layers * heads:
            have = f"has {len(value.head_mask.values)} values"
            raise InvalidInput(field, f"{have}; send {layers} x {heads}, heads within layers")
        mask = np.array(value.head_mask.values, dtype=np.float32).reshape(layers, heads)
        if not ((mask >= 0) & (mask <= 1)).all():  # beyond, numbers could overflow, and with them those of a batch-mate
            raise InvalidInput(field, "holds something that is not from 0 to 1; 1 keeps a head, 0 removes it")
        masks.append(mask)
    # Items of one request run on one graph, and a mask needs `attend`.
    return [np.ones((layers, heads), dtype=np.float32) if mask is None else mask for mask in masks]
