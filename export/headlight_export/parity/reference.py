"""Reference numbers of PyTorch, and its own distance from exact arithmetic.

A bundle is measured against them.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import numpy as np
import torch

from headlight.outputs.registry import FLOORS, MEASURED, OUTPUTS
from headlight.runtime.parity.golden_inputs import distance
from headlight.runtime.values import Floats, Ids
from headlight_export.parity.activations import record_largest
from headlight_model.config import EncoderConfig
from headlight_model.encoder import Encoder

MOST_WEIGHTS = 20_000_000  # attention weights of one text, in all layers
LONGEST = 2048  # tokens
# Limit of PyTorch's own fp32 error, over a row's RMS: 1e-5 is already large. An overflow, even
# inside a norm, ruins the whole row.
MOST_ERROR = 0.1
SLACK = 4.0  # times PyTorch's own fp32 distance from float64, if that is above the floor


def random_ids(config: EncoderConfig, length: int, seed: int) -> Ids:
    """Return `length` token ids without padding, the same for the same seed: int64 [length]."""
    ids = np.random.default_rng([seed, length]).integers(
        0, config.vocab_size, size=length, dtype=np.int64
    )
    ids[ids == config.pad_id] = (config.pad_id + 1) % config.vocab_size
    return ids


def random_segments(config: EncoderConfig, length: int, seed: int) -> Ids | None:
    """Return `length` segments, the same for the same seed: int64 [length].

    None if the model has none.
    """
    if not config.segments:
        return None
    return np.random.default_rng([seed, length, 1]).integers(
        0, config.segments, size=length, dtype=np.int64
    )


def random_head_mask(config: EncoderConfig, seed: int) -> Floats:
    """Return a mask that removes some heads and weakens others: float32 [L, H] of 0, 0.5 and 1."""
    shape = (config.layers, config.heads)
    return np.random.default_rng([seed, 2]).choice(
        np.array([0.0, 0.5, 1.0], dtype=np.float32), size=shape
    )


class Masks(NamedTuple):
    """The ignored tokens of a text, as in the fields of an EncodeItem.

    Attributes:
        occluded: a token that no query sees and pooling leaves out; None: none.
        left_out: number of tokens at the start that pooling leaves out.
    """

    occluded: int | None = None
    left_out: int = 0


WHOLE = Masks()


class Reference:
    """The encoder in float32, as trained."""

    def __init__(self, encoder: Encoder) -> None:
        self.encoder = encoder
        self._random: dict[tuple[int, int], dict[str, Floats]] = {}

    def outputs_of_random(self, length: int, seed: int) -> dict[str, Floats]:
        """Return the outputs of a random text, with weights; computed once, and kept."""
        key = (length, seed)
        if key not in self._random:
            self._random[key] = _run(self.encoder, *self._text(length, seed), weights=True)
        return self._random[key]

    def outputs(
        self,
        ids: Ids,
        segments: Ids | None = None,
        head_mask: Floats | None = None,
        *,
        weights: bool = True,
        masks: Masks = WHOLE,
    ) -> dict[str, Floats]:
        """Encode one text alone, without padding.

        Args:
            ids, segments: int64 [n].
            head_mask: float32 [L, H].
            weights: False for pooled and tokens alone, by the fused kernel. It is for lengths at
                which the attention weights would fill the memory.
            masks: the ignored tokens.

        Returns:
            float32 pooled [D] and tokens [n, D], and what the model's heads give, by output; with
            weights also attention [L, H, n, n] and hidden [L+1, n, D].
        """
        return _run(self.encoder, ids, segments, head_mask, weights=weights, masks=masks)

    def head(self, vectors: Floats) -> Floats:
        """Apply the layers behind pooling: float32 [N, dim] -> [N, pooled_dim], not normalised."""
        tensor = torch.from_numpy(vectors)
        with torch.inference_mode():
            for dense in self.encoder.dense:
                tensor = dense(tensor)
        return _array(tensor)

    def own_rounding(self, seed: int) -> dict[str, float]:
        """Return the distance of PyTorch's bfloat16 mixed precision from float32, by output.

        It is the largest over random texts of the lengths to try. Any provider that computes in
        bfloat16 may be as far off; providers differ in the operations that they round.
        """
        return _worst(
            (self._rounded(*self._text(length, seed)), self.outputs_of_random(length, seed))
            for length in lengths_to_try(self.encoder.config)
        )

    def _rounded(self, ids: Ids, segments: Ids | None) -> dict[str, Floats]:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return self.outputs(ids, segments)

    def own_error(self, seed: int) -> dict[str, float]:
        """Return the distance of PyTorch's float32 from its float64, by output.

        It is the largest over random texts, the longest length to try included: rounding grows with
        length.

        Raises:
            ValueError: float32 cannot hold the model's numbers.
        """
        worst = _worst(self._with_exact(seed))
        if (
            max(worst[output] for output in MEASURED if OUTPUTS[output].by_row) > MOST_ERROR
            or math.inf in worst.values()
        ):
            raise self._overflow(seed)
        return worst

    def _overflow(self, seed: int) -> ValueError:
        """Return the error of an encoder whose numbers float32 cannot hold."""
        with record_largest(self.encoder) as largest:
            for length in lengths_to_try(self.encoder.config):
                _run(self.encoder, *self._text(length, seed), weights=True)
        name, weight = max(
            self.encoder.state_dict().items(), key=lambda item: float(item[1].abs().max())
        )
        return ValueError(
            f"the model's results overflow float32: {largest}, and the largest weight is "
            f"{float(weight.abs().max()):.1e}, in {name}; did the training diverge? "
            "Export an earlier checkpoint"
        )

    def _with_exact(self, seed: int) -> Iterator[tuple[dict[str, Floats], dict[str, Floats]]]:
        """Yield the float32 and the float64 outputs of random texts."""
        exact = copy.deepcopy(self.encoder).double()  # twice the bytes: freed after the last text
        lengths = tuple(lengths_to_try(self.encoder.config))
        for length in lengths:
            text = self._text(length, seed)
            yield self.outputs_of_random(length, seed), _run(exact, *text, weights=True)
        longest = longest_to_try(self.encoder.config)
        if longest > lengths[-1]:
            text = self._text(longest, seed)
            yield _run(self.encoder, *text, weights=False), _run(exact, *text, weights=False)

    def _text(self, length: int, seed: int) -> tuple[Ids, Ids | None]:
        """Return a random text, with its segments."""
        config = self.encoder.config
        return random_ids(config, length, seed), random_segments(config, length, seed)


def _worst(pairs: Iterable[tuple[Mapping[str, Floats], Mapping[str, Floats]]]) -> dict[str, float]:
    """Return the largest distance of each output, over pairs of found and exact values."""
    worst = dict.fromkeys(MEASURED, 0.0)
    for computed, exact in pairs:
        for name, value in computed.items():
            worst[name] = max(worst[name], distance(name, value, exact[name]))
    return worst


def tolerances(own_error: Mapping[str, float]) -> dict[str, float]:
    """Return the fp32 tolerance of each output, given PyTorch's own error."""
    return {name: max(FLOORS[name], SLACK * error) for name, error in own_error.items()}


