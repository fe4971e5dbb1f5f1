"""Products in float16, as a GPU computes them: their range, and their distance from float32.

The provider for CPUs takes the casts around such a product out, and computes it in float32. There
a graph in fp16 never overflows, and is as exact as its weights. So PyTorch computes here what the
graph says.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from headlight.runtime.parity.golden_inputs import distance
from headlight_export.parity.activations import record_largest
from headlight_export.parity.reference import (
    Reference,
    lengths_to_try,
    longest_to_try,
    random_ids,
    random_segments,
)
from headlight_export.precision.quality import (
    FLOAT16_END,
    HalfQuality,
    broken,
    check_cosines,
    cosines,
)
from headlight_export.precision.sample_texts import Passage, Passages, spread
from headlight_model.config import EncoderConfig
from headlight_model.encoder import Encoder

# Other texts may have larger activations, if not by much: the largest hardly depend on the text
# (Sun et al. 2024, "Massive activations in large language models"). And a GPU may round parts of a
# sum to float16, which can be larger than the sum.
HEADROOM = 2
CPU = "cpu"  # whose option --precision is
TEXTS = 64  # compared; the range is that of all
SEED = 8


def measure_half(reference: Reference, sample: Passages) -> HalfQuality:
    """Compute texts and random ids with products in float16, and compare.

    Hidden states count, too: the graph has them in float32, but they add up products.

    Raises:
        BrokenVariantError: numbers leave float16's range or come near its end, or vectors are too
            far from float32.
    """
    config = reference.encoder.config
    others = [_random(config, length) for length in lengths_to_try(config)]
    with record_largest(reference.encoder) as largest:
        for text in (*sample.items, *others, _random(config, longest_to_try(config))):
            reference.outputs(text.ids, text.segments, weights=False)
    if largest.worst[1] * HEADROOM > FLOAT16_END:
        raise broken(
            CPU,
            "fp16",
            f"may overflow: {largest}, float16 ends at {FLOAT16_END}, and other texts may need "
            f"{HEADROOM} times as much",
        )
    rounded = Reference(in_half(reference.encoder))
    errors, pairs = dict[str, float](), []
    for text in (*spread(sample.items, TEXTS), *others):
        exact = reference.outputs(text.ids, text.segments)
        with HalfProducts():
            halved = rounded.outputs(text.ids, text.segments)
        for name, value in halved.items():
            errors[name] = max(errors.get(name, 0.0), distance(name, value, exact[name]))
        pairs.append((exact["pooled"], halved["pooled"]))
    near = cosines(*map(np.stack, zip(*pairs, strict=True)))
    check_cosines(CPU, "fp16", near, "with products in float16, as on a GPU, ")
    module, most = largest.worst
    return HalfQuality(errors, float(near.mean()), float(near.min()), most, module)


def _random(config: EncoderConfig, length: int) -> Passage:
    return Passage(random_ids(config, length, SEED), random_segments(config, length, SEED))


def in_half(encoder: Encoder) -> Encoder:
    """Return a copy whose matrices hold float16 numbers, as those of the fp16 graph."""
    rounded = copy.deepcopy(encoder)
    for module in rounded.modules():
        if isinstance(module, nn.Linear | nn.Embedding):
            module.weight.data = _half(module.weight.data)
    return rounded


class HalfProducts(TorchFunctionMode):
    """Mode that rounds what products of tokens with weights read and give to float16.

    Sums inside a product are float32, as in matrix units. Products after pooling [B, D], and those
    with some rows of a table, as in heads of terms, are float32 in the graph.
    """

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Sequence[type],
        arguments: Sequence[Any] = (),
        options: Mapping[str, Any] | None = None,
    ) -> Any:
        if function is not functional.linear:
            return function(*arguments, **(options or {}))
        x, weight, bias = arguments
        if x.ndim < 3 or not isinstance(weight, nn.Parameter):
            return functional.linear(x, weight, bias)
        y = _half(functional.linear(_half(x), weight))
        return y if bias is None else y + bias


def _half(x: Tensor) -> Tensor:
    return x.half().float()
