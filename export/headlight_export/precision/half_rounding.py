"""Rounding of fp16 on a device that computes in it.

The provider for CPUs does not: it computes the same graph in float32.
"""

from __future__ import annotations

import copy

from torch import Tensor, nn

from headlight_model.encoder import Dense, Encoder


def in_half(encoder: Encoder) -> Encoder:
    """Return a copy rounded to float16, as the fp16 graph rounds.

    Rounded are weights, and inputs and outputs of products with weights. Sums inside a product are
    float32, as in matrix units. A number beyond float16's range becomes infinite, and results from
    it are not finite.
    """
    rounded = copy.deepcopy(encoder)
    for module in rounded.modules():
        if isinstance(module, nn.Linear | nn.Embedding):
            module.weight.data = _half(module.weight.data)
        if isinstance(module, nn.Linear) and not isinstance(module, Dense):
            module.register_forward_pre_hook(
                lambda _module, arguments: tuple(map(_half, arguments))
            )
            module.register_forward_hook(lambda _module, _arguments, output: _half(output))
    return rounded


def _half(x: Tensor) -> Tensor:
    return x.half().float()
