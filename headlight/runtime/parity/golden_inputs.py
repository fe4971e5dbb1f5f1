"""A bundle's golden inputs, PyTorch's answers, and the distance of other answers from these.

docs/bundle.md has the names of the arrays. The exporter's report, the start-up self-test and the
tests share the distance.

A graph returns attention by one of five outputs (`headlight.runtime.attention.graph_selectors`).
Whole maps check only one of them, so `FORMS` compare the other four with values derived from
PyTorch's maps.
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

SHORT_TOKENS = 48  # as long as the texts that the exporter prefers
MASKED = "masked_"  # prefix of inputs with ignored tokens; bundles of an earlier export have none
OUTPUTS = ("pooled", "tokens", "attention", "hidden")
# Rows of a residual stream grow with depth, and rounding with them; attention and pooled rows are
# bounded by 1.
SCALED_BY_ROW = ("tokens", "hidden")
VECTORS = ("pooled", "tokens")
TOP = 3
STEP = 2  # of the heads whose mean is taken: a mean of all heads hides a wrong order
Numbers = NDArray[np.floating[Any]]
Pairs = Iterator[tuple[Numbers, Numbers]]  # found and expected


class Golden(NamedTuple):
    """One input and PyTorch's answers.

    Attributes:
        ids, segments, occluded, left_out: of its EncodeItem.
        answers: by output, float32 in the shapes of ItemResult.
    """

    ids: Ids
    segments: Ids | None
    answers: Mapping[str, Floats]
    occluded: tuple[int, ...] = ()
    left_out: int = 0

    @property
    def about(self) -> str:
        """Note on its ignored tokens, for an error message; usually empty."""
        return (
            "with a token hidden"
            if self.occluded
            else "with a prompt left out"
            if self.left_out
            else ""
        )

    def item(self, selection: Selection) -> EncodeItem:
        """Return the engine's item."""
        return EncodeItem(
            self.ids, selection, self.segments, occluded=self.occluded, left_out=self.left_out
        )


def load_golden(bundle: Bundle) -> tuple[Golden, ...]:
    """Return the bundle's golden inputs.

    Raises:
        BundleError: the file has none, or they do not fit the model.
    """
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


def load_head(bundle: Bundle) -> tuple[Floats, Floats]:
    """Return vectors for the graph `head` and PyTorch's answers.

    They are float32 [N, dim] and [N, pooled_dim]. Raises BundleError if the file lacks them.
    """
    manifest = bundle.manifest
    arrays = plain_arrays(bundle.files[manifest.golden].data, manifest.golden)
    found = [arrays.get(name, np.zeros(0)) for name in ("head_vectors", "head_answers")]
    widths = (manifest.architecture.dim, manifest.architecture.pooled_dim)
    if not all(
        each.dtype == np.float32 and each.shape == (max(1, len(found[0])), width)
        for each, width in zip(found, widths, strict=True)
    ):
        raise BundleError("does not hold vectors for the graph head and answers", manifest.golden)
    return found[0], found[1]


def short_inputs(golden: tuple[Golden, ...]) -> tuple[Golden, ...]:
    """Return the inputs of at most SHORT_TOKENS tokens, at least one without ignored tokens.

    So every output is compared: each input has an answer for each.
    """
    plain = min((each for each in golden if not each.about), key=lambda each: len(each.ids))
    return tuple(each for each in golden if each is plain or len(each.ids) <= SHORT_TOKENS)


def vectors_alone(golden: tuple[Golden, ...]) -> tuple[Golden, ...]:
    """Return the plain inputs with their vectors only, for a later check of an engine.

    For a deep model, all other answers take a hundred times as long to check.
    """
    return tuple(
        each._replace(answers={name: each.answers[name] for name in VECTORS})
        for each in golden
        if not each.about
    )


def _read(arrays: Arrays, kind: str, index: int, manifest: Manifest) -> Golden:
    """Return one input of a kind.

    Raises:
        BundleError: it is incomplete, or does not fit the manifest's model.
    """
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
        (int(own["occluded"]),) if "occluded" in own else (),
        int(own.get("left_out", 0)),
    )


