"""Selectors of the `attend` graph's outputs, and the outputs that they select.

For each layer l, the graph takes selectors and returns outputs. An empty selector costs nothing.

    attention_l_heads int64 [h] -> attention_l float32 [B, h, S, S], the weights of these heads
    scores_l_heads int64 [h] -> scores_l float32 [B, h, S, S], the same before the softmax
    mix_l float32 [B, m, H] -> mixed_l float32 [B, m, S, S], weighted sums of each input's heads
    combine_l float32 [B, 1, r, S] -> rows_l float32 [B, H, r, S], weighted sums of its rows
    top_l int64 [1], k -> top_l_entries float32 [B, H, S, k], the largest of each row, descending,
                          and top_l_keys int64 [B, H, S, k], their positions

One graph serves every output spec, and a request pays only for its own. The graph reduces maps in
place, on all threads, and copies nothing that stays inside it.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from headlight.outputs.maps.reduction import (
    Maps,
    Source,
    pooling_weights,
    reduce_attention,
    row_tokens,
)
from headlight.outputs.maps.resolved_spec import Choice
from headlight.outputs.maps.token_units import Places, attention_shape, places_of
from headlight.outputs.output import Item, Work
from headlight.spec import AttentionSpec

if TYPE_CHECKING:
    from headlight.runtime.values import Array, Arrays, Floats

# Share of all rows above which whole maps are cheaper than rows computed one by one.
FEW_ROWS = 1 / 8
EMPTY_SELECTORS = 64  # shapes of batches without attention whose selectors are kept
# Bytes of a batch's whole maps, up to which NumPy chooses the largest entries of rows: faster than
# TopK on CPUs (docs/performance.md). Larger ones are reduced in the graph, layer by layer.
CHOSEN_BYTES = 64 << 20
OUTPUTS_OF: dict[Source, tuple[str, ...]] = {
    "attention": ("attention_{}",),
    "scores": ("scores_{}",),
    "mixed": ("mixed_{}",),
    "rows": ("rows_{}",),
    "top": ("top_{}_entries", "top_{}_keys"),
}


def source_of(choice: Choice, places: Places) -> Source:
    """Return the cheapest graph output from which an item's result follows.

    Measured in bench/results/attention.md.
    """
    spec = choice.spec
    if spec.scores:
        return "scores"
    if "statistics" in spec.reduce:
        return "attention"
    if _by_rows(choice, places):
        return "rows"
    if choice.reduced.get("heads") == "head_mean" and not spec.drop_special:
        return "mixed"
    whole = (
        places.keys is None and spec.unit == "token" and not spec.reduce and not spec.drop_special
    )
    return "top" if whole and spec.top_k and spec.top_k < places.length else "attention"


def _by_rows(choice: Choice, places: Places) -> bool:
    """Return whether few rows suffice, and all later steps are linear or per row."""
    spec, reduced = choice.spec, choice.reduced.get("queries")
    if "rollout" in spec.reduce:
        return False
    if reduced == "pooling_weights":
        return choice.reduced.get("heads") != "head_max" and not spec.drop_special
    if reduced == "pooled_row":
        return True
    return places.queries is not None and len(places.queries.tokens) <= FEW_ROWS * places.length


class _ItemAttention:
    """The attention that one item needs."""

    def __init__(self, choice: Choice, places: Places, by_graph: bool) -> None:
        """`by_graph`: whether the graph chooses the largest entries of each row, not NumPy."""
        self.choice, self.places = choice, places
        self.source = source_of(choice, places)
        if self.source == "top" and not by_graph:
            self.source = "attention"
        self.top = (choice.spec.top_k or 0) if self.source == "top" else 0
        self.rows = self._rows() if self.source == "rows" else np.zeros((0, 0), dtype=np.float32)

    def _rows(self) -> Floats:
        """Return the combinations of rows: float32 [r, n]."""
        if self.choice.reduced.get("queries") == "pooling_weights":
            return pooling_weights(self.choice, self.places)[None]
        tokens = row_tokens(self.choice, self.places)
        rows: Floats = (tokens[:, None] == np.arange(self.places.length)).astype(np.float32)
        return rows


class BatchAttention(Work):
    """The attention that a batch needs from each layer: the union of what its items need."""

    def __init__(
        self, items: Sequence[Item], layers: int, heads: int, longest: int, gpu: bool
    ) -> None:
        """Collect what the items need.

        Args:
            items: items of the batch.
            layers, heads: numbers of layers and heads of the model.
            longest: padded length of the batch, in tokens.
            gpu: whether the graph runs on a GPU, from which whole maps would have to be copied.
        """
        self._layers, self._heads, self._longest = layers, heads, longest
        self._wanted: dict[int, _ItemAttention] = {}
        for row, item in enumerate(items):
            if choice := item.selection.get("attention"):
                # As if all items made this choice.
                map_bytes = 4 * len(items) * longest**2 * sum(map(len, choice.heads))
                by_graph = gpu or choice.by_graph or map_bytes > CHOSEN_BYTES
                self._wanted[row] = _ItemAttention(choice, places_of(item), by_graph)
        self._batch = len(items)
        chosen: dict[tuple[Source, int], set[int]] = {}
        for needed in self._wanted.values():
            for layer, of_layer in zip(needed.choice.layers, needed.choice.heads, strict=True):
                chosen.setdefault((needed.source, layer), set()).update(of_layer)
        # Heads, by source and layer.
        self._chosen = {key: sorted(heads) for key, heads in chosen.items()}
        self._whole = self._unreduced()
        self.names = [
            name.format(layer) for source, layer in self._chosen for name in OUTPUTS_OF[source]
        ]

    def feeds(self) -> Arrays:
        """Return the selectors of every layer."""
        if not self._chosen:
            return _empty(self._batch, self._layers, self._heads, self._longest)
        most = max([item.top for item in self._wanted.values()], default=0)
        return _selectors(self._chosen, *self._weights(), most, self._layers)

    def _unreduced(self) -> Floats | None:
        """Return an array [layers, heads, n, n] for the graph to fill; this saves one copy.

        None if there are several items, the item is padded, or the maps are changed afterwards.
        """
        if self._batch != 1 or not self._wanted or self._wanted[0].places.length != self._longest:
            return None
        choice, places = self._wanted[0].choice, self._wanted[0].places
        as_it_is = AttentionSpec(
            layers=choice.spec.layers, heads=choice.spec.heads, max_bytes=choice.spec.max_bytes
        )
        if choice.spec != as_it_is or any(list(heads) != sorted(heads) for heads in choice.heads):
            return None
        return np.empty(attention_shape(choice, places), dtype=np.float32)

    def buffers(self) -> Arrays:
        """Return output buffers for the graph, [1, heads, n, n] each: the result of a lone item."""
        if self._whole is None:
            return {}
        layers = self._wanted[0].choice.layers
        return {
            f"attention_{layer}": maps[None]
            for layer, maps in zip(layers, self._whole, strict=True)
        }

    def cut(self, row: int, outputs: Arrays) -> Arrays:
        """Return one item's attention from the graph's outputs, reduced by `reduce_attention`."""
        item = self._wanted.get(row)
        if item is None:
            return {}
        if self._whole is not None:
            return {"attention": self._whole}
        return reduce_attention(item.choice, item.places, item.source, self._maps(row, outputs))

    def _maps(self, row: int, outputs: Arrays) -> Maps:
        item = self._wanted[row]
        n, source = item.places.length, item.source
        for layer, chosen in zip(item.choice.layers, item.choice.heads, strict=True):
            parts = [outputs[name.format(layer)][row] for name in OUTPUTS_OF[source]]
            if source == "mixed":
                yield parts[0][:, :n, :n]
            elif source == "rows":
                yield _heads_of(parts[0], chosen, range(self._heads))[:, : len(item.rows), :n]
            elif source == "top":
                heads = [_heads_of(part, chosen, range(self._heads)) for part in parts]
                yield tuple(part[:, :n, : item.top] for part in heads)
            else:
                yield _heads_of(parts[0], chosen, self._chosen[source, layer])[:, :n, :n]

    def _weights(self) -> tuple[Floats, Floats]:
        """Return each input's head weights and row combinations.

        They are float32 [B, 1, H] and float32 [B, 1, r, S].
        """
        most = max([len(item.rows) for item in self._wanted.values()], default=0)
        mix = np.zeros((self._batch, 1, self._heads), dtype=np.float32)
        combine = np.zeros((self._batch, 1, most, self._longest), dtype=np.float32)
        for row, item in self._wanted.items():
            if item.source == "mixed":
                heads = list(item.choice.heads[0])
                mix[row, 0, heads] = np.float32(1) / np.float32(len(heads))
            combine[row, 0, : len(item.rows), : item.rows.shape[1]] = item.rows
        return mix, combine


def _selectors(
    chosen: Mapping[tuple[Source, int], list[int]],
    mix: Floats,
    combine: Floats,
    most: int,
    layers: int,
) -> Arrays:
    """Return the selectors of every layer.

    Args:
        chosen: heads, by source and layer.
        mix, combine: head weights and row combinations, see `BatchAttention._weights`.
        most: largest entries of a row to return.
        layers: number of layers of the model.
    """
    feeds: Arrays = {}
    for layer in range(layers):
        for source in ("attention", "scores"):
            feeds[f"{source}_{layer}_heads"] = np.array(
                chosen.get((source, layer), []), dtype=np.int64
            )
        feeds[f"mix_{layer}"] = mix if ("mixed", layer) in chosen else mix[:, :0]
        feeds[f"combine_{layer}"] = combine if ("rows", layer) in chosen else combine[:, :, :0]
        feeds[f"top_{layer}"] = np.array([most if ("top", layer) in chosen else 0], dtype=np.int64)
    return feeds


@functools.lru_cache(EMPTY_SELECTORS)
def _empty(batch: int, layers: int, heads: int, longest: int) -> Arrays:
    """Return the selectors of a batch without attention: a lone text's run on all threads."""
    mix = np.zeros((batch, 1, heads), dtype=np.float32)
    combine = np.zeros((batch, 1, 0, longest), dtype=np.float32)
    return _selectors({}, mix, combine, 0, layers)


def _heads_of(maps: Array, chosen: Sequence[int], there: Sequence[int]) -> Array:
    """Return the chosen heads of maps [heads, ...], whose heads are `there`; a view if all are."""
    if list(chosen) == list(there):
        return maps
    return maps[[there.index(head) for head in chosen]]
