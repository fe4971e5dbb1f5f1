"""What a served model can be asked for."""

from __future__ import annotations

import dataclasses

from headlight.runtime.bundle.manifest import Architecture
from headlight.runtime.bundle.prompts import Prompts
from headlight.runtime.encode_items import Selection
from headlight.runtime.vectors.vector_forms import Offer
from headlight.spec import SpecialTokens

ATTENTION_OFF = "this server was started with --attention off; GetModel lists the outputs"


@dataclasses.dataclass(frozen=True, slots=True)
class Interface:
    """A model as requests are checked against it."""

    architecture: Architecture
    pooling: str
    accepts: tuple[str, ...]  # of "text", "pair", "ids"
    attend: bool  # whether attention and hidden states can be returned
    offer: Offer  # what pooled vectors can become
    prompts: Prompts
    max_items: int
    max_characters: int  # of one text
    max_length: int  # tokens of one input
    max_tokens: int  # of one request to encode
    max_tokenized: int  # tokens of one request to tokenise
    special_tokens: SpecialTokens = "parse"  # unless a request says otherwise
    # What has been asked for, serialised, and what it came to: see headlight_service.core.requested_outputs.selection.
    selections: dict[bytes, Selection] = dataclasses.field(default_factory=dict, compare=False, repr=False)
