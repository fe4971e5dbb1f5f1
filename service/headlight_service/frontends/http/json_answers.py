"""Answers as JSON: their sizes for the core, vectors as lists of numbers or base64."""

from __future__ import annotations

from typing import Any

import orjson
from numpy.typing import NDArray

from headlight.description import Limits
from headlight.errors import InvalidInput, Phrase, Reason
from headlight.results import ModelRef
from headlight_service.core.requests.answer import Prepared
from headlight_service.frontends.contract.json_answer_forms import base64_text, number_text

# Bytes that are sent for a byte of float32 data: shortest decimals that read back exactly, with
# a comma, measured on normalised vectors of up to 4,096 dimensions; base64 has 4 characters for 3
# bytes.
DECIMAL, BASE64 = 3.2, 4 / 3
ITEM_BYTES = 64  # of JSON around one item's numbers
BODY_BYTES = 512  # of JSON around all


class JsonForm:
    """Size of an answer in JSON; an AnswerForm of the core."""

    def __init__(self, limits: Limits, expansion: float = DECIMAL) -> None:
        """Store the limit of an answer, and the bytes sent for each byte of its data."""
        self._limit_bytes = limits.max_stream_output_bytes
        self._expansion = expansion

    def overhead_bytes(self, ref: ModelRef, prepared: Prepared, details: object = None) -> int:
        """Return the bytes besides the data. Raises InvalidInput: the answer is too large."""
        size = prepared.data_bytes
        if size > self._limit_bytes:
            fits = prepared.what_fits(self._limit_bytes)
            raise InvalidInput(
                prepared.largest,
                Reason.ANSWER_BYTES,
                size=size,
                most=self._limit_bytes,
                remedy=Phrase.FEWER_INPUTS_OR_LESS,
                **fits,
            )
        return int(size * (self._expansion - 1)) + ITEM_BYTES * len(prepared.items) + BODY_BYTES


def base64_of(array: NDArray[Any]) -> str:
    """Return the numbers of an array as base64 of little-endian bytes, without a header."""
    return base64_text([array])


def lists_of(array: NDArray[Any]) -> orjson.Fragment:
    """Return the numbers of an array as nested lists of JSON."""
    return orjson.Fragment(number_text(array))
