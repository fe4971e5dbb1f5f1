"""Exact mathematical properties of the position schemes.

Measured on encoders with random weights, without training. Every property is tested with every
scheme that it can be stated for, so the table also shows which schemes violate it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType

import torch
from torch import Tensor

from headlight_model.encoder import Encoder, EncoderOutput
from lab import schemes
from lab.exact import added_rows

TOLERANCE = 1e-5  # float32: a property holds if it is met to within this
TEXTS, LENGTH = 4, 24  # tokens
SWAPPED = (5, 16)  # places; not mirror images, or a swap would be half a reversal
SHIFT = 1000  # positions
SHARPNESS = 3.0  # random queries and keys give near uniform attention, which would hide a mistake


@dataclasses.dataclass(frozen=True, kw_only=True)
class Property:
    """A property that a position scheme may have."""

    text: str
    schemes: frozenset[str]  # for which it must hold
    # Distance from holding, for each text or other trial: float [n]. None: not defined for the
    # scheme.
    measure: Callable[[Encoder, Tensor], Tensor | None]


@dataclasses.dataclass(frozen=True)
class Row:
    """Result of testing a property with a scheme."""

    property: str
    scheme: str
    # Distance from holding: a greatest absolute difference, or for swaps a relative one. The text
    # that contradicts the expectation most counts: the furthest if the property must hold, else
    # the nearest.
    delta: float
    holds: bool  # delta is below TOLERANCE
    expected: bool  # whether it must hold


def measure(seed: int = 0) -> list[Row]:
    """Test every property with every scheme.

    The same seed gives the same rows; torch's random state is restored.
    """
    rows = []
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(seed)
        encoders = {scheme: random_encoder(scheme) for scheme in schemes.FIELDS}
        vocabulary = next(iter(encoders.values())).config.vocab_size
        # No token twice in a text.
        ids = torch.stack([torch.randperm(vocabulary)[:LENGTH] for _ in range(TEXTS)])
        for name, each in PROPERTIES.items():
            for scheme, encoder in encoders.items():
                expected = scheme in each.schemes
                deltas = each.measure(encoder, ids)
                if deltas is not None:
                    delta = float(deltas.max() if expected else deltas.min())
                    rows.append(Row(name, scheme, delta, delta < TOLERANCE, expected))
    return rows


def random_encoder(scheme: str) -> Encoder:
    """Return an encoder whose attention is far from uniform.

    Its biases and gains differ from their defaults.
    """
    encoder = Encoder(schemes.config(scheme, max_length=added_rows.ROWS))
    for name, parameter in encoder.named_parameters():
        if parameter.ndim == 1:
            parameter.add_(0.1 * torch.randn_like(parameter))
        if name.endswith("attention.project_in.weight"):
            parameter[: 2 * encoder.config.dim] *= SHARPNESS  # the rows of Q and K
    return encoder.eval()


def encode(encoder: Encoder, ids: Tensor, positions: Tensor | None = None) -> EncoderOutput:
    """Encode with attention weights, in the plain operations that are exported."""
    out: EncoderOutput = encoder(ids, positions=positions, fused=False)
    return out


def moved(encoder: Encoder, ids: Tensor, order: Tensor) -> Tensor:
    """Return the distance of f(reordered x) from reordered f(x), by text.

    Over token vectors and attention.
    """
    plain, changed = encode(encoder, ids), encode(encoder, ids[:, order])
    pairs = [(plain.tokens[:, order], changed.tokens)]
    pairs += [
        (a[:, :, order][..., order], b)
        for a, b in zip(plain.attention, changed.attention, strict=True)
    ]
    return furthest(pairs)


def shifted(encoder: Encoder, ids: Tensor) -> Tensor:
    """Return the distance between a text at position 0 and the same at SHIFT, as in `moved`."""
    places = torch.arange(LENGTH)[None]
    original, moved = encode(encoder, ids, places), encode(encoder, ids, places + SHIFT)
    return furthest(
        [(original.tokens, moved.tokens), *zip(original.attention, moved.attention, strict=True)]
    )


def swapped(encoder: Encoder, ids: Tensor, pooled: bool) -> Tensor:
    """Return the relative change when two tokens swap places, by text.

    Of the pooled vector, or of the vectors of the other tokens.
    """
    order = torch.arange(LENGTH)
    order[list(SWAPPED)] = order[list(reversed(SWAPPED))]
    plain, changed = encode(encoder, ids), encode(encoder, ids[:, order])
    if pooled:
        before, after = plain.pooled, changed.pooled
    else:
        stay = order == torch.arange(LENGTH)
        before, after = plain.tokens[:, stay].flatten(1), changed.tokens[:, stay].flatten(1)
    change: Tensor = torch.linalg.vector_norm(before - after, dim=1) / torch.linalg.vector_norm(
        before, dim=1
    )
    return change


def of_table(
    measure_rows: Callable[[Tensor], Tensor],
) -> Callable[[Encoder, Tensor], Tensor | None]:
    """Return a measurement of the vectors that a scheme adds; None if it adds none."""

    def measure_scheme(encoder: Encoder, _: Tensor) -> Tensor | None:
        return measure_rows(added_rows.added(encoder)) if encoder.positions.adds else None

    return measure_scheme


def furthest(pairs: Sequence[tuple[Tensor, Tensor]]) -> Tensor:
    """Return the greatest absolute difference within the pairs, by text: [B]."""
    return torch.stack([(a - b).abs().flatten(1).amax(1) for a, b in pairs]).amax(0)


PROPERTIES: Mapping[str, Property] = MappingProxyType(
    {
        "permutation": Property(
            text="reordered tokens give the same vectors, reordered",
            schemes=frozenset({"none"}),
            measure=partial(moved, order=torch.arange(LENGTH).view(4, -1).T.flatten()),
        ),
        "reversal": Property(
            text="a reversed text gives the same vectors, reversed",
            schemes=frozenset({"none", "alibi"}),
            measure=partial(moved, order=torch.arange(LENGTH).flip(0)),
        ),
        "shift": Property(
            text=(
                f"a text that begins at position {SHIFT} gives the vectors of one that begins at 0"
            ),
            schemes=frozenset({"none", "rope", "alibi", "alibi signed"}),
            measure=shifted,
        ),
        "swap, pooled": Property(
            text="two tokens that change places leave the pooled vector as it was",
            schemes=frozenset({"none"}),
            measure=partial(swapped, pooled=True),
        ),
        "swap, other tokens": Property(
            text="two tokens that change places leave the vectors of all others as they were",
            schemes=frozenset({"none"}),
            measure=partial(swapped, pooled=False),
        ),
        "linear shift": Property(
            text=(
                "PE(p + k) is the same linear function of PE(p) at every p, p + k below "
                f"{added_rows.ROWS}"
            ),
            schemes=frozenset({"sinusoidal"}),
            measure=of_table(added_rows.unlike_linear),
        ),
        "bounded": Property(
            text="every value of PE is between -1 and 1",
            schemes=frozenset({"sinusoidal"}),
            measure=of_table(added_rows.beyond_one),
        ),
        "repeated": Property(
            text=f"two of the first {added_rows.ROWS} rows of PE are equal",
            schemes=frozenset(),
            measure=of_table(added_rows.closest),
        ),
    }
)
