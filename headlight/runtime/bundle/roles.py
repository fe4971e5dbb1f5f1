"""Rules for tokens of queries and of documents.

A manifest has them as `roles`. ColBERT (Khattab & Zaharia 2020, section 3.2): a marker behind the
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
        expansion: id that fills an input up to `expanded_length` tokens, each with a vector; None:
            none does.
        expanded_length: tokens of an input that is filled up, at least.
        attend_to_expansion: whether other tokens see those.
        skiplist: ids without a vector.
    """

    max_length: int = 0
    marker: int | None = None
    expansion: int | None = None
    expanded_length: int = 0
    attend_to_expansion: bool = False
    skiplist: tuple[int, ...] = ()
