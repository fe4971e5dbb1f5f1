"""Distance from PyTorch: one definition for the exporter's report, the start-up gate and the tests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from headlight.errors import BundleError, EngineError
from headlight.runtime.bundle import Bundle
from headlight.runtime.engine import Engine
from headlight.runtime.items import EncodeItem, ItemResult, Selection, everything
from headlight.runtime.values import Floats

OUTPUTS = ("pooled", "tokens", "attention", "hidden")
# Rows of a residual stream grow with depth, and rounding with them; attention and pooled rows are bounded by 1.
SCALED_BY_ROW = ("tokens", "hidden")
SMALL = (
    "ids",
    "segments",
    "pooled",
    "tokens",
)  # of the golden arrays: of a deep model, all others take a hundred times as much

Golden: TypeAlias = Mapping[str, NDArray[Any]]  # what golden.npz holds, by name: see `check_golden`


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


def load_golden(bundle: Bundle) -> Golden:
    """The bundle's golden inputs and their answers. Raises BundleError where they are none, or not those of such a model."""
    name = bundle.manifest.golden
    try:
        with bundle.file(name).open("rb") as file, np.load(file, allow_pickle=False) as golden:
            arrays: dict[str, NDArray[Any]] = {key: golden[key] for key in golden.files}
    except Exception:  # NumPy and zipfile raise many types for bytes that are not theirs
        raise BundleError("is not an archive of plain arrays", name) from None
    count = sum(key.startswith("ids_") for key in arrays)
    if not count or not {f"{output}_{i}" for i in range(count) for output in ("ids", *OUTPUTS)} <= arrays.keys():
        raise BundleError("does not hold inputs and all their answers", name)
    for index in range(count):
        _check_arrays(arrays, index, bundle)
    return arrays


def small(golden: Golden) -> Golden:
    """The inputs, and of their answers the vectors: enough for a later look at whether an engine still computes them."""
    return {name: array for name, array in golden.items() if name.rpartition("_")[0] in SMALL}


def _check_arrays(arrays: Mapping[str, NDArray[Any]], index: int, bundle: Bundle) -> None:
    """Raises BundleError unless an input and its answers have the types and shapes of the manifest's architecture."""
    manifest = bundle.manifest
    layers, heads, dim = (getattr(manifest.architecture, name) for name in ("layers", "heads", "dim"))
    n = arrays[f"ids_{index}"].size
    shapes = {"ids": (n,), "segments": (n,), "pooled": (manifest.architecture.pooled_dim,), "tokens": (n, dim)}
    shapes |= {"attention": (layers, heads, n, n), "hidden": (layers + 1, n, dim)}
    for output, shape in shapes.items():
        array = arrays.get(f"{output}_{index}")
        if array is None:  # segments alone may be left out
            continue
        kind = np.floating if output in OUTPUTS else np.integer
        if array.shape != shape or not np.issubdtype(array.dtype, kind):
            have = f"{output}_{index} holds {array.dtype} in the shape {array.shape}"
            raise BundleError(f"{have:.200}; the manifest makes it {kind.__name__} in {shape}", manifest.golden)
    counts = {"ids": manifest.architecture.vocab_size, "segments": max(1, manifest.architecture.segments)}
    for output, count in counts.items():
        array = arrays.get(f"{output}_{index}")
        if array is not None and not (1 <= n <= manifest.max_length and array.min() >= 0 and array.max() < count):
            raise BundleError(f"{output}_{index} is no input that the manifest allows", manifest.golden)


def check_golden(bundle: Bundle, engine: Engine, provider: str, precision: str, golden: Golden) -> None:
    """Run the bundle's golden inputs on the engine and compare with what PyTorch gave.

    golden.npz holds, for i = 0, 1, ..., `ids_i` int64 [n] and `pooled_i` [D], `tokens_i` [n, D], `attention_i` [L, H, n, n],
    `hidden_i` [L+1, n, D], all float32, and `segments_i` int64 [n] where the model knows segments. All inputs go in one padded
    batch, so masking is checked too. Where `golden` is but `small`, so is what is compared.

    Raises:
        BundleError: an output is outside the tolerance declared for the provider and precision; it must not be served.
    """
    tolerance = bundle.manifest.tolerance(provider, precision)
    for file, name, error in golden_errors(bundle, engine, provider, precision, golden):
        if not error <= tolerance.of(name):
            problem = (
                f"golden {name} is off by {error:.3g} on {provider}/{precision}, tolerance {tolerance.of(name):.3g}"
            )
            raise BundleError(problem, file)


def golden_errors(
    bundle: Bundle, engine: Engine, provider: str, precision: str, golden: Golden
) -> Iterator[tuple[str, str, float]]:
    """Run the golden inputs: (file of the graph, output, distance) for each answer of each graph that is loaded.

    Raises:
        BundleError: a graph cannot run them, or its numbers are not finite.
    """
    count = sum(name.startswith("ids_") for name in golden)
    selections = [everything(engine.architecture)] if "attend" in engine.roles else []
    for selection in (Selection(tokens=True), *selections):
        wanted = OUTPUTS if selection.role == "attend" else ("pooled", "tokens")
        outputs = [name for name in wanted if f"{name}_0" in golden]
        file = bundle.manifest.graph(selection.role, provider, precision).file
        try:
            results = engine.run([_golden_item(golden, i, selection) for i in range(count)])
        except EngineError:
            raise BundleError("cannot run the golden inputs, or gives no finite numbers for them", file) from None
        for i, result in enumerate(results):
            for name, error in distances(result, {name: golden[f"{name}_{i}"] for name in outputs}).items():
                yield file, name, error


def check_vocabulary(bundle: Bundle, engine: Engine, provider: str, precision: str) -> None:
    """The graphs must know the highest id and segment that the manifest allows: requests are checked against the manifest.

    Raises:
        BundleError: one does not.
    """
    architecture = bundle.manifest.architecture
    highest, segments = np.array([architecture.vocab_size - 1]), np.array([max(0, architecture.segments - 1)])
    for selection in (Selection(), everything(architecture)):
        if selection.role not in engine.roles:
            continue
        try:
            engine.run([EncodeItem(highest, selection, segments)])
        except EngineError:
            problem = f"does not know id {highest[0]}, the last of the manifest's vocabulary, or segment {segments[0]}"
            raise BundleError(problem, bundle.manifest.graph(selection.role, provider, precision).file) from None


def _golden_item(golden: Golden, index: int, selection: Selection) -> EncodeItem:
    segments = golden.get(f"segments_{index}")
    ids = golden[f"ids_{index}"].astype(np.int64)
    return EncodeItem(ids, selection, None if segments is None else segments.astype(np.int64))
