"""Answers as JSON: their sizes for the core, vectors as lists of numbers or base64."""

from __future__ import annotations

from collections.abc import Sequence
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
BYTE = 5.0  # of "-128,", the longest number of one byte
ITEM_BYTES = 64  # of JSON around one item's numbers
LABEL_BYTES = 24  # of JSON around one label and its score
BODY_BYTES = 512  # of JSON around all


class JsonForm:
    """Size of an answer in JSON; an AnswerForm of the core.

    Attributes:
        size: bytes of the answer, once it is computed.
    """

    def __init__(
        self,
        limits: Limits,
        expansion: float = DECIMAL,
        labels: Sequence[str] = (),
        beside_bytes: int = 0,
    ) -> None:
        """Store the limit of an answer, and what it has.

        `expansion`: bytes sent for each byte of its data. `labels`: names beside each input's
        scores. `beside_bytes`: sent besides, such as the texts.
        """
        self._limit_bytes = limits.max_stream_output_bytes
        self._expansion, self._beside_bytes = expansion, beside_bytes
        self._label_bytes = sum(LABEL_BYTES + len(orjson.dumps(name)) for name in labels)
        self.size = 0

    def overhead_bytes(self, ref: ModelRef, prepared: Prepared, details: object = None) -> int:
        """Return the bytes besides the data. Raises InvalidInput: the answer is too large."""
        of_labels = self._label_bytes * len(prepared.inputs)
        size = prepared.data_bytes + of_labels
        if size > self._limit_bytes:
            fits: dict[str, Any] = {"fits": ""}
            if not of_labels:
                fits = prepared.what_fits(self._limit_bytes)
            raise InvalidInput(
                "inputs" if of_labels else prepared.largest,
                Reason.ANSWER_BYTES,
                size=size,
                most=self._limit_bytes,
                remedy=Phrase.FEWER_INPUTS_OR_LESS,
                **fits,
            )
        overhead = int(prepared.data_bytes * (self._expansion - 1)) + of_labels
        overhead += ITEM_BYTES * len(prepared.items) + BODY_BYTES + self._beside_bytes
        self.size = prepared.data_bytes + overhead
        return overhead


def base64_of(array: NDArray[Any]) -> str:
    """Return the numbers of an array as base64 of little-endian bytes, without a header."""
    return base64_text([array])


def lists_of(array: NDArray[Any]) -> orjson.Fragment:
    """Return the numbers of an array as nested lists of JSON."""
    return orjson.Fragment(number_text(array))
