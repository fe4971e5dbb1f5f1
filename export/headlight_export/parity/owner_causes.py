"""Usual causes of a difference between a checkpoint and its owner's model, each as an encoder.

If the encoder with a cause computes what the owner's model does, the cause is likely. Two mistakes
in one stage hide each other, so pairs of the frequent ones are tried if no single cause helps.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from headlight_model.config import CHOICES, EncoderConfig
from headlight_model.encoder import Encoder
from headlight_model.layers.block import Block
from headlight_model.positions.interleaved import to_half_split

State = dict[str, Tensor]
# Other values to try, besides those of CHOICES. A change of several fields is one cause.
CHANGES: tuple[dict[str, Any], ...] = (
    *({field: value} for field in CHOICES if field != "pooling" for value in CHOICES[field]),
    *(
        {field: value}
        for field in (
            *("positions_every_layer", "scale_embeddings", "final_norm", "first_norm"),
            *("embedding_norm", "causal", "rope_values"),
        )
        for value in (True, False)
    ),
    {"norm": "pre", "final_norm": False},
    {"norm": "post", "first_norm": False},
    *({"norm_eps": value} for value in (1e-12, 1e-6, 1e-5, 1e-3)),
    *({"positions": value} for value in ("none", "sinusoidal", "rope", "alibi")),
    *({"positions": "sinusoidal", "positions_every_layer": value} for value in (True, False)),
    *({"rope_offset": value} for value in (0, 1)),
)
# Mistakes that are often made together, and then in the same stage.
OFTEN: tuple[dict[str, Any], ...] = (
    *({"scale_embeddings": value} for value in (True, False)),
    *({"positions_every_layer": value} for value in (True, False)),
    {"norm": "pre"},
    {"norm": "pre", "final_norm": False},
    {"norm": "post", "first_norm": False},
    *({"activation": value} for value in CHOICES["activation"]),
)
QKV = ("Q", "K", "V")


class Cause(NamedTuple):
    """A possible cause.

    Attributes:
        text: continues "all agrees if".
        encoder: ours, changed.
        places: from ids [B, S] to positions [B or 1, S]; None: those of the tokens.
    """

    text: str
    encoder: Encoder
    places: Callable[[Tensor], Tensor] | None = None

    def positions(self, ids: Tensor) -> Tensor | None:
        """Return the positions of a batch; None: the usual ones."""
        return None if self.places is None else self.places(ids)


def causes(encoder: Encoder) -> Iterator[Cause]:
    """Yield the causes that the encoder's weights allow, each made when it is needed."""
    yield from _of_config(encoder, CHANGES)
    yield from _of_places(encoder)
    yield from _of_norms(encoder)
    for text, change in WEIGHTS.items():
        state = encoder.state_dict()
        for layer in range(encoder.config.layers):
            change(state, f"blocks.{layer}.attention.project_", encoder.config)
        changed = Encoder(encoder.config).eval()
        changed.load_state_dict(state)
        yield Cause(text, changed)


def pairs_of_causes(encoder: Encoder) -> Iterator[Cause]:
    """Yield pairs of the causes that often come together."""
    config = encoder.config
    often = [
        change
        for change in OFTEN
        if any(getattr(config, field) != value for field, value in change.items())
    ]
    yield from _of_config(
        encoder, [a | b for a, b in itertools.combinations(often, 2) if not a.keys() & b.keys()]
    )


def _of_config(encoder: Encoder, changes: Iterable[dict[str, Any]]) -> Iterator[Cause]:
    """Yield the causes that are other values in config.json."""
    config = encoder.config
    tried = [config]
    for change in changes:
        try:
            changed = dataclasses.replace(config, **change)
        except ValueError:  # they do not go together
            continue
        if changed in tried:
            continue
        tried.append(changed)
        if (built := _fitted(encoder, changed)) is not None:
            fields = {
                name: change[name] for name in change if change[name] != getattr(config, name)
            }
            yield Cause(f"config.json has {json.dumps(fields)[1:-1]}", built)


