"""Products and attention in float16, as on a GPU: their range, and distance from float32.

The provider for CPUs takes the casts around such a product out, and computes it in float32. There
a graph in fp16 never overflows, and is as exact as its weights. So PyTorch computes here what the
graph says.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from headlight.runtime.parity.golden_inputs import distance
from headlight.runtime.values import Floats
from headlight_export.parity.activations import Largest
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
    check_nearness,
    judged,
)
from headlight_export.precision.sample_texts import Passage, Passages, spread
from headlight_model.config import EncoderConfig
from headlight_model.encoder import Encoder

# Other texts may have larger activations, if not by much: the largest hardly depend on the text
# (Sun et al. 2024, "Massive activations in large language models"). And a GPU may round parts of a
# sum to float16, which can be larger than the sum.
HEADROOM = 2
CPU = "cpu"  # whose option --precision is
TEXTS = 64  # of the report; for all, a large model would take minutes
SEED = 8


def measure_half(
    reference: Reference,
    sample: Passages,
    outputs: Collection[str] = ("pooled",),
    *,
    attention: bool = True,
) -> HalfQuality:
    """Compute texts and random ids with products in float16, and compare.

    Attention and hidden states are those of the random ids, which are harder than texts.

    Args:
        reference: PyTorch's float32.
        sample: texts; TEXTS of them are computed.
        outputs: of the model's task, from the manifest.
        attention: whether that of the graph of vectors is in float16, too.

    Raises:
        BrokenVariantError: numbers of a product leave float16's range or come near its end, or
            outputs are too far from float32.
    """
    config = reference.encoder.config
    rounded = Reference(in_half(reference.encoder))
    products = LargestProducts(reference.encoder, attention=attention)
    errors = dict[str, float]()
    pairs = {name: list[tuple[Floats, Floats]]() for name in judged(outputs)}
    for text, maps in (
        *((text, False) for text in spread(sample.items, TEXTS)),
        *((_random(config, length), True) for length in lengths_to_try(config)),
        (_random(config, longest_to_try(config)), False),
    ):
        with products:
            exact = reference.outputs(text.ids, text.segments, weights=maps)
        _check_range(products.largest)
        with HalfProducts(attention=attention):
            halved = rounded.outputs(text.ids, text.segments, weights=maps)
        for name, value in halved.items():
            errors[name] = max(errors.get(name, 0.0), distance(name, value, exact[name]))
        for name, of_output in pairs.items():
            of_output.append((exact[name], halved[name]))
    near = check_nearness(CPU, "fp16", pairs, "with products in float16, as on a GPU, ")
    module, most = products.largest.worst
    return HalfQuality(errors, near, most, module)


def _check_range(largest: Largest) -> None:
    if largest.worst[1] * HEADROOM > FLOAT16_END:
        raise broken(
            CPU,
            "fp16",
            f"may overflow: {largest}, float16 ends at {FLOAT16_END}, and other texts may need "
            f"{HEADROOM} times as much",
        )


def _random(config: EncoderConfig, length: int) -> Passage:
    return Passage(random_ids(config, length, SEED), random_segments(config, length, SEED))


def in_half(encoder: Encoder) -> Encoder:
    """Return a copy whose matrices hold float16 numbers, as those of the fp16 graph."""
    rounded = copy.deepcopy(encoder)
    for module in rounded.modules():
        if isinstance(module, nn.Linear | nn.Embedding):
            module.weight.data = _half(module.weight.data)
    return rounded


class Products(TorchFunctionMode):
    """Mode that sees the products of tokens with weights, which are float16 in the graph.

    Products after pooling [B, D], and those with some rows of a table, as in heads of terms, are
    float32 there.
    """

    def __init__(self, *, attention: bool = True) -> None:
        """Take whether it sees fused attention, too."""
        super().__init__()
        self._attention = attention

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Sequence[type],
        arguments: Sequence[Any] = (),
        options: Mapping[str, Any] | None = None,
    ) -> Any:
        if self._attention and function is functional.scaled_dot_product_attention:
            query, key, value = arguments
            return self.attention(query, key, value, **(options or {}))
        if function is not functional.linear:
            return function(*arguments, **(options or {}))
        x, weight, bias = arguments
        if x.ndim < 3 or not isinstance(weight, nn.Parameter):
            return functional.linear(x, weight, bias)
        y = self.product(x, weight)
        return y if bias is None else y + bias

    def product(self, x: Tensor, weight: nn.Parameter) -> Tensor:
        """Return x times the weight: [..., K] and [N, K] -> [..., N]."""
        raise NotImplementedError

    def attention(self, query: Tensor, key: Tensor, value: Tensor, **mask: Any) -> Tensor:
        """Return the context of fused attention: [B, H, Q, d]."""
        raise NotImplementedError


class HalfProducts(Products):
    """Mode that rounds what products read and give; sums are float32, as in matrix units."""

    def product(self, x: Tensor, weight: nn.Parameter) -> Tensor:
        return _half(functional.linear(_half(x), weight))

    def attention(self, query: Tensor, key: Tensor, value: Tensor, **mask: Any) -> Tensor:
        query, key, value = _half(query), _half(key), _half(value)
        return _half(functional.scaled_dot_product_attention(query, key, value, **mask))


class LargestProducts(Products):
    """Mode that records the largest number that attention reads, or a product reads or gives."""

    def __init__(self, encoder: Encoder, *, attention: bool) -> None:
        super().__init__(attention=attention)
        self.largest = Largest()
        self._modules = {
            id(weight): name.removesuffix(".weight") for name, weight in encoder.named_parameters()
        }

    def product(self, x: Tensor, weight: nn.Parameter) -> Tensor:
        y = functional.linear(x, weight)
        for values in (x, y):
            self.largest.widen(self._modules[id(weight)], values)
        return y

    def attention(self, query: Tensor, key: Tensor, value: Tensor, **mask: Any) -> Tensor:
        for values in (query, key, value):
            self.largest.widen("attention", values)
        return functional.scaled_dot_product_attention(query, key, value, **mask)


def _half(x: Tensor) -> Tensor:
    return x.half().float()
