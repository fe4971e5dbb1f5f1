"""A bundle's golden inputs, what PyTorch answered, and the distance of other answers from that.

docs/bundle.md has the names of the arrays. The exporter's report, the start-up self-test and the tests share the distance.

Whole maps of attention leave a graph by one of five ways (`headlight.runtime.attention.graph_selectors`), and say nothing of the
other four: `FORMS` are compared with what follows from PyTorch's maps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headlight.errors import BundleError
from headlight.runtime.attention.resolved_spec import Choice
from headlight.runtime.bundle.bundle import Bundle
from headlight.runtime.bundle.file_contents import plain_arrays
from headlight.runtime.bundle.manifest import Architecture, Manifest
from headlight.runtime.encode_items import EncodeItem, ItemResult, Selection
from headlight.runtime.values import Arrays, Floats, Ids, Keys
from headlight.spec import AttentionSpec

MASKED = "masked_"  # before the names of inputs of which not all is looked at; bundles of an earlier export have none
OUTPUTS = ("pooled", "tokens", "attention", "hidden")
# Rows of a residual stream grow with depth, and rounding with them; attention and pooled rows are bounded by 1.
SCALED_BY_ROW = ("tokens", "hidden")
VECTORS = ("pooled", "tokens")
TOP = 3
STEP = 2  # of the heads whose mean is taken: of all heads it would be the same in any order
Numbers = NDArray[np.floating[Any]]
Pairs = Iterator[tuple[Numbers, Numbers]]  # of what was found and what should have been


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
    arrays = plain_arrays(bundle.files[name].data, name)
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
    return tuple(
        each._replace(answers={name: each.answers[name] for name in VECTORS}) for each in golden if not each.about
    )


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


def form(name: str, architecture: Architecture) -> Selection:
    """What is to be asked for: a name of FORMS, of all layers."""
    layers, heads = tuple(range(architecture.layers)), range(architecture.heads)
    specs = {
        "scores": AttentionSpec(layers=layers, scores=True),
        "head_mean": AttentionSpec(layers=layers, reduce=("head_mean",)),
        "pooling_weights": AttentionSpec(layers=layers, reduce=("pooling_weights",)),
        "top_k": AttentionSpec(layers=layers, top_k=TOP),
    }
    chosen = tuple(heads[::STEP] if name == "head_mean" else heads)
    # Whatever the model pools by: the weights of "weighted_mean" differ from token to token, so that none passes for another.
    return Selection(attention=Choice(specs[name], layers, (chosen,) * len(layers), "weighted_mean"))


def form_error(name: str, result: ItemResult, maps: Floats) -> float:
    """max |Δ| of weights.

    Args:
        name: of FORMS.
        result: what the engine gave for `form`.
        maps: float32 [L, H, n, n], whole, of PyTorch.

    Returns:
        What the tolerance of attention bounds: means and choices of weights are off by no more than these are. Infinity where
        something is not finite, or keys are none.
    """
    found = np.asarray(result.attention, dtype=np.float64)
    with np.errstate(invalid="ignore"):  # of what is not finite
        pairs = FORMS[name](found, maps, result.indices)
        worst = [float(np.abs(got - expected).max(initial=0.0)) for got, expected in pairs]
    return max(worst) if np.isfinite(worst).all() else float("inf")


def _scores(scores: Numbers, maps: Floats, _: Keys | None) -> Pairs:
    """Their softmax: how far rounding moves scores themselves depends on how large they are, and weights are what comes of them."""
    largest = scores.max(axis=-1, keepdims=True)
    weights = np.exp(scores - np.where(np.isfinite(largest), largest, 0))
    sums = weights.sum(axis=-1, keepdims=True)
    yield weights / np.where(sums == 0, 1, sums), maps  # a query that sees no key has no weights


def _head_mean(means: Numbers, maps: Floats, _: Keys | None) -> Pairs:
    yield means, maps[:, ::STEP].mean(axis=1, dtype=np.float64)


def _pooling_weights(rows: Numbers, maps: Floats, _: Keys | None) -> Pairs:
    yield rows, np.average(maps, axis=2, weights=np.arange(1.0, maps.shape[2] + 1))


def _top_k(entries: Numbers, maps: Floats, indices: Keys | None) -> Pairs:
    """Entries are the largest, and lie where the keys say. Which of equal ones come, is not said."""
    keys = np.asarray(indices, dtype=np.int64)
    ordered = np.sort(keys, axis=-1)
    if ordered.max(initial=0) >= maps.shape[-1] or (np.diff(ordered, axis=-1) == 0).any():
        yield entries, np.full_like(entries, np.inf)
        return
    yield entries, -np.sort(-maps, axis=-1)[..., : entries.shape[-1]]
    yield entries, np.take_along_axis(maps, keys, axis=-1)


FORMS: dict[str, Callable[[Numbers, Floats, Keys | None], Pairs]] = {
    "scores": _scores,
    "head_mean": _head_mean,
    "pooling_weights": _pooling_weights,
    "top_k": _top_k,
}
