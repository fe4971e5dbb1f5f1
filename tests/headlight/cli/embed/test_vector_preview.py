"""Vectors in a terminal: one line each, which fits its columns."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from headlight.analysis.terminal_view import cells
from headlight.cli.embed.embed_output import as_preview
from headlight.cli.embed.job_checkpoint import Rows
from headlight.interface.arguments import Input
from headlight.results import Embeddings, ModelRef

MODEL = ModelRef("fake", "1", "ab" * 32, "cpu", "fp32")


def shown(
    vectors: NDArray[Any], inputs: Sequence[Input], width: int, name: str = "float32"
) -> list[str]:
    counts = np.full(len(vectors), 3)
    found = Embeddings({name: vectors}, counts, counts, counts, MODEL)  # type: ignore[dict-item]
    rows = Rows(io.BytesIO(), found)
    rows.append(list(inputs), found, {})
    return "".join(as_preview(rows, inputs, width)).splitlines()


def test_a_line_has_the_text_the_first_numbers_the_dimensions_and_the_norm() -> None:
    vectors = np.full((2, 256), 1 / 16, np.float32)
    vectors[1] = -vectors[1]
    assert shown(vectors, ["join two paths", "a\nb"], 80) == [
        "join two paths   0.0625  0.0625  0.0625  0.0625 … 256 dimensions, norm 1",
        "a↵b             -0.0625 -0.0625 -0.0625 -0.0625 … 256 dimensions, norm 1",
    ]


@pytest.mark.parametrize("width", [80, 120, 200])
@pytest.mark.parametrize("text", ["a", "日本語のテキスト" * 9, "word " * 99], ids=len)
def test_a_line_fits_the_columns(width: int, text: str) -> None:
    [line] = shown(np.full((1, 768), -12.5, np.float32), [text], width)
    assert width - 9 < cells(line) <= width


def test_whole_numbers_and_ids_are_shown_as_they_are() -> None:
    assert shown(np.array([[-128, 7, 127]], np.int8), [[2, 70, 3]], 80, "int8") == [
        "2 70 3  -128    7  127 … 3 dimensions, int8"
    ]
    assert shown(np.array([[255, 0]], np.uint8), ["a"], 80, "ubinary") == [
        "a   255    0 … 16 dimensions, ubinary"
    ]
    assert shown(np.array([[-2e9]], np.float32), ["a"], 80) == [
        "a   -2e+09 … 1 dimension, norm 2e+09"
    ]
    assert shown(np.array([[1000.0, -0.5]], np.float32), ["a"], 80) == [
        "a  1000.00 -0.5000 … 2 dimensions, norm 1000"
    ]