def _check(own: Arrays, where: str, manifest: Manifest) -> None:
    """Check that an input's arrays have the types, shapes and values that the manifest allows.

    Raises:
        BundleError: they do not.
    """
    layers, heads, dim = (
        getattr(manifest.architecture, name) for name in ("layers", "heads", "dim")
    )
    n = own["ids"].size
    shapes = {
        "ids": (n,),
        "segments": (n,),
        "pooled": (manifest.architecture.pooled_dim,),
        "tokens": (n, dim),
    }
    shapes |= {
        "attention": (layers, heads, n, n),
        "hidden": (layers + 1, n, dim),
        "occluded": (),
        "left_out": (),
    }
    for name, array in own.items():
        kind, shape = np.floating if name in OUTPUTS else np.integer, shapes[name]
        if array.shape != shape or not np.issubdtype(array.dtype, kind):
            have = f"{name} of {where} holds {array.dtype} in the shape {array.shape}"
            raise BundleError(
                f"{have:.200}; the manifest makes it {kind.__name__} in {shape}", manifest.golden
            )
    counts = {
        "ids": manifest.architecture.vocab_size,
        "segments": max(1, manifest.architecture.segments),
    }
    for name, count in (counts | {"occluded": n, "left_out": n}).items():
        array = own.get(name, np.zeros(1))
        if not (1 <= n <= manifest.max_length and array.min() >= 0 and array.max() < count):
            raise BundleError(f"{name} of {where} is not an input of the manifest", manifest.golden)


def distance(output: str, got: Floats, expected: Floats) -> float:
    """Return max |got - expected|; for tokens and hidden, divided by max(1, RMS of expected row).

    Shapes must be equal; NaN gives infinity.
    """
    difference = np.abs(got.astype(np.float64) - expected.astype(np.float64))
    if output in SCALED_BY_ROW:
        rms = np.sqrt(np.mean(expected.astype(np.float64) ** 2, axis=-1, keepdims=True))
        difference = difference / np.maximum(1.0, rms)
    worst = float(difference.max(initial=0.0))
    return worst if np.isfinite(worst) else float("inf")


def distances(got: ItemResult, expected: Mapping[str, Floats]) -> dict[str, float]:
    """Return the distance of every output in `expected`, by name, in ItemResult's shapes."""
    return {name: distance(name, getattr(got, name), value) for name, value in expected.items()}


def form(name: str, architecture: Architecture) -> Selection:
    """Return the selection for a name of FORMS, in all layers."""
    layers, heads = tuple(range(architecture.layers)), range(architecture.heads)
    specs = {
        "scores": AttentionSpec(layers=layers, scores=True),
        "head_mean": AttentionSpec(layers=layers, reduce=("head_mean",)),
        "pooling_weights": AttentionSpec(layers=layers, reduce=("pooling_weights",)),
        "top_k": AttentionSpec(layers=layers, top_k=TOP),
    }
    chosen = tuple(heads[::STEP] if name == "head_mean" else heads)
    # Independent of the model's pooling: the weights of "weighted_mean" differ from token to token,
    # so a swapped token is found.
    return Selection(
        attention=Choice(specs[name], layers, (chosen,) * len(layers), "weighted_mean")
    )


def form_error(name: str, result: ItemResult, maps: Floats) -> float:
    """Return max |Δ| of weights.

    The tolerance of attention applies to it: means and choices of weights are off by no more than
    the weights themselves.

    Args:
        name: a name of FORMS.
        result: the engine's result for `form`.
        maps: float32 [L, H, n, n], PyTorch's whole maps.

    Returns:
        The distance. Infinity if a number is not finite, or keys are invalid.
    """
    found = np.asarray(result.attention, dtype=np.float64)
    with np.errstate(invalid="ignore"):  # numbers may not be finite
        pairs = FORMS[name](found, maps, result.indices)
        worst = [float(np.abs(got - expected).max(initial=0.0)) for got, expected in pairs]
    return max(worst) if np.isfinite(worst).all() else float("inf")


def _scores(scores: Numbers, maps: Floats, _: Keys | None) -> Pairs:
    """Yield the softmax of scores: their rounding errors grow with size; only weights matter."""
    largest = scores.max(axis=-1, keepdims=True)
    weights = np.exp(scores - np.where(np.isfinite(largest), largest, 0))
    sums = weights.sum(axis=-1, keepdims=True)
    yield weights / np.where(sums == 0, 1, sums), maps  # a query that sees no key has no weights


def _head_mean(means: Numbers, maps: Floats, _: Keys | None) -> Pairs:
    yield means, maps[:, ::STEP].mean(axis=1, dtype=np.float64)


def _pooling_weights(rows: Numbers, maps: Floats, _: Keys | None) -> Pairs:
    yield rows, np.average(maps, axis=2, weights=np.arange(1.0, maps.shape[2] + 1))


def _top_k(entries: Numbers, maps: Floats, indices: Keys | None) -> Pairs:
    """Yield the entries twice: with the largest weights, and with the weights at their keys.

    Equal entries may have any order.
    """
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
