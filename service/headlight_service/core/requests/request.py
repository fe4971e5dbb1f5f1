"""Requests of the core: plain values, independent of protocols."""

from __future__ import annotations

import dataclasses
import math
from array import array
from typing import Any, NamedTuple

from headlight.comparison import CompareSpec
from headlight.runtime.tokenization.input_checks import Truncation
from headlight.runtime.values import Floats
from headlight.spec import (
    EmptyTexts,
    InputRole,
    Priority,
    SpecialTokens,
    TokenChoice,
)


class Pair(NamedTuple):
    """Two texts that the model reads as one sequence."""

    first: str
    second: str


class TokenIds(NamedTuple):
    """Token ids, with a segment for each or with none. Arrays: 8 bytes each; a tuple takes 40."""

    ids: array[int]
    segments: array[int]


Input = str | Pair | TokenIds
ID_BYTES = 8


class OutputSpec:
    """The requested outputs.

    Compared by identity: the resolved form lives as long as the object. If a frontend keeps common
    objects, they are resolved once.

    Attributes:
        specs: the spec of each output by name, as `headlight.runtime.Runtime.select` takes them.
        token_info: whether to describe the tokens.
    """

    __slots__ = ("__weakref__", "specs", "token_info")

    def __init__(self, pooled: Any = True, *, token_info: bool = False, **specs: Any) -> None:
        self.specs = {"pooled": pooled, **specs}
        self.token_info = token_info


VECTORS = OutputSpec()


@dataclasses.dataclass(slots=True)
class Request:
    """Inputs to encode.

    Attributes:
        inputs: texts, pairs of texts or token ids.
        outputs: the requested outputs.
        model: key of the model that the request was decoded for; or a name; empty: the default one.
        size_bytes: size of the message that carried the request.
        deadline: deadline on time.monotonic; infinity for none.
        priority: interactive or bulk.
        client: its caller, who owns a quota and shares: the name of a token or a certificate, else
            an address.
        prompt_name: one of the model's prompts, put before texts; None: the model's default.
        prompt_text: the prompt itself; empty: none.
        truncation: treatment of a text that is too long; None: as the service is configured.
        special_tokens: reading of special tokens spelled out in a text; None: as the service is
            configured.
        empty_texts: treatment of an empty text; None: as the service is configured.
        role: what the inputs are to a search; None: not set.
        head_masks: mask of each input, float32 [L, H]; None: no input has one.
        dry_run: whether to only check and tokenise, and not to compute.
        waits: whether the request waits for queue tokens and answer bytes, until its deadline,
            instead of being shed. If its quota or the request bytes are used up, it is shed.
    """

    inputs: list[Input]
    outputs: OutputSpec = VECTORS
    model: str = ""
    size_bytes: int = 0
    deadline: float = math.inf
    priority: Priority = "interactive"
    client: str = ""
    prompt_name: str | None = None
    prompt_text: str | None = None
    truncation: Truncation | None = None
    special_tokens: SpecialTokens | None = None
    head_masks: list[Floats | None] | None = None
    dry_run: bool = False
    waits: bool = False
    empty_texts: EmptyTexts | None = None
    role: InputRole | None = None

    @property
    def held_bytes(self) -> int:
        """Bytes that it holds: of its message, or of its ids, which a message packs closer."""
        ids = sum([len(each.ids) for each in self.inputs if isinstance(each, TokenIds)])
        return max(self.size_bytes, ID_BYTES * ids)


@dataclasses.dataclass(slots=True)
class OcclusionRequest(Request):
    """One input, whose vector is compared with its vectors with one token hidden.

    Attributes:
        inputs: the input, and the target if that is a text.
        hidden: the tokens to hide, one at a time; None: all that are not special.
        target: a vector to compare with, float32 [pooled_dim]; None: none, or a text.
    """

    hidden: TokenChoice | None = None
    target: Floats | None = None

    @property
    def has_target(self) -> bool:
        """Whether there is a target, a vector or a text."""
        return self.target is not None or len(self.inputs) > 1


@dataclasses.dataclass(slots=True)
class ComparisonRequest(Request):
    """A query, the first input, and passages to compare with it; or pairs of both.

    The prompt of the request is that of the passages.

    Attributes:
        spec: what to return besides scores.
        query_prompt_name, query_prompt_text: prompt of the query.
    """

    spec: CompareSpec = dataclasses.field(default_factory=CompareSpec)
    query_prompt_name: str | None = None
    query_prompt_text: str | None = None

    @property
    def of_pairs(self) -> bool:
        """Whether its inputs are pairs of the query and a passage."""
        return isinstance(self.inputs[0], Pair)
