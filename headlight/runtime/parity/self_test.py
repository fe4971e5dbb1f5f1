"""The gate at start-up: no bundle is served whose graphs do not give PyTorch's answers here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from headlight.errors import BundleError, EngineError
from headlight.runtime.bundle.bundle import Bundle
from headlight.runtime.encode_items import EncodeItem, ItemResult, Selection, everything
from headlight.runtime.engine.engine import Engine
from headlight.runtime.parity.derived_forms import FORMS, form, form_error
from headlight.runtime.parity.distance import OUTPUTS, distances
from headlight.runtime.parity.golden_inputs import VECTORS, Golden


class GoldenError(NamedTuple):
    """How far a graph is from PyTorch on a golden input.

    Attributes:
        file: of the graph.
        output: whose tolerance holds.
        error: the distance.
        about: what else is to be said of the input, or of the form of the output; mostly empty.
    """

    file: str
    output: str
    error: float
    about: str = ""


def check_golden(bundle: Bundle, engine: Engine, provider: str, precision: str, golden: Sequence[Golden]) -> None:
    """Run the bundle's golden inputs on the engine and compare with what PyTorch gave.

    All inputs go in one padded batch, so masking is checked too. Compared is what they have answers for; where these are of attention,
    what other forms of it follow from them, too.

    Raises:
        BundleError: an output is outside the tolerance declared for the provider and precision; it must not be served.
    """
    tolerance = bundle.manifest.tolerance(provider, precision)
    for found in golden_errors(bundle, engine, provider, precision, golden):
        limit = tolerance.of(found.output)
        if not found.error <= limit:
            what = f"golden {found.output} {found.about}".rstrip()
            raise BundleError(
                f"{what} is off by {found.error:.3g} on {provider}/{precision}, tolerance {limit:.3g}", found.file
            )


def golden_errors(
    bundle: Bundle, engine: Engine, provider: str, precision: str, golden: Sequence[Golden]
) -> Iterator[GoldenError]:
    """Run the golden inputs: the distance of each answer of each graph that is loaded.

    Raises:
        BundleError: a graph cannot run them, or its numbers are not finite.
    """
    selections = [everything(engine.architecture)] if "attend" in engine.roles else []
    for selection in (Selection(tokens=True), *selections):
        wanted = OUTPUTS if selection.role == "attend" else VECTORS
        file = bundle.manifest.graph(selection.role, provider, precision).file
        for one, result in zip(golden, _run(engine, [one.item(selection) for one in golden], file), strict=True):
            expected = {name: value for name, value in one.answers.items() if name in wanted}
            for name, error in distances(result, expected).items():
                yield GoldenError(file, name, error, one.about)
    if "attend" in engine.roles:
        file = bundle.manifest.graph("attend", provider, precision).file
        yield from _form_errors(engine, golden, file)


def _form_errors(engine: Engine, golden: Sequence[Golden], file: str) -> Iterator[GoldenError]:
    """Each form of attention, of a short and a longer input in turn: one padded batch of few tokens."""
    whole = sorted(
        (one for one in golden if "attention" in one.answers and not one.about), key=lambda one: len(one.ids)
    )
    few = whole[1:3] or whole[:1]
    if not few:
        return
    chosen = [(name, few[at % len(few)]) for at, name in enumerate(FORMS)]
    items = [one.item(form(name, engine.architecture)) for name, one in chosen]
    for (name, one), result in zip(chosen, _run(engine, items, file), strict=True):
        error = form_error(name, result, one.answers["attention"])
        yield GoldenError(file, "attention", error, f"as {name}")


def _run(engine: Engine, items: Sequence[EncodeItem], file: str) -> list[ItemResult]:
    try:
        return engine.run(items)
    except EngineError:
        raise BundleError("cannot run the golden inputs, or gives no finite numbers for them", file) from None


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
