"""Largest numbers inside an encoder, by the module that gives them."""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Iterator
from typing import Any

from torch import Tensor, nn

from headlight_model.encoder import Encoder


class Largest(dict[str, float]):
    """Largest magnitude of each module, in the order of computation; NaN counts as infinity."""

    def widen(self, module: str, values: Tensor) -> None:
        """Raise a module's entry to the largest of these values."""
        largest = float(values.abs().amax())
        largest = math.inf if math.isnan(largest) else largest
        self[module] = max(self.get(module, 0.0), largest)

    @property
    def worst(self) -> tuple[str, float]:
        """The first module of the largest number, and that number."""
        return max(self.items(), key=lambda item: item[1])

    def __str__(self) -> str:
        module, largest = self.worst
        if math.isinf(largest):
            return f"{module} gives numbers that are not finite"
        return f"numbers reach {largest:.2g} in {module}"


@contextlib.contextmanager
def record_largest(encoder: Encoder) -> Iterator[Largest]:
    """Record what each module gives, and what each product with a weight reads."""
    largest = Largest()

    def record(name: str, module: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
        if isinstance(module, nn.Linear):
            largest.widen(name, inputs[0])
        largest.widen(name, output[0] if isinstance(output, tuple) else output)

    hooks = [
        module.register_forward_hook(functools.partial(record, name))
        for name, module in encoder.named_modules()
        if module is not encoder and not isinstance(module, nn.Dropout)  # it gives what it reads
    ]
    try:
        yield largest
    finally:
        for hook in hooks:
            hook.remove()
