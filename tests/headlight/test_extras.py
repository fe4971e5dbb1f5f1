"""Versions that a failure names."""

from __future__ import annotations

import pytest

from headlight import extras


@pytest.mark.parametrize(
    ("found", "installed"),
    [
        ({"onnxruntime": "1.40.0", "numpy": "2.4.6"}, "onnxruntime 1.40.0, numpy 2.4.6"),
        ({"onnxruntime-gpu": "1.31.1", "numpy": "1.26.0"}, "onnxruntime-gpu 1.31.1, numpy 1.26.0"),
        ({}, "onnxruntime missing, numpy missing"),
    ],
)
def test_the_onnx_runtime_that_computes_is_named(
    found: dict[str, str], installed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extras, "version_of", found.get)
    ranges = extras.RANGES
    tested = f"onnxruntime {ranges['runtime']['onnxruntime']}, numpy {ranges['client']['numpy']}"
    text = extras.versions_text("onnxruntime", "numpy")
    assert text == f"installed: {installed}; tested: {tested}"
