"""Golden inputs of a bundle, with PyTorch's answers, which the service checks at each start.

docs/bundle.md has their names.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from headlight.runtime.parity.golden_inputs import MASKED
from headlight.runtime.values import Ids
from headlight_export.parity.reference import (
    WHOLE,
    Masks,
    Reference,
    masks_to_try,
    random_ids,
    random_segments,
)
from headlight_export.precision.sample_texts import Passages

LENGTHS = (1, 6, 17, 40)
MASKED_LENGTH = 17
TEXTS, LONGEST_TEXT = 4, 48  # real texts to add; tokens
Arrays = dict[str, Any]


def write_golden(file: Path, reference: Reference) -> None:
    """Write random ids of a few lengths, and some more with ignored tokens."""
    config, arrays = reference.encoder.config, Arrays()
    lengths = [n for n in LENGTHS if n <= config.max_length]
    for i, length in enumerate(lengths):
        arrays |= _named(
            "", i, reference, random_ids(config, length, i), random_segments(config, length, i)
        )
    length = min(MASKED_LENGTH, config.max_length)
    for i, masks in enumerate(masks_to_try(config, length).values()):
        seed = len(LENGTHS) + i
        ids, segments = random_ids(config, length, seed), random_segments(config, length, seed)
        arrays |= _named(MASKED, i, reference, ids, segments, masks)
    if config.dense:
        means = np.stack([arrays[f"tokens_{i}"].mean(axis=0) for i in range(len(lengths))])
        arrays |= {"head_vectors": means, "head_answers": reference.head(means)}
    np.savez(file, **arrays)


def extend_golden(file: Path, reference: Reference, sample: Passages) -> None:
    """Add a few of the texts, with PyTorch's answers, to the random ids."""
    with np.load(file) as golden:
        arrays: Arrays = dict(golden)
    first = sum(name.startswith("ids_") for name in arrays)
    short = [text for text in sample.items if len(text.ids) <= LONGEST_TEXT] or list(
        sample.items[:1]
    )
    for i, text in enumerate(short[:: max(1, len(short) // TEXTS)][:TEXTS], first):
        arrays |= _named("", i, reference, text.ids, text.segments)
    np.savez(file, **arrays)


def _named(
    kind: str,
    index: int,
    reference: Reference,
    ids: Ids,
    segments: Ids | None,
    masks: Masks = WHOLE,
) -> Arrays:
    """Return an input and its answers, by their names in the file."""
    arrays = Arrays(ids=ids) | reference.outputs(ids, segments, masks=masks)
    if segments is not None:
        arrays["segments"] = segments
    if masks.occluded is not None:
        arrays["occluded"] = np.array(masks.occluded)
    if masks.left_out:
        arrays["left_out"] = np.array(masks.left_out)
    return {f"{kind}{name}_{index}": value for name, value in arrays.items()}
