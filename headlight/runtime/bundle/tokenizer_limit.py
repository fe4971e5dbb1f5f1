"""What a manifest says of the cost of its tokenizer."""

from __future__ import annotations

import dataclasses

from headlight.errors import BundleError
from headlight.runtime.bundle.manifest_fields import MANIFEST, Fields

MOST_CHARACTERS = 1 << 20  # no text is probed beyond it, unless a model needs longer ones
LARGEST_LIMIT = 1 << 22  # what the longest model that a manifest may describe needs


@dataclasses.dataclass(frozen=True, kw_only=True)
class TokenizerLimit:
    """The longest text that a tokenizer reads at a bounded cost, as measured by `headlight.runtime.tokenization.tokenizer_probe`."""

    max_characters: int
    worst: str  # the kind of text that cost most, as tokenizer_probe names it
    worst_ms_per_1000_characters: float  # of one core; informative


def tokenizer_limit(fields: Fields) -> TokenizerLimit:
    """Return the manifest's `tokenizer_limit`. Raises BundleError naming the field at fault."""
    name = "worst_ms_per_1000_characters"
    cost = fields.take(name, float)
    if not 0 <= cost < float("inf"):
        raise BundleError(f"{fields.path}{name} is {cost}; expected at least 0", MANIFEST)
    return TokenizerLimit(
        max_characters=fields.count("max_characters", LARGEST_LIMIT),
        worst=fields.take("worst", str),
        worst_ms_per_1000_characters=cost,
    )
