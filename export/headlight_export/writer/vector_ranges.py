"""Ranges of int8 vectors, calibrated on texts like those that the model will see."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from headlight.runtime import Runtime
from headlight.runtime.values import Floats
from headlight.spec import PooledSpec

RANGES = "ranges.npz"
FEWEST = 100  # texts; with fewer, later vectors fall outside too often


def read_texts(path: Path) -> list[str]:
    """Return the non-empty lines of a file.

    Raises:
        ValueError: it is not UTF-8, or holds fewer than FEWEST.
        OSError: it cannot be read.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError:
        raise ValueError(
            f"--calibration {path} is not UTF-8 text; give a file of a text a line"
        ) from None
    texts = [line for line in lines if line.strip()]
    if len(texts) < FEWEST:
        raise ValueError(
            f"--calibration {path} holds {len(texts)} texts; give at least {FEWEST}, a text a line"
        )
    return texts


def write_ranges(
    folder: Path, runtime: Runtime, texts: Sequence[str], widths: Sequence[int]
) -> str:
    """Write each dimension's least and largest value over the texts' vectors, for each width.

    Args:
        folder: of the bundle.
        runtime: for the bundle, with a tokenizer.
        texts: of the kind expected in requests.
        widths: of whole vectors, and those that shorter ones were trained for.

    Returns:
        The file's name.
    """
    arrays: dict[str, Floats] = {}
    for width in sorted(set(widths)):
        results = runtime.encode_items(
            texts, pooled=PooledSpec(dimensions=width), truncation="cut_end"
        )
        vectors = np.stack([result["pooled"] for result in results])
        arrays[f"int8_{width}"] = np.stack((vectors.min(axis=0), vectors.max(axis=0))).astype(
            np.float32
        )
    # Its stub takes the second argument for a flag.
    np.savez(folder / RANGES, **arrays)  # type: ignore[arg-type]
    return RANGES
