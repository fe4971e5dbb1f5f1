"""How a model with a vector for each token reads queries and documents.

A manifest has it as `roles`. ColBERT (Khattab & Zaharia 2020, section 3.2): a marker behind the
first token, queries filled up with a token that no other sees, documents without the vectors of
punctuation.
"""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RoleRules:
    """Rules of one role.

    Attributes:
        max_length: tokens, with the marker; 0: as many as the model takes.
        marker: id that goes behind the first token; None: none.
        filler: id that fills an input up to `filled` tokens; None: none does. Each has a vector.
        filled: tokens of an input that is filled up, at least.
        attends: whether tokens see those that fill up.
        skipped: ids without a vector.
    """

    max_length: int = 0
    marker: int | None = None
    filler: int | None = None
    filled: int = 0
    attends: bool = False
    skipped: tuple[int, ...] = ()