def _run(
    encoder: Encoder,
    ids: Ids,
    segments: Ids | None,
    head_mask: Floats | None = None,
    *,
    weights: bool,
    masks: Masks = WHOLE,
) -> dict[str, Floats]:
    tokens = torch.from_numpy(ids)[None]
    seen, pooled = torch.ones_like(tokens), torch.ones_like(tokens)
    if masks.occluded is not None:
        seen[0, masks.occluded] = 0
    pooled[0, : masks.left_out] = 0
    types = None if segments is None else torch.from_numpy(segments)[None]
    heads = None if head_mask is None else torch.from_numpy(head_mask)[None]
    with torch.inference_mode():
        out = encoder(
            tokens, seen, segments=types, head_mask=heads, pool_mask=pooled, fused=not weights
        )
    result = {"pooled": _array(out.pooled[0]), "tokens": _array(out.tokens[0])}
    result |= {
        name: _array(out.heads[read][0])
        for name, output in OUTPUTS.items()
        for read in output.reads
        if read in out.heads
    }
    if weights:
        result["attention"] = _array(torch.cat(out.attention))  # L of [1, H, n, n] -> [L, H, n, n]
        result["hidden"] = _array(torch.cat(out.hidden))  # L+1 of [1, n, D] -> [L+1, n, D]
    return result


def _array(values: torch.Tensor) -> Floats:
    """Convert to NumPy, which has no bfloat16."""
    array: Floats = (values.float() if values.dtype == torch.bfloat16 else values).numpy()
    return array


def lengths_to_try(config: EncoderConfig) -> Iterator[int]:
    """Yield lengths from one token to four times the training length.

    They stop at the model's limit, and at the longest text whose maps fit into memory.
    """
    most = longest_with_maps(config)
    trained = min(config.trained_length, most)
    for length in sorted(
        {1, 2, 3, 7, 16, trained // 2, trained, trained + 1, 2 * trained, 4 * trained}
    ):
        if 1 <= length <= most:
            yield length


def longest_to_try(config: EncoderConfig) -> int:
    """Return the tokens of the longest text that is measured, without maps.

    Longer texts would take minutes.
    """
    return min(config.max_length, LONGEST)


def longest_with_maps(config: EncoderConfig) -> int:
    """Return the tokens of the longest text allowed by the model and by memory for its maps."""
    return min(config.max_length, math.isqrt(MOST_WEIGHTS // (config.layers * config.heads)))


def masks_to_try(config: EncoderConfig, length: int) -> dict[str, Masks]:
    """Return masks of a text of so many tokens, by name; none if it is too short for them."""
    if length < 3:
        return {}
    masks = {"token hidden": Masks(occluded=length // 2)}
    if not config.include_prompt:
        masks["prompt left out"] = Masks(left_out=length // 2)
    return masks
