"""A bundle's golden inputs, PyTorch's answers, and the distance of other answers from these.

docs/bundle.md has the names of the arrays. The exporter's report, the start-up self-test and the
tests share the distance.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from headlight.errors import BundleError
from headlight.outputs.output import Output
from headlight.outputs.registry import MEASURED, OUTPUTS
from headlight.runtime.bundle.bundle import Bundle
from headlight.runtime.bundle.file_contents import plain_arrays
from headlight.runtime.bundle.manifest import Manifest
from headlight.runtime.encode_items import EncodeItem, ItemResult, Selection, everything
from headlight.runtime.values import Architecture, Arrays, Floats, Ids

SHORT_TOKENS = 48  # as long as the texts that the exporter prefers
MASKED = "masked_"  # prefix of inputs with ignored tokens; bundles of an earlier export have none


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
    inputs = [
        _read(arrays, kind, index, bundle.manifest)
        for kind in ("", MASKED)
        for index in range(sum(key.startswith(f"{kind}ids_") for key in arrays))
    ]
    if not inputs or inputs[0].about:
        raise BundleError("does not hold inputs and all their answers", name)
    return tuple(inputs)


def load_head(bundle: Bundle) -> tuple[Floats, Floats]:
    """Return vectors for the graph `head` and PyTorch's answers.

    They are float32 [N, dim] and [N, pooled_dim]. Raises BundleError if the file lacks them.
    """
    manifest = bundle.manifest
    arrays = plain_arrays(bundle.files[manifest.golden].data, manifest.golden)
    heads = [arrays.get(name, np.zeros(0)) for name in ("head_vectors", "head_answers")]
    widths = (manifest.architecture.dim, manifest.architecture.pooled_dim)
    if not all(
        each.dtype == np.float32 and each.shape == (max(1, len(heads[0])), width)
        for each, width in zip(heads, widths, strict=True)
    ):
        raise BundleError("does not hold vectors for the graph head and answers", manifest.golden)
    return heads[0], heads[1]


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
        each._replace(
            answers={
                name: answer
                for name, answer in each.answers.items()
                if OUTPUTS[name].role == "embed"
            }
        )
        for each in golden
        if not each.about
    )


def _read(arrays: Arrays, kind: str, index: int, manifest: Manifest) -> Golden:
    """Return one input of a kind.

    Raises:
        BundleError: it is incomplete, or does not fit the manifest's model.
    """
    measured = [name for name in MEASURED if name in everything(manifest.architecture)]
    names = ("ids", "segments", "occluded", "left_out", *measured)
    case = {name: arrays[key] for name in names if (key := f"{kind}{name}_{index}") in arrays}
    if not {"ids", *measured} <= case.keys():
        raise BundleError("does not hold inputs and all their answers", manifest.golden)
    _check(case, f"{kind}*_{index}", manifest)
    segments = case.get("segments")
    return Golden(
        case["ids"].astype(np.int64),
        None if segments is None else segments.astype(np.int64),
        {name: case[name] for name in measured},
        (int(case["occluded"]),) if "occluded" in case else (),
        int(case.get("left_out", 0)),
    )


def _check(case: Arrays, where: str, manifest: Manifest) -> None:
    """Check that an input's arrays have the types, shapes and values that the manifest allows.

    Raises:
        BundleError: they do not.
    """
    n = case["ids"].size
    every = everything(manifest.architecture)
    shapes: dict[str, tuple[int, ...]] = {
        name: OUTPUTS[name].tensors(every[name], None, n, manifest.architecture)[0].shape
        for name in MEASURED
        if name in every
    }
    shapes |= {"ids": (n,), "segments": (n,), "occluded": (), "left_out": ()}
    for name, array in case.items():
        kind, shape = np.floating if name in MEASURED else np.integer, shapes[name]
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
        array = case.get(name, np.zeros(1))
        if not (1 <= n <= manifest.max_length and array.min() >= 0 and array.max() < count):
            raise BundleError(f"{name} of {where} is not an input of the manifest", manifest.golden)


def distance(output: str, got: Floats, expected: Floats) -> float:
    """Return max |got - expected|, as the output has it divided by max(1, size of expected).

    `by_row`: the size is the RMS of a row; `by_number`: that of each number.

    Shapes must be equal; NaN gives infinity.
    """
    difference = np.abs(got.astype(np.float64) - expected.astype(np.float64))
    if OUTPUTS[output].by_row:
        rms = np.sqrt(np.mean(expected.astype(np.float64) ** 2, axis=-1, keepdims=True))
        difference = difference / np.maximum(1.0, rms)
    if OUTPUTS[output].by_number:
        difference = difference / np.maximum(1.0, np.abs(expected.astype(np.float64)))
    worst = float(difference.max(initial=0.0))
    return worst if np.isfinite(worst) else float("inf")


def distances(got: ItemResult, answers: Mapping[str, Floats]) -> dict[str, float]:
    """Return the distance of every output of a result that `answers` say something about."""
    return {
        name: distance(name, got[name], expected)
        for name, output in OUTPUTS.items()
        if name in got and (expected := output.expected(answers)) is not None
    }


def form_of(output: Output, name: str, architecture: Architecture) -> Selection:
    """Return the selection of one of an output's forms alone."""
    return Selection(**{"pooled": False, output.name: output.form(name, architecture)})
