"""Plan of one training of the lab."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any


@dataclasses.dataclass(frozen=True, kw_only=True)
class Training:
    """One training. Equal values give equal weights, on one machine and one thread.

    Attributes:
        task: a key of TASKS.
        scheme: one of SCHEMES.
        seed: of weights and sequences; small.
        steps: updates of the weights.
        lengths: shortest and longest sequence; each step draws one.
        batch: sequences a step.
        rate: the peak learning rate.
        rope_theta: base of the wavelengths, for "rope".
        tested: tokens of the test sequences at each length.
        variant: what differs from the lab's other trainings of the scheme; "": nothing.
        fields: the EncoderConfig fields of the variant.
        word_width: dimensions of the embedding that hold the word. The others hold its sinusoidal
            position, which is concatenated instead of added. 0: positions as of the scheme.
        initial_std: standard deviation of new embeddings.
        comparisons: names of the comparisons that it is part of, for `--experiment`.
    """

    task: str
    scheme: str
    seed: int
    steps: int
    lengths: tuple[int, int]
    batch: int = 64
    rate: float = 1e-3
    rope_theta: float = 10000.0
    tested: int = 1 << 15
    variant: str = ""
    fields: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    word_width: int = 0
    initial_std: float = 1.0
    comparisons: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Name that distinguishes it from the lab's other trainings, also used for folders."""
        theta = f"-theta{self.rope_theta:g}" if self.scheme == "rope" else ""
        variant = f"-{self.variant}" if self.variant else ""
        name = f"{self.task}-{self.lengths[1]}-{self.scheme}{theta}{variant}-seed{self.seed}"
        return name.replace(" ", "-")
