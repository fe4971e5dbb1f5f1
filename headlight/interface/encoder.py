"""Methods that `Client` and `Runtime` share, and `AsyncClient` has as coroutines."""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import TracebackType
from typing import Any, Literal, Self, TypeVar, Unpack, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headlight.comparison import CompareSpec, Comparison, MatrixKind
from headlight.description import ModelDescription
from headlight.errors import InvalidInput, Reason
from headlight.interface.arguments import Input, Prompting, Reading, as_list, text_of
from headlight.interface.comparison_arguments import EvidenceLike, evidence_specs
from headlight.interface.keywords import suggest_keywords
from headlight.interface.scoring import documents_of
from headlight.results import (
    Attention,
    AttentionMaps,
    AttentionPiece,
    Embeddings,
    Hidden,
    LabelScore,
    Occlusion,
    RankedDocument,
    Scores,
    SparseVector,
    TokenList,
    TokenVectors,
)
from headlight.span_vectors import SpansSpec, SpanVectors, Windows
from headlight.spec import (
    AttentionSpec,
    EmptyTexts,
    HiddenSpec,
    IndicesLike,
    MultiVectorSpec,
    Number,
    PooledSpec,
    Priority,
    RowType,
    SparseSpec,
    SpecialTokens,
    TokensLike,
    TokensSpec,
    Truncate,
    VectorType,
    indices_of,
    tokens_like,
)

T = TypeVar("T")


def _pooled_spec(
    dimensions: int | None, dtype: VectorType | Sequence[VectorType], normalize: bool | None
) -> PooledSpec:
    """Return the spec of the arguments of `encode`, unchecked."""
    dtypes: Any = (dtype,) if isinstance(dtype, str) else dtype
    if isinstance(dtypes, list | tuple):
        # The default goes without saying: a service has a shorter way for it.
        dtypes = () if list(dtypes) == ["float32"] else tuple(dtypes)
    return PooledSpec(dimensions=dimensions, normalize=normalize, dtypes=dtypes)


