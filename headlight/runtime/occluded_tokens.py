"""Tokens that an occlusion hides, one at a time."""

from __future__ import annotations

import numpy as np

from headlight.errors import InvalidInput, Reason
from headlight.outputs.maps.resolved_spec import check_tokens, is_one_token
from headlight.outputs.maps.token_units import pooled_token, select
from headlight.runtime.values import Ids, Tokenized
from headlight.spec import TokenChoice


def hidden_tokens(choice: TokenChoice | None, pooling: str, tokenized: Tokenized) -> Ids:
    """Return the tokens to hide: int64 [m], m >= 1. Raises InvalidInput, naming the field."""
    info, length = tokenized.info, len(tokenized.ids)
    vector = pooled_token(pooling, length, tokenized.left_out)
    if info is None:
        raise RuntimeError("an input was prepared without its tokens. This is a bug.")
    tokens = np.flatnonzero(~np.array(info.special))
    if choice is not None:
        check_tokens("tokens", choice, pooling)
        chosen = select("tokens", choice, length, info, vector)
        tokens = np.arange(length) if chosen is None else chosen
    if is_one_token(pooling):
        if choice not in (None, "all") and vector in tokens:
            raise InvalidInput("tokens", Reason.POOLED_TOKEN_HIDDEN, token=vector)
        tokens = tokens[tokens != vector]
    # The prompt, which pooling leaves out, does not count.
    if not len(tokens) or (length - tokenized.left_out == 1 and length - 1 in tokens):
        raise InvalidInput("tokens", Reason.NOTHING_LEFT)
    return tokens
