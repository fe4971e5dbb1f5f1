"""Text around a query and a document that a model reads as one text, as in a chat.

A manifest has it as `pair_template`. Rerankers that are decoders have one.
"""

from __future__ import annotations

import dataclasses

LONGEST_TEMPLATE = 1 << 14  # characters; it is tokenised again with each document


@dataclasses.dataclass(frozen=True, slots=True)
class PairTemplate:
    """Parts of the text.

    Attributes:
        plain: before the query, between query and document, and behind the document.
        prompted: the same with a prompt between the first two; empty: it has no place for one.
    """

    plain: tuple[str, ...]
    prompted: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if len(self.plain) != 3 or len(self.prompted) not in (0, 4):
            raise ValueError("pair_template must have 3 parts, or 4 around a prompt")
        if sum(map(len, (*self.plain, *self.prompted))) > LONGEST_TEMPLATE:
            raise ValueError(f"pair_template has more than {LONGEST_TEMPLATE} characters")

    def pieces(self, pair: tuple[str, str], prompt: str = "") -> tuple[tuple[bool, str], ...]:
        """Return the pieces of the text: whether each is the template's, and the piece."""
        first, second = pair
        if prompt and self.prompted:
            head, before, between, behind = self.prompted
            start = ((True, head), (False, prompt), (True, before))
        else:
            before, between, behind = self.plain
            start = ((True, ""), (False, ""), (True, before))
        return (*start, (False, first), (True, between), (False, second), (True, behind))
