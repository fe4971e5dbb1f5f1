"""Start-up self-test: a bundle is served only if its graphs give PyTorch's answers here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from headlight.errors import BundleError, EngineError
from headlight.extras import versions_text
from headlight.outputs.output import Output
from headlight.outputs.registry import OUTPUTS
from headlight.runtime.bundle.bundle import Bundle
from headlight.runtime.encode_items import EncodeItem, ItemResult, Selection, everything
from headlight.runtime.engine.engine import Engine
from headlight.runtime.parity.golden_inputs import (
    Golden,
    distance,
    distances,
    form_of,
    load_golden,
    load_head,
    short_inputs,
    vectors_alone,
)
from headlight.runtime.values import GraphRole


class GoldenError(NamedTuple):
    """A graph's distance from PyTorch on a golden input.

    Attributes:
        file: file of the graph.
        output: the output, whose tolerance applies.
        error: the distance.
        about: a note on the input, or on the form of the output; usually empty.
    """

    file: str
    output: str
    error: float
    about: str = ""


class SelfTest:
    """The self-test of an engine at start-up, and the later probe of a suspected GPU."""

    def __init__(self, bundle: Bundle, engine: Engine, provider: str, precision: str) -> None:
        self._manifest, self._engine = bundle.manifest, engine
        self._bundle, self._provider, self._precision = bundle, provider, precision
        self.known: tuple[Golden, ...] = ()  # the inputs of `probe`; set by `run`

    def run(self, *, short: bool = False) -> None:
        """Compare the bundle's golden inputs with PyTorch's answers, on every session.

        Args:
            short: only run inputs of few tokens; see `short_inputs`.

        Raises:
            BundleError: an output is outside the tolerance of the provider and precision, or a
                graph does not know all ids; it must not be served. For wrong numbers, the message
                has the versions of the libraries that compute.
        """
        golden = load_golden(self._bundle)
        golden = short_inputs(golden) if short else golden
        self._check(golden)
        self.known = vectors_alone(golden)

    def probe(self) -> None:
        """Check that the graphs still give PyTorch's vectors.

        It does not read the bundle's folder again, which may have been replaced or removed.

        Raises:
            BundleError: a graph no longer gives them.
        """
        if self.known:
            self._check(self.known)
        else:
            self.run()

    def _check(self, golden: Sequence[Golden]) -> None:
        tolerance = self._manifest.tolerance(self._provider, self._precision)
        with self._engine.faults.probing():
            for measured in self.errors(golden):
                limit = tolerance.limits[OUTPUTS[measured.output].tolerance]
                if not measured.error <= limit:
                    what = f"golden {measured.output} {measured.about}".rstrip()
                    far = f"is off by {measured.error:.3g} on {self._provider}/{self._precision}"
                    raise self._wrong(f"{what} {far}, tolerance {limit:.3g}", measured.file)
            self._check_vocabulary()
            self._check_head()

    def errors(self, golden: Sequence[Golden]) -> Iterator[GoldenError]:
        """Run golden inputs and yield the distance of each answer of each loaded graph.

        All inputs go in one padded batch, so masking is checked too. Inputs are compared in the
        outputs that they have answers for. Attention is also compared in its other forms. A batch
        of vectors that may use all threads runs on another session, so it is compared, too.

        Raises:
            BundleError: a graph cannot run them, or its numbers are not finite.
        """
        for selection in self._engine.selections(everything(self._engine.architecture, "embed")):
            items = [one.item(selection) for one in golden]
            ways = (False, True) if self._engine.has_other_session(selection.role) else (False,)
            for wide in ways:
                results = self._run(selection.role, items, wide=wide)
                file = self._file(self._engine.graph(selection.role, wide=wide))
                for one, result in zip(golden, results, strict=True):
                    for name, error in distances(result, one.answers).items():
                        yield GoldenError(file, name, error, one.about)
        for output in OUTPUTS.values():
            if output.role in self._engine.graph_roles:
                yield from self._form_errors(output, golden)

    def _form_errors(self, output: Output, golden: Sequence[Golden]) -> Iterator[GoldenError]:
        """Yield the error of each form of an output, on a short and a longer input in turn.

        They make one padded batch of few tokens.
        """
        plain = (one for one in golden if output.name in one.answers and not one.about)
        whole = sorted(plain, key=lambda one: len(one.ids))
        few = whole[1:3] or whole[:1]
        chosen = [(name, few[at % len(few)]) for at, name in enumerate(output.forms) if few]
        items = [one.item(form_of(output, name, self._engine.architecture)) for name, one in chosen]
        results = self._run(output.role, items) if items else []
        for (name, one), result in zip(chosen, results, strict=True):
            error = output.form_error(name, result, one.answers[output.name])
            yield GoldenError(self._file(output.role), output.name, error, f"as {name}")

    def _run(
        self,
        role: GraphRole,
        items: Sequence[EncodeItem],
        problem: str = "cannot run the golden inputs, or gives no usable numbers for them",
        *,
        wide: bool = False,
    ) -> list[ItemResult]:
        try:
            return self._engine.run(items, wide=wide)
        except EngineError:
            raise self._wrong(problem, self._file(self._engine.graph(role, wide=wide))) from None

    def _wrong(self, problem: str, file: str) -> BundleError:
        """Return the error for a graph that does not give PyTorch's numbers here."""
        library = "openvino" if self._provider == "openvino" else "onnxruntime"
        return BundleError(f"{problem}; {versions_text(library, 'numpy')}", file)

    def _check_vocabulary(self) -> None:
        """Check that the graphs know the highest id and segment that the manifest allows.

        Requests are checked only against the manifest.
        """
        architecture = self._manifest.architecture
        highest, segment = architecture.vocab_size - 1, max(0, architecture.segments - 1)
        problem = (
            f"does not know id {highest}, the last of the manifest's vocabulary, "
            f"or segment {segment}"
        )
        for selection in self._engine.selections(Selection()):
            self._run(
                selection.role,
                [EncodeItem(np.array([highest]), selection, np.array([segment]))],
                problem,
            )

    def _check_head(self) -> None:
        """Check the graph of the layers behind pooling, which computes in fp32."""
        graph = self._manifest.head(self._provider)
        if graph is None:
            return
        vectors, answers = load_head(self._bundle)
        limit = self._manifest.tolerance(self._provider, graph.precision).limits["tokens"]
        try:
            error = distance("tokens", self._engine.head(vectors), answers)
        except EngineError:
            error = float("inf")
        if not error <= limit:
            raise self._wrong(
                f"is off by {error:.3g} on {self._provider}, tolerance {limit:.3g}", graph.file
            )

    def _file(self, role: GraphRole) -> str:
        return self._manifest.graph(role, self._provider, self._precision).file
