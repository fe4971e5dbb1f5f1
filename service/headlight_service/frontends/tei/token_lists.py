"""Tokens of several texts as JSON, as text-embeddings-inference has them."""

from __future__ import annotations

from collections.abc import Iterable

import orjson

from headlight.description import Limits
from headlight.errors import InvalidInput, Reason
from headlight.results import ModelRef, TokenList
from headlight_service.frontends.tei.token_table import token_rows


class TokenLists:
    """Tokens of several texts as JSON; a TokensForm of the core."""

    def __init__(self, limits: Limits, texts: list[str], *, add_special_tokens: bool) -> None:
        """Prepare; the parameters are as for `TokensMessage` of the gRPC frontend."""
        self._limit_bytes = limits.max_unary_response_bytes
        self._texts, self._add = texts, add_special_tokens

    def encode(self, ref: ModelRef, tokens: Iterable[TokenList], inputs: int) -> bytes:
        """Return the answer. Raises InvalidInput once it is too large, and reads no more tokens."""
        parts, size = list[bytes](), 2
        for text, listed in zip(self._texts, tokens, strict=True):
            rows = token_rows(text, listed, add_special_tokens=self._add)
            parts.append(orjson.dumps([row._asdict() for row in rows]))
            size += len(parts[-1]) + 1
            if size > self._limit_bytes:
                raise InvalidInput(
                    "inputs",
                    Reason.TOKENS_BYTES,
                    done=len(parts),
                    inputs=inputs,
                    size=size,
                    most=self._limit_bytes,
                )
        return b"[" + b",".join(parts) + b"]"
