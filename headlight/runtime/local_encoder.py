"""Methods of `headlight.Encoder` on an engine in this process."""

from __future__ import annotations

import abc
import contextlib
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headlight.comparison import CompareSpec, Comparison
from headlight.description import ModelDescription
from headlight.errors import InvalidInput, Reason, renamed
from headlight.interface.arguments import (
    Input,
    Prompting,
    Reading,
    as_list,
    check_reading,
    checked_input,
    checked_target,
)
from headlight.interface.attention_grid import layer_pieces
from headlight.interface.checked_specs import (
    check_pieces,
    checked_attention,
    checked_choice,
    checked_pooled,
    checked_spans,
)
from headlight.interface.comparison_arguments import (
    PASSAGE,
    QUERY,
    check_no_prompt,
    checked_request,
)
from headlight.interface.encoder import Encoder
from headlight.interface.scoring import classified, pair_names, ranked, scores_of
from headlight.interface.similarity import similarity
from headlight.outputs.registry import OUTPUTS
from headlight.outputs.scores import ALL
from headlight.outputs.vector_forms import as_types
from headlight.refusals import Path
from headlight.results import (
    AttentionPiece,
    Embeddings,
    LabelScore,
    Occlusion,
    RankedDocument,
    Scores,
    TokenList,
)
from headlight.runtime import local_results
from headlight.runtime.bundle.bundle import Bundle
from headlight.runtime.comparison.comparison_layout import check_additive, scores
from headlight.runtime.encode_items import ItemResult, Selection
from headlight.runtime.engine.engine import Engine
from headlight.runtime.local_comparison import comparison_of, plan_of, selection_of
from headlight.runtime.local_results import Prepared
from headlight.runtime.occluded_tokens import hidden_tokens
from headlight.runtime.plans.compare import compare
from headlight.runtime.plans.occlude import occlude
from headlight.runtime.plans.plan import Plan, drive, encode_spans
from headlight.runtime.spans.span_items import place_all
from headlight.runtime.spelling import Spelling
from headlight.runtime.tokenization.input_checks import TRUNCATIONS, Truncation
from headlight.runtime.values import Floats, Tokenized
from headlight.span_vectors import SpansSpec, SpanVectors
from headlight.spec import (
    AttentionSpec,
    EmptyTexts,
    InputRole,
    PooledSpec,
    SpecialTokens,
    TokensLike,
    tokens_like,
)

T = TypeVar("T")
# The target of an occlusion is one text.
TARGET: Mapping[Path, Path] = dict.fromkeys(
    ((), ("inputs",), ("inputs", 0), ("inputs", 0, "text")), ("target",)
)
PROMPT_KEYS = ("prompt_name", "prompt")
CLOSED = "the runtime is closed; make another"


