"""A bundle's golden inputs, what PyTorch answered, and the distance of other answers from that.

docs/bundle.md has the names of the arrays. The exporter's report, the start-up self-test and the tests share the distance.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headlight.errors import BundleError
from headlight.runtime.bundle.bundle import Bundle
from headlight.runtime.bundle.file_contents import plain_arrays
from headlight.runtime.bundle.manifest import Manifest
from headlight.runtime.encode_items import EncodeItem, ItemResult, Selection
from headlight.runtime.values import Floats, Ids

MASKED = "masked_"  # before the names of inputs of which not all is looked at; bundles of an earlier export have none
OUTPUTS = ("pooled", "tokens", "attention", "hidden")
# Rows of a residual stream grow with depth, and rounding with them; attention and pooled rows are bounded by 1.
SCALED_BY_ROW = ("tokens", "hidden")
VECTORS = ("pooled", "tokens")
Arrays = Mapping[str, NDArray[Any]]


class Golden(NamedTuple):
    """One input and PyTorch's answers.

    Attributes:
        ids, segments, occluded, left_out: of its EncodeItem.
        answers: by output, float32 in the shapes of ItemResult.
    """

    ids: Ids
    segments: Ids | None
    answers: Mapping[str, Floats]
    occluded: int | None = None
    left_out: int = 0

    @property
    def about(self) -> str:
        """What of it is not looked at, for an error; mostly empty."""
        return "with a token hidden" if self.occluded is not None else "with a prompt left out" if self.left_out else ""

    def item(self, selection: Selection) -> EncodeItem:
        """As the engine takes it."""
        return EncodeItem(self.ids, selection, self.segments, occluded=self.occluded, left_out=self.left_out)


def load_golden(bundle: Bundle) -> tuple[Golden, ...]:
    """The bundle's golden inputs. Raises BundleError where they are none, or not those of such a model."""
    name = bundle.manifest.golden
    arrays = plain_arrays(bundle.contents(name).data, name)
    found = [
        _read(arrays, kind, index, bundle.manifest)
        for kind in ("", MASKED)
        for index in range(sum(key.startswith(f"{kind}ids_") for key in arrays))
    ]
    if not found or found[0].about:
        raise BundleError("does not hold inputs and all their answers", name)
    return tuple(found)


def vectors_alone(golden: tuple[Golden, ...]) -> tuple[Golden, ...]:
    """The plain inputs with their vectors: enough for a later look at whether an engine still computes them.

    Of a deep model, all other answers take a hundred times as much.
    """
    plain = (each for each in golden if not each.about)
    return tuple(each._replace(answers={name: each.answers[name] for name in VECTORS}) for each in plain)


def _read(arrays: Arrays, kind: str, index: int, manifest: Manifest) -> Golden:
    """One input of a kind. Raises BundleError unless it is there as a whole, and such as the manifest's model takes and gives."""
    names = ("ids", "segments", "occluded", "left_out", *OUTPUTS)
    own = {name: arrays[key] for name in names if (key := f"{kind}{name}_{index}") in arrays}
    if not {"ids", *OUTPUTS} <= own.keys():
        raise BundleError("does not hold inputs and all their answers", manifest.golden)
    _check(own, f"{kind}*_{index}", manifest)
    segments = own.get("segments")
    return Golden(
        own["ids"].astype(np.int64),
        None if segments is None else segments.astype(np.int64),
        {name: own[name] for name in OUTPUTS},
        int(own["occluded"]) if "occluded" in own else None,
        int(own.get("left_out", 0)),
    )


def _check(own: Arrays, where: str, manifest: Manifest) -> None:
    """Raises BundleError unless the arrays of an input have the types, shapes and values that the manifest allows."""
    layers, heads, dim = (getattr(manifest.architecture, name) for name in ("layers", "heads", "dim"))
    n = own["ids"].size
    shapes = {"ids": (n,), "segments": (n,), "pooled": (manifest.architecture.pooled_dim,), "tokens": (n, dim)}
    shapes |= {"attention": (layers, heads, n, n), "hidden": (layers + 1, n, dim), "occluded": (), "left_out": ()}
    for name, array in own.items():
        kind, shape = np.floating if name in OUTPUTS else np.integer, shapes[name]
        if array.shape != shape or not np.issubdtype(array.dtype, kind):
            have = f"{name} of {where} holds {array.dtype} in the shape {array.shape}"
            raise BundleError(f"{have:.200}; the manifest makes it {kind.__name__} in {shape}", manifest.golden)
    counts = {"ids": manifest.architecture.vocab_size, "segments": max(1, manifest.architecture.segments)}
    for name, count in (counts | {"occluded": n, "left_out": n}).items():
        array = own.get(name, np.zeros(1))
        if not (1 <= n <= manifest.max_length and array.min() >= 0 and array.max() < count):
            raise BundleError(f"{name} of {where} is no input that the manifest allows", manifest.golden)


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