@suggest_keywords
class Encoder(abc.ABC):
    """A model that encodes texts: code written for one kind of encoder runs on the others.

    `headlight.Client` asks a service, `headlight.runtime.Runtime` computes in this process.
    `headlight.AsyncClient` has the same methods as coroutines.

    An input is a text, a pair of texts (a tuple of two), or token ids with special tokens included.
    Token ids are integers, in a list or a NumPy array. A method that takes `texts` returns one
    result for each, and a lone text counts as a list of one; `encode` alone returns one vector for
    a lone text.

    Every method may raise the errors of `headlight.errors`. The caller can correct InvalidInput and
    NotFound. A closed encoder raises ValueError.
    """

    def encode(
        self,
        texts: Iterable[Input] | str,
        *,
        dimensions: int | None = None,
        dtype: VectorType = "float32",
        normalize: bool | None = None,
        head_mask: ArrayLike | None = None,
        **reading: Unpack[Reading],
    ) -> NDArray[Any]:
        """Return pooled vectors in the order of the inputs, or the vector of a lone text.

        Args:
            texts: the inputs, any number. A tuple of two texts is two inputs here; for one pair
                write `[("first", "second")]`.
            dimensions: entries kept, from the first; None: all.
            dtype: "float32", "float16", "int8" (needs ranges in the bundle), "binary" or "ubinary"
                (8 signs a byte; needs dimensions that 8 divides).
            normalize: whether the entries kept get unit length; None: as the model does.
            role: "query" or "document", what the texts are to a search. It chooses among the
                model's prompts: "query"; "document", "passage" or "corpus". A model with a vector
                for each token also reads them by its rules for that role. None: "document" there.
            prompt_name: one of the model's prompts, to go before each text. Neither this nor
                `prompt`: that of the role, else the model's default, if it has one.
            prompt: any text instead; empty: no prompt, not even the default.
            truncate: side of a too-long text to cut off, "end" or "start"; "only_second", the end
                of a pair's second text alone; or "refuse". None: as the service does
                (`ModelDescription.truncation`); without a service, refuse. A prompt is never cut.
            special_tokens: for special tokens spelled out in a text or prompt, as "[SEP]". "parse"
                makes special tokens of them, "text" plain characters. None: as the service does
                (`ModelDescription.special_tokens`).
            empty_texts: "refuse" an empty text, or "encode" its prompt and special tokens, as
                sentence-transformers does; None: as the service does, without one refuse.
            priority: "interactive", or "bulk" for requests that may wait for all others; None:
                "interactive". Without a service it has no effect.
            head_mask: [layers, heads] from 0 to 1, factors of each head's contribution: 0 removes
                it; None: ones.

        Returns:
            float32 [D] for a lone text, else [N, D]; or in the requested type and width.
        """
        if not isinstance(dtype, str):
            raise InvalidInput("dtype", Reason.SEVERAL_TYPES)
        lone = isinstance(texts, str)
        return self._pooled(
            texts,
            _pooled_spec(dimensions, dtype, normalize),
            head_mask,
            reading,
            lambda embeddings: embeddings.vectors[0] if lone else embeddings.vectors,
        )

    def encode_with_info(
        self,
        texts: Iterable[Input] | str,
        *,
        dimensions: int | None = None,
        dtype: VectorType | Sequence[VectorType] = "float32",
        normalize: bool | None = None,
        head_mask: ArrayLike | None = None,
        **reading: Unpack[Reading],
    ) -> Embeddings:
        """Encode in one or several types, with token counts, truncation and weights.

        Arguments as `encode`, but `dtype` may name several. A lone text gives one row.
        """
        return self._pooled(
            texts,
            _pooled_spec(dimensions, dtype, normalize),
            head_mask,
            reading,
            lambda embeddings: embeddings,
        )

    def encode_tokens(
        self,
        texts: Iterable[Input] | str,
        *,
        skip_special: bool = False,
        skip_prompt: bool = False,
        normalize: bool = False,
        dtype: RowType = "float32",
        **reading: Unpack[Reading],
    ) -> list[NDArray[Any]]:
        """Return the vector of each token: [n, D] for an input of n tokens.

        Args:
            texts: the inputs, as in `encode`.
            skip_special: leave out special tokens, as late interaction does.
            skip_prompt: leave out the tokens of the prompt.
            normalize: make each vector have unit length.
            dtype: "float32" or "float16".
            reading: as in `encode`.
        """
        return self._encode(
            texts,
            "tokens",
            TokensSpec(
                skip_special=skip_special,
                skip_prompt=skip_prompt,
                normalize=normalize,
                dtype=dtype,
            ),
            reading,
            lambda results: [each.vectors for each in results],
            details=False,
        )

    def token_vectors(
        self,
        texts: Iterable[Input] | str,
        *,
        skip_special: bool = False,
        skip_prompt: bool = False,
        normalize: bool = False,
        dtype: RowType = "float32",
        **reading: Unpack[Reading],
    ) -> list[TokenVectors]:
        """Return the vectors of `encode_tokens` together with their tokens and positions."""
        return self._encode(
            texts,
            "tokens",
            TokensSpec(
                skip_special=skip_special,
                skip_prompt=skip_prompt,
                normalize=normalize,
                dtype=dtype,
            ),
            reading,
            list,
        )

    def span_vectors(
        self,
        texts: Iterable[Input] | str,
        spans: Literal["sentences"] | Windows | Iterable[Iterable[tuple[int, int]]],
        *,
        include_special: bool = False,
        pooling: Literal["mean"] | None = None,
        dimensions: int | None = None,
        normalize: bool | None = None,
        dtype: RowType = "float32",
        beyond_max_length: bool = False,
        **reading: Unpack[Reading],
    ) -> list[SpanVectors]:
        """Return a vector for each span of each text, from one encoding of the text.

        The vectors of a span's tokens are averaged, without special tokens and prompt. The rest is
        as for pooled vectors ("late chunking").

        Args:
            texts: the inputs, as in `encode`; not pairs. Ids have only Windows.
            spans: "sentences", by the rule in docs/span-vectors.md; `headlight.Windows` of tokens;
                or for each text a list of its characters (start, end), in code points.
            include_special: count special tokens around the text as part of the spans at its ends.
            pooling: "mean" averages tokens although the model pools otherwise; None refuses that.
            dimensions, normalize: as in `encode`.
            dtype: "float32" or "float16".
            beyond_max_length: encode a text that is too long in overlapping windows, instead of
                `truncate`.
            reading: as in `encode`.
        """
        spec = SpansSpec(
            kind=cast("Any", spans),
            include_special=include_special,
            pooling=pooling,
            dimensions=dimensions,
            normalize=normalize,
            dtype=dtype,
            beyond_max_length=beyond_max_length,
        )
        return self._span_vectors(texts, spec, reading)

    def attend(
        self,
        text: Input,
        layers: IndicesLike = None,
        **reading: Unpack[Reading],
    ) -> Attention:
        """Return the whole attention maps of one text of any length.

        Args:
            text: one input: a tuple of two texts is a pair here, but two inputs for `encode`.
            layers: indices from 0, or negative from the end; None: all.
            reading: as in `encode`.
        """
        spec, given = AttentionSpec.of(layers), text_of(text)
        attention: Attention = self._encode(
            [text], "attention", spec, reading, lambda results: results[0].whole(given)
        )
        return attention

    def attention(
        self,
        texts: Iterable[Input] | str,
        spec: AttentionSpec,
        *,
        head_mask: ArrayLike | None = None,
        **reading: Unpack[Reading],
    ) -> list[AttentionMaps]:
        """Return the attention of each input as a spec selects and reduces it.

        Args:
            texts: the inputs, as in `encode`.
            spec: see `AttentionSpec.of`.
            reading: as in `encode`.
            head_mask: as in `encode`.
        """
        return self._encode(texts, "attention", spec, reading, list, head_mask=head_mask)

    def attention_pieces(
        self,
        text: Input,
        spec: AttentionSpec,
        **reading: Unpack[Reading],
    ) -> Iterator[AttentionPiece]:
        """Yield the attention of one text in order, in pieces.

        From a service a piece has at most 1 MiB (or one row), to save memory. The service sends no
        faster than the caller takes pieces. It ends the call if the caller takes none for its
        `--stall-seconds`. There is a retry only before the first piece. A runtime in this process
        yields a piece for each layer. Arguments as for `attention`, without a head mask; not with
        uint8 or top_k. The arguments are checked, and a client's timeout begins, now. A client's
        request is sent with the first piece.
        """
        return self._attention_pieces(text, spec, reading)

    def attention_bytes(
        self,
        text: Input,
        spec: AttentionSpec,
        **reading: Unpack[Reading],
    ) -> int:
        """Return the bytes of data of `attention` for one text. Computes nothing.

        Arguments as `attention`, without a head mask.
        """
        return self._attention_bytes(text, spec, reading)

    def rerank(
        self,
        query: str,
        documents: Iterable[str] | str,
        *,
        top_n: int | None = None,
        prompt_name: str | None = None,
        prompt: str | None = None,
        truncate: Truncate | None = "end",
        special_tokens: SpecialTokens | None = None,
        empty_texts: EmptyTexts | None = None,
        priority: Priority | None = None,
    ) -> list[RankedDocument]:
        """Return documents by their score for a query, the best first, from a model that reranks.

        Args:
            query: a text.
            documents: texts, any number from 1.
            top_n: the best that are returned; None: all.
            prompt_name, prompt: as in `encode`. The prompt goes before the query, or where the
                model's template of pairs has an instruction.
            truncate: "end" or "start" cut that side of the longer of query and document, as
                sentence-transformers cuts the end; "only_second" cuts the end of the document
                alone, and refuses a query that leaves no room for it; "refuse" cuts nothing. None:
                as the service does.
            special_tokens, empty_texts, priority: as in `encode`.
        """
        reading = Reading(
            prompt_name=prompt_name,
            prompt=prompt,
            truncate=truncate,
            special_tokens=special_tokens,
            empty_texts=empty_texts,
            priority=priority,
        )
        return self._rerank(query, documents_of(query, documents, top_n), top_n, reading)

    def classify(
        self,
        texts: Iterable[Input] | str,
        **reading: Unpack[Reading],
    ) -> list[list[LabelScore]]:
        """Return all labels of each text or pair, the likeliest first.

        The model must classify. Arguments as in `encode`; the prompt of a pair as in `scores`.
        """
        return self._classify(texts, reading)

    def scores(
        self,
        texts: Iterable[Input] | str,
        **reading: Unpack[Reading],
    ) -> list[Scores]:
        """Return scores and logits of each text or pair, or of each of its tokens, as arrays.

        Arguments as in `encode`. The prompt of a pair goes before its first text, or where the
        model's template of pairs has it, as an instruction.
        """
        return self._scores(texts, reading)

    def encode_sparse(
        self,
        texts: Iterable[Input] | str,
        *,
        top_k: int | None = None,
        min_weight: float = 0.0,
        pieces: bool = False,
        **reading: Unpack[Reading],
    ) -> list[SparseVector]:
        """Return the terms of the vocabulary that each text has weight in, for an inverted index.

        Args:
            texts: as in `encode`.
            top_k: terms of a vector, the largest weights; None: 1024.
            min_weight: leave out terms of less weight.
            pieces: whether results have the vocabulary's spelling of each term.
            reading: as in `encode`.
        """
        spec = SparseSpec(top_k=top_k, min_weight=min_weight, pieces=pieces)
        vectors: list[SparseVector] = self._encode(
            texts, "sparse", spec, reading, list, details=False
        )
        return vectors

    def encode_multi_vector(
        self,
        texts: Iterable[Input] | str,
        *,
        dtype: VectorType = "float32",
        **reading: Unpack[Reading],
    ) -> list[NDArray[Any]]:
        """Return a vector for each token, to be matched one by one (ColBERT): [n, D] of each text.

        A query's score for a document is the sum, over the query's vectors, of the largest product
        with one of the document's.

        Args:
            texts: as in `encode`.
            dtype: "float32", "float16", "int8" (127 times the numbers, rounded), "binary" or
                "ubinary" (8 signs a byte).
            reading: as in `encode`. The role counts: queries and documents are read differently.
        """
        spec = MultiVectorSpec(dtype=dtype)
        vectors: list[NDArray[Any]] = self._encode(
            texts,
            "multi_vector",
            spec,
            reading,
            lambda results: [each.vectors for each in results],
            details=False,
        )
        return vectors

    def multi_vectors(
        self,
        texts: Iterable[Input] | str,
        *,
        dtype: VectorType = "float32",
        **reading: Unpack[Reading],
    ) -> list[TokenVectors]:
        """Return the vectors of `encode_multi_vector` with their tokens and positions."""
        spec = MultiVectorSpec(dtype=dtype)
        vectors: list[TokenVectors] = self._encode(texts, "multi_vector", spec, reading, list)
        return vectors

    def compare(
        self,
        query: Input,
        passages: Iterable[Input] | str,
        *,
        late_interaction: bool = False,
        evidence: EvidenceLike = (),
        matrix: RowType | None = None,
        matrix_max_bytes: int | None = None,
        matrix_kind: MatrixKind = "cosine",
        sort: bool = False,
        query_prompt_name: str | None = None,
        query_prompt: str | None = None,
        passage_prompt_name: str | None = None,
        passage_prompt: str | None = None,
        truncate: Truncate | None = None,
        special_tokens: SpecialTokens | None = None,
        priority: Priority | None = None,
    ) -> Comparison:
        """Compare a query with passages: their scores, and evidence of what matched.

        A model that reranks reads the query and a passage as a pair of texts. The score is the
        pair's logit, and evidence by "occlusion" or "attention" has units of both.

        Args:
            query: a text or ids.
            passages: texts or ids, any number from 1.
            late_interaction: also score by late interaction: `max_sim_mean`.
            evidence: a method ("span", "contributions", "occlusion", "late_interaction",
                "attention"), an EvidenceSpec, or a list of them; see `headlight.comparison`.
            matrix: "float32" or "float16": also return a number for each token of the query and
                each of the passage; None: do not.
            matrix_max_bytes: refuse larger matrices; None: the service's limits alone.
            matrix_kind: that number: the "cosine" of the two tokens' vectors, or their
                "contribution" to the score, of all tokens.
            sort: return the passages with the highest scores first.
            query_prompt_name, query_prompt: prompt of the query, as in `encode`. Neither: the
                model's prompt "query" if it has one, else its default. Of a model that reranks
                it is the prompt of `rerank`.
            passage_prompt_name, passage_prompt: prompt of each passage. Neither: the model's prompt
                "document", "passage" or "corpus" if it has one, else its default. A model that
                reranks takes none.
            truncate, special_tokens, priority: as in `encode`.
        """
        spec = CompareSpec(
            late_interaction=late_interaction,
            evidence=evidence_specs(evidence),
            matrix=matrix,
            matrix_max_bytes=matrix_max_bytes,
            matrix_kind=matrix_kind,
            sort=sort,
        )
        reading = Reading(truncate=truncate, special_tokens=special_tokens, priority=priority)
        of_query: Reading = {
            **reading,
            "role": "query",
            "prompt_name": query_prompt_name,
            "prompt": query_prompt,
        }
        of_passages: Reading = {
            **reading,
            "role": "document",
            "prompt_name": passage_prompt_name,
            "prompt": passage_prompt,
        }
        return self._compare(query, as_list(passages, "passages"), spec, of_query, of_passages)

    def occlusion(
        self,
        text: Input,
        tokens: TokensLike | None = None,
        *,
        target: str | ArrayLike | None = None,
        prompt_name: str | None = None,
        prompt: str | None = None,
        truncate: Truncate | None = None,
        special_tokens: SpecialTokens | None = None,
        priority: Priority | None = None,
    ) -> Occlusion:
        """Return how far the pooled vector of one text moves as each token is hidden.

        It shows the tokens that the vector depends on, without attention. It costs one encoding for
        each hidden token. With a target, it also returns how far the similarity to it falls.

        Args:
            text: the input, as in `attend`.
            tokens: the tokens to hide; None: all but special tokens. See
                `headlight.spec.TokensLike`.
            target: a text, encoded as a query of `compare` with its default prompt; or a vector,
                float [D] as from `encode`.
            prompt_name, prompt, truncate, special_tokens, priority: as in `encode`.
        """
        reading = Reading(
            prompt_name=prompt_name,
            prompt=prompt,
            truncate=truncate,
            special_tokens=special_tokens,
            priority=priority,
        )
        return self._occlusion(text, tokens, target, reading)

    def hidden(
        self,
        text: Input,
        layers: IndicesLike = None,
        *,
        tokens: TokensLike = "all",
        dtype: Number = "float32",
        **reading: Unpack[Reading],
    ) -> Hidden:
        """Return hidden states of one text: 0 is the embedding output, l the output of block l.

        Args:
            text: the input, as in `attend`.
            layers: indices from 0, or negative from the end; None: all.
            tokens: the tokens; see `headlight.spec.TokensLike`.
            dtype: "float32" or "float16".
            reading: as in `encode`.
        """
        spec = HiddenSpec(
            layers=indices_of("layers", layers), tokens=tokens_like("tokens", tokens), dtype=dtype
        )
        states: Hidden = self._encode([text], "hidden", spec, reading, lambda results: results[0])
        return states

    def tokenize(
        self,
        texts: Iterable[Input] | str,
        **prompting: Unpack[Prompting],
    ) -> list[TokenList]:
        """Return the tokens of each input, without running the model. Nothing is truncated.

        Arguments as in `encode`.
        """
        return self._tokens(texts, prompting)

    def similarity(self, a: ArrayLike, b: ArrayLike) -> NDArray[np.float32]:
        """Compare vectors by the model's measure: `ModelDescription.similarity`, else cosine.

        Args:
            a: floats [N, D], or [D] for one vector, as from `encode`.
            b: floats [M, D] or [D].

        Returns:
            float32 [N, M]; a larger number means nearer. Distances ("euclidean", "manhattan") are
            negative, as in sentence-transformers.
        """
        return self._similarity(a, b)

    @abc.abstractmethod
    def model(self) -> ModelDescription:
        """Return the model, its runtime, limits and parity with PyTorch.

        A client asks the service each time. Without a service there are no limits: each is 0.
        """

    @abc.abstractmethod
    def close(self) -> None:
        """End it. Running and later methods raise ValueError."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @abc.abstractmethod
    def _pooled(
        self,
        texts: Iterable[Input] | str,
        spec: PooledSpec,
        head_mask: ArrayLike | None,
        reading: Reading,
        read: Callable[[Embeddings], T],
    ) -> T:
        """Return what `read` takes from the embeddings."""

    @abc.abstractmethod
    def _rerank(
        self, query: str, documents: list[str], top_n: int | None, reading: Reading
    ) -> list[RankedDocument]: ...

    @abc.abstractmethod
    def _classify(
        self, texts: Iterable[Input] | str, reading: Reading
    ) -> list[list[LabelScore]]: ...

    @abc.abstractmethod
    def _scores(self, texts: Iterable[Input] | str, reading: Reading) -> list[Scores]: ...

    @abc.abstractmethod
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
        """Return what `read` takes from the results of one output, one for each input.

        `details`: whether the results have their tokens.
        """

    @abc.abstractmethod
    def _span_vectors(
        self, texts: Iterable[Input] | str, spec: SpansSpec, reading: Reading
    ) -> list[SpanVectors]: ...

    @abc.abstractmethod
    def _attention_pieces(
        self, text: Input, spec: AttentionSpec, reading: Reading
    ) -> Iterator[AttentionPiece]: ...

    @abc.abstractmethod
    def _attention_bytes(self, text: Input, spec: AttentionSpec, reading: Reading) -> int: ...

    @abc.abstractmethod
    def _compare(
        self,
        query: Input,
        passages: list[Input],
        spec: CompareSpec,
        query_reading: Reading,
        passage_reading: Reading,
    ) -> Comparison: ...

    @abc.abstractmethod
    def _occlusion(
        self,
        text: Input,
        tokens: TokensLike | None,
        target: str | ArrayLike | None,
        reading: Reading,
    ) -> Occlusion: ...

    @abc.abstractmethod
    def _tokens(self, texts: Iterable[Input] | str, prompting: Prompting) -> list[TokenList]: ...

    @abc.abstractmethod
    def _similarity(self, a: ArrayLike, b: ArrayLike) -> NDArray[np.float32]: ...