class LocalEncoder(Encoder):
    """The methods of an encoder on items of an engine."""

    bundle: Bundle
    engine: Engine
    spelling: Spelling | None
    _description: ModelDescription
    _closed = False

    @abc.abstractmethod
    def prepare(
        self,
        inputs: Iterable[str | tuple[str, str] | Sequence[int]],
        selection: Selection,
        *,
        with_info: bool,
        prompt_name: str | None,
        prompt: str | None,
        head_mask: ArrayLike | None,
        truncation: Truncation,
        special_tokens: SpecialTokens,
        empty_texts: EmptyTexts,
        limit: bool = True,
        role: InputRole | None = None,
    ) -> list[Prepared]:
        """Tokenise inputs and make their items."""

    @abc.abstractmethod
    def check_pair_prompt(self, name: str | None, text: str | None) -> None:
        """Check a requested prompt of inputs that all are pairs.

        Raises:
            InvalidInput: the model has no prompt of that name, it is too long, or pairs take none.
        """

    @abc.abstractmethod
    def select(self, *, pooled: Any = True, **specs: Any) -> Selection:
        """Resolve the requested outputs."""

    def model(self) -> ModelDescription:
        """Return the model, its runtime and its parity with PyTorch; all limits are 0."""
        with self._used():
            return self._description

    def close(self) -> None:
        """Give the model's memory back. Running and later methods raise ValueError."""
        self._closed = True
        self.engine.close()

    @contextlib.contextmanager
    def _used(self) -> Iterator[None]:
        """Refuse use after the end."""
        if self._closed:
            raise ValueError(CLOSED)
        try:
            yield
        except Exception:
            if self._closed:
                raise ValueError(CLOSED) from None
            raise

    def _prepared(
        self,
        texts: Iterable[Input] | str,
        reading: Prompting,
        selection: Selection,
        head_mask: ArrayLike | None = None,
        *,
        with_info: bool = False,
        limit: bool = True,
    ) -> list[Prepared]:
        check_reading(reading)
        return self.prepare(
            [checked_input(each, f"inputs[{at}]") for at, each in enumerate(as_list(texts))],
            selection,
            with_info=with_info,
            prompt_name=reading.get("prompt_name"),
            prompt=reading.get("prompt"),
            head_mask=head_mask,
            truncation=TRUNCATIONS[cast("Reading", reading).get("truncate") or "refuse"],
            empty_texts=cast("Reading", reading).get("empty_texts") or "refuse",
            special_tokens=reading.get("special_tokens") or "parse",
            limit=limit,
            role=reading.get("role"),
        )

    def _drive(self, plan: Plan[T]) -> T:
        return drive(plan, self.engine.run_in_batches)

    def _computed(self, prepared: Sequence[Prepared]) -> list[ItemResult]:
        return self.engine.run_in_batches([each.item for each in prepared])

    def _pooled(
        self,
        texts: Iterable[Input] | str,
        spec: PooledSpec,
        head_mask: ArrayLike | None,
        reading: Reading,
        read: Callable[[Embeddings], T],
    ) -> T:
        with self._used():
            selection = self.select(pooled=checked_pooled(spec))
            prepared = self._prepared(texts, reading, selection, head_mask)
            rows = [each["pooled"] for each in self._computed(prepared)]
            form = selection["pooled"]
            width = form.width or self._description.pooled_dim
            vectors = np.array(rows, np.float32).reshape(len(rows), width)
            inputs = [each.tokenized for each in prepared]
            embeddings = Embeddings(
                as_types(vectors, form),
                np.array([len(each.ids) for each in inputs], np.int64),
                np.array([each.prompt_length for each in inputs], np.int64),
                np.array([each.original_length for each in inputs], np.int64),
                self._description.ref,
            )
            return read(embeddings)

    def _encode(
        self,
        texts: Iterable[Input] | str,
        output: str,
        spec: Any,
        reading: Reading,
        read: Callable[[list[Any]], T],
        *,
        head_mask: ArrayLike | None = None,
        details: bool = True,
    ) -> T:
        with self._used():
            prepared = self._requested(texts, output, spec, reading, head_mask)
            self._check_bytes(prepared)
            return read(self._results(prepared, output))

    def _requested(
        self,
        texts: Iterable[Input] | str,
        output: str,
        spec: Any,
        reading: Reading,
        head_mask: ArrayLike | None = None,
    ) -> list[Prepared]:
        """Prepare inputs for one output alone."""
        checked = OUTPUTS[output].checked(spec, 0)
        selection = self.select(**{"pooled": False, output: checked})
        return self._prepared(texts, reading, selection, head_mask, with_info=True)

    def _results(self, prepared: Sequence[Prepared], output: str) -> list[Any]:
        results, ref = self._computed(prepared), self._description.ref
        return [
            each.result(output, result, ref, self.spelling)
            for each, result in zip(prepared, results, strict=True)
        ]

    def _rerank(
        self, query: str, documents: list[str], top_n: int | None, reading: Reading
    ) -> list[RankedDocument]:
        self._check_pairs(reading)
        with renamed(pair_names(len(documents))):
            scores = self._scores([(query, document) for document in documents], reading)
            return ranked(documents, scores, top_n)

    def _check_pairs(self, reading: Reading) -> None:
        with self._used():
            check_reading(reading)
            self.check_pair_prompt(reading.get("prompt_name"), reading.get("prompt"))

    def _classify(self, texts: Iterable[Input] | str, reading: Reading) -> list[list[LabelScore]]:
        return classified(self._scores(texts, reading))

    def _scores(self, texts: Iterable[Input] | str, reading: Reading) -> list[Scores]:
        with self._used():
            prepared = self._prepared(texts, reading, self.select(pooled=False, scores=ALL))
            pairs = zip(prepared, self._computed(prepared), strict=True)
            return [self._score(each.tokenized, result) for each, result in pairs]

    def _score(self, tokenized: Tokenized, result: ItemResult) -> Scores:
        counts, model = (tokenized.original_length, len(tokenized.ids)), self._description
        return scores_of(result["scores"], model, model.ref, counts)

    def _span_vectors(
        self, texts: Iterable[Input] | str, spec: SpansSpec, reading: Reading
    ) -> list[SpanVectors]:
        with self._used():
            inputs = as_list(texts)
            spec = checked_spans(spec, len(inputs))
            selection = self.select(pooled=False, spans=spec)
            prepared = self._prepared(
                inputs, reading, selection, with_info=True, limit=not spec.beyond_max_length
            )
            works = place_all(
                selection,
                inputs,
                [each.tokenized for each in prepared],
                [each.item for each in prepared],
                self.bundle.manifest.max_length,
            )
            normalize = self.bundle.manifest.normalize
            merged = self._drive(encode_spans(works, self.engine.head, normalize=normalize))
            ref = self._description.ref
            return [
                local_results.span_vectors(each, work, result, ref)
                for each, work, result in zip(prepared, works, merged, strict=True)
            ]

    def _check_bytes(self, prepared: Sequence[Prepared]) -> None:
        """Raise InvalidInput if an output of an input is larger than its spec allows."""
        for each in prepared:
            for output, choice in each.item.selection.outputs():
                most = output.max_bytes(choice)
                if most is not None and (size := self._bytes(each, output.name)) > most:
                    raise InvalidInput(
                        f"outputs.{output.name}.max_bytes",
                        Reason.OUTPUT_BYTES,
                        output=output.name,
                        size=size,
                        most=most,
                        fits="",
                    )

    def _bytes(self, each: Prepared, output: str) -> int:
        return each.item.output_bytes(self.bundle.manifest.architecture)[output]

    def _attention_pieces(
        self, text: Input, spec: AttentionSpec, reading: Reading
    ) -> Iterator[AttentionPiece]:
        with self._used():
            check_pieces(checked_attention(spec))
            prepared = self._requested([text], "attention", spec, reading)
            self._check_bytes(prepared)
        return self._pieces(prepared)

    def _pieces(self, prepared: Sequence[Prepared]) -> Iterator[AttentionPiece]:
        with self._used():
            [maps] = self._results(prepared, "attention")
        yield from layer_pieces(maps.axes, maps.layers, maps.values)

    def _attention_bytes(self, text: Input, spec: AttentionSpec, reading: Reading) -> int:
        with self._used():
            [prepared] = self._requested([text], "attention", spec, reading)
            return self._bytes(prepared, "attention")

    def _compare(
        self,
        query: Input,
        passages: list[Input],
        spec: CompareSpec,
        query_reading: Reading,
        passage_reading: Reading,
    ) -> Comparison:
        with self._used():
            pairs = self._description.reranks
            spec = checked_request(query, passages, spec, pairs=pairs)
            selection = selection_of(spec, self.select, self._description)
            prepare = functools.partial(self._prepared, selection=selection, with_info=spec.details)
            inputs: list[Input] = [query, *passages]
            if pairs:
                with renamed(QUERY):
                    self._check_pairs(query_reading)
                with renamed(PASSAGE):
                    check_no_prompt({key: passage_reading.get(key) for key in PROMPT_KEYS})
                paired: Reading = {**query_reading, "role": None}
                inputs = [(cast("str", query), cast("str", each)) for each in passages]
                with renamed(pair_names(len(passages), "passages", text=True)):
                    prepared = prepare(inputs, paired)
            else:
                with renamed(QUERY):
                    prepared = prepare([query], query_reading)
                with renamed(PASSAGE):
                    prepared += prepare(passages, passage_reading)
            output = self._description.score_output
            check_additive(spec, self.engine.head, self.bundle.manifest.architecture.dim)
            plan = plan_of(spec, self.bundle.manifest, output, inputs, prepared)
            items = plan.items([each.item for each in prepared])
            selected = self.select(**scores(output))
            numbers = self._drive(compare(plan, items, selected, self.engine.head))
            ref = self._description.ref
            return comparison_of(plan, prepared, numbers, ref, self.spelling)

    def _occlusion(
        self,
        text: Input,
        tokens: TokensLike | None,
        target: str | ArrayLike | None,
        reading: Reading,
    ) -> Occlusion:
        with self._used(), renamed({("inputs", 0): ("input",)}):
            choice = (
                None if tokens is None else checked_choice("tokens", tokens_like("tokens", tokens))
            )
            selection = self.select()
            [each] = self._prepared([text], reading, selection, with_info=True)
            pooling, measure = self.bundle.manifest.pooling, self.bundle.manifest.similarity
            hidden, items = hidden_tokens(choice, pooling, each.tokenized), [each.item]
            aim = None if target is None else self._target(target, reading)
            if isinstance(aim, Prepared):
                items.append(aim.item)
            vector = None if isinstance(aim, Prepared) else aim
            numbers = self._drive(occlude(items, hidden, vector, measure, selection))
            return Occlusion(
                numbers.moved,
                tuple(hidden.tolist()),
                each.tokens,
                self._description.ref,
                fall=numbers.fall,
                similarity=None if numbers.fall is None else numbers.similarity,
            )

    def _target(self, target: str | ArrayLike, reading: Reading) -> Floats | Prepared:
        """Return the vector of a target, float32 [D]; or the target, if it is a text."""
        checked = checked_target(target, self._description.pooled_dim)
        if not isinstance(checked, str):
            return checked
        default: Reading = {**reading, "prompt": None, "prompt_name": None, "role": "query"}
        with renamed(TARGET):
            [prepared] = self._prepared([checked], default, self.select())
        return prepared

    def _tokens(self, texts: Iterable[Input] | str, prompting: Prompting) -> list[TokenList]:
        with self._used():
            nothing = self.select(pooled=False)
            prepared = self._prepared(texts, prompting, nothing, with_info=True, limit=False)
            return [each.tokens for each in prepared]

    def _similarity(self, a: ArrayLike, b: ArrayLike) -> NDArray[np.float32]:
        with self._used():
            return similarity(self.bundle.manifest.similarity, a, b)