def _fitted(encoder: Encoder, config: EncoderConfig) -> Encoder | None:
    """Return an encoder of another config with the same weights; None if they do not fit.

    A new norm has its first values, and norms and positions may be left out.
    """
    other, state = Encoder(config).eval(), encoder.state_dict()
    expected = other.state_dict()
    if TABLE in state and TABLE in expected and config.positions_every_layer:
        state[TABLE] = state[TABLE].repeat(1, expected[TABLE].shape[1] // state[TABLE].shape[1])
    for name in expected.keys() - state.keys():
        if "norm" not in name:
            return None
        state[name] = expected[name]
    for name in state.keys() - expected.keys():
        if "norm" not in name and not name.startswith("positions."):
            return None
        del state[name]
    if any(state[name].shape != value.shape for name, value in expected.items()):
        return None
    other.load_state_dict(state)
    return other


TABLE = "positions.table.weight"


def _of_norms(encoder: Encoder) -> Iterator[Cause]:
    """Yield the place of the norms that no config has: x + norm(f(x))."""
    config = dataclasses.replace(
        encoder.config,
        norm="sandwich",
        # With "sandwich", first_norm is of block 0, and embedding_norm that of the embeddings.
        embedding_norm=not isinstance(encoder.embedding_norm, nn.Identity),
        first_norm=True,
        final_norm=not isinstance(encoder.final_norm, nn.Identity),
    )
    outside = Encoder(config).eval()
    outside.load_state_dict(outside.state_dict() | encoder.state_dict())
    for block in outside.blocks:
        assert isinstance(block, Block)
        block.attention_out_norm, block.attention_norm = block.attention_norm, nn.Identity()
        block.feed_forward_out_norm = block.feed_forward_norm
        block.feed_forward_norm = nn.Identity()
    yield Cause(
        "blocks are x + norm(f(x)), which no config has: train norm(x + f(x)) or x + f(norm(x))",
        outside,
    )


def _of_places(encoder: Encoder) -> Iterator[Cause]:
    """Yield the causes that are other positions of the tokens."""
    if encoder.config.positions == "none":
        return
    yield Cause(
        "its table of positions is transposed: each token has the row of its text in the batch, "
        "not of its place (a table for [S, B, D] is added to [B, S, D])",
        encoder,
        lambda ids: torch.arange(len(ids))[:, None].expand_as(ids),
    )
    last = encoder.config.max_length - 1
    yield from (
        Cause(
            f"its first token has position {first}",
            encoder,
            functools.partial(_places_from, first, last),
        )
        for first in (1, 2)
    )


def _places_from(first: int, last: int, ids: Tensor) -> Tensor:
    """Return positions [1, S] that begin at `first`; those beyond the table are its `last`."""
    return (torch.arange(ids.shape[1]) + first).clamp(max=last)[None]


def _parts(state: State, place: str, config: EncoderConfig) -> Iterator[tuple[str, list[Tensor]]]:
    """Yield weights and biases of a block's Q, K and V: a name, and their rows apart."""
    widths = [heads * config.head_dim for heads in (config.heads, *(config.key_heads,) * 2)]
    for name in (f"{place}in.weight", f"{place}in.bias"):
        if name in state:
            yield name, list(torch.split(state[name], widths))


def _transposed(state: State, place: str, config: EncoderConfig) -> None:
    for name, parts in _parts(state, place, config):
        if name.endswith("weight"):
            state[name] = torch.cat([_turned(part) for part in parts])
    state[f"{place}out.weight"] = _turned(state[f"{place}out.weight"])


def _turned(matrix: Tensor) -> Tensor:
    return matrix.T.contiguous() if matrix.shape[0] == matrix.shape[1] else matrix


def _transposed_out(state: State, place: str, config: EncoderConfig) -> None:
    state[f"{place}out.weight"] = _turned(state[f"{place}out.weight"])


def _by_head(state: State, place: str, config: EncoderConfig) -> None:
    """Read rows as [H, 3, d], and write them as [3, H, d]."""
    for name, parts in _parts(state, place, config):
        rows = torch.cat(parts)
        if config.heads == config.key_heads:
            split = rows.view(config.heads, 3, config.head_dim, *rows.shape[1:])
            state[name] = split.transpose(0, 1).reshape(rows.shape)


def _half_split(*kinds: str) -> Callable[[State, str, EncoderConfig], None]:
    def change(state: State, place: str, config: EncoderConfig) -> None:
        if "rope" not in config.position_schemes:
            return
        for name, (query, key, value) in _parts(state, place, config):
            if name.endswith(kinds):
                queries = to_half_split(query, config.heads, config.rope_width)
                keys = to_half_split(key, config.key_heads, config.rope_width)
                state[name] = torch.cat((queries, keys, value))

    return change


def _scores_times(factor: Callable[[EncoderConfig], float]) -> Callable[..., None]:
    def change(state: State, place: str, config: EncoderConfig) -> None:
        for name, (query, key, value) in _parts(state, place, config):
            state[name] = torch.cat((query * factor(config), key, value))

    return change


def _in_order(order: tuple[int, ...]) -> Callable[[State, str, EncoderConfig], None]:
    def change(state: State, place: str, config: EncoderConfig) -> None:
        for name, parts in _parts(state, place, config):
            if len({len(part) for part in parts}) == 1:
                state[name] = torch.cat([parts[at] for at in order])

    return change


# Changes of each block's weights.
WEIGHTS: dict[str, Callable[[State, str, EncoderConfig], None]] = {
    "the biases of W_q and W_k go through to_half_split, too": _half_split("bias"),
    "W_q, W_k and their biases go through to_half_split": _half_split("weight", "bias"),
    "W_q and W_k go through to_half_split, too": _half_split("weight"),
    "W_q and its biases are times sqrt(d): your scores are not divided by it": (
        _scores_times(lambda config: math.sqrt(config.head_dim))
    ),
    "W_q and its biases are times sqrt(d / D): your scores are divided by sqrt(D)": (
        _scores_times(lambda config: math.sqrt(config.head_dim / config.dim))
    ),
    "W_q, W_k, W_v and W_o are transposed": _transposed,
    "W_o is transposed": _transposed_out,
    "the rows of project_in are sorted: theirs are Q, K, V of each head": _by_head,
    **{
        f"the rows of project_in are sorted: theirs are {', '.join(QKV[at] for at in order)}": (
            # The rows that are Q in their order, then K, then V.
            _in_order(tuple(order.index(at) for at in range(3)))
        )
        for order in itertools.permutations(range(3))
        if order != (0, 1, 2)
    },
}
