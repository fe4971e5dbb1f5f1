"""Distance from PyTorch: one definition for the exporter's report, the start-up gate and the tests."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headlight.errors import BundleError, EngineError
from headlight.runtime.bundle import Bundle
from headlight.runtime.engine import Engine
from headlight.runtime.values import EncodeItem, Floats, ItemResult, Selection

OUTPUTS = ("pooled", "tokens", "attention", "hidden")
# Rows of a residual stream grow with depth, and rounding with them; attention and pooled rows are bounded by 1.
SCALED_BY_ROW = ("tokens", "hidden")


def distance(output: str, got: Floats, expected: Floats) -> float:
    """max |got - expected|; for tokens and hidden, over max(1, RMS of the expected row). Shapes must be equal; NaN gives infinity."""
    difference = np.abs(got.astype(np.float64) - expected.astype(np.float64))
    if output in SCALED_BY_ROW:
        rms = np.sqrt(np.mean(expected.astype(np.float64) ** 2, axis=-1, keepdims=True))
        difference = difference / np.maximum(1.0, rms)
    worst = float(difference.max(initial=0.0))
    return worst if np.isfinite(worst) else float("inf")


def distances(got: ItemResult, expected: Mapping[str, Floats]) -> dict[str, float]:
    """The distance of every output in `expected`, by name. `expected` has the shapes of ItemResult."""
    return {name: distance(name, getattr(got, name), value) for name, value in expected.items()}


def everything(layers: int) -> Selection:
    """All outputs of an encoder of `layers` blocks."""
    return Selection(True, True, tuple(range(layers)), tuple(range(layers + 1)))


def _load_golden(bundle: Bundle) -> dict[str, NDArray[Any]]:
    name = bundle.manifest.golden
    try:
        with bundle.file(name).open("rb") as file, np.load(file, allow_pickle=False) as golden:
            arrays: dict[str, NDArray[Any]] = {key: golden[key] for key in golden.files}
    except (OSError, ValueError, EOFError, AttributeError, zipfile.BadZipFile):
        raise BundleError("is not an archive of plain arrays", name) from None
    count = sum(key.startswith("ids_") for key in arrays)
    if not count or not {f"{output}_{i}" for i in range(count) for output in ("ids", *OUTPUTS)} <= arrays.keys():
        raise BundleError("does not hold inputs and all their answers", name)
    return arrays


def check_golden(bundle: Bundle, engine: Engine, provider: str, precision: str) -> None:
    """Run the bundle's golden inputs on the engine and compare with what PyTorch gave.

    golden.npz holds, for i = 0, 1, ..., `ids_i` int64 [n] and `pooled_i` [D], `tokens_i` [n, D], `attention_i` [L, H, n, n],
    `hidden_i` [L+1, n, D], all float32, and `segments_i` int64 [n] where the model knows segments. All inputs go in one padded
    batch, so masking is checked too.

    Raises:
        BundleError: an output is outside the tolerance declared for the provider and precision; it must not be served.
    """
    tolerance = bundle.manifest.tolerance(provider, precision)
    arrays = _load_golden(bundle)
    count = sum(name.startswith("ids_") for name in arrays)
    layers = engine.architecture.layers
    selections = [everything(layers)] if "attend" in engine.roles else []
    for selection in (Selection(tokens=True), *selections):
        outputs = OUTPUTS if selection.role == "attend" else ("pooled", "tokens")
        file = bundle.manifest.graph(selection.role, provider, precision).file
        try:
            results = engine.run([_golden_item(arrays, i, selection) for i in range(count)])
        except EngineError:
            raise BundleError("cannot run the golden inputs, or gives no finite numbers for them", file) from None
        for i, result in enumerate(results):
            for name, error in distances(result, {name: arrays[f"{name}_{i}"] for name in outputs}).items():
                if not error <= tolerance.of(name):
                    problem = f"golden {name} is off by {error:.3g} on {provider}/{precision}, tolerance {tolerance.of(name):.3g}"
                    raise BundleError(problem, file)


def _golden_item(arrays: Mapping[str, NDArray[Any]], index: int, selection: Selection) -> EncodeItem:
    segments = arrays.get(f"segments_{index}")
    ids = arrays[f"ids_{index}"].astype(np.int64)
    return EncodeItem(ids, selection, None if segments is None else segments.astype(np.int64))
