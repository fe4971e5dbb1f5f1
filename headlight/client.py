"""The client."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Any, Self

import grpc
from numpy.typing import ArrayLike

from headlight import stream
from headlight.channel import ClientBase, Options, Retries, seconds_left
from headlight.convert import Input, Truncate, as_list, from_model
from headlight.description import ModelDescription
from headlight.errors import MixedWeights, Overloaded, Unavailable
from headlight.pb import headlight_pb2 as pb
from headlight.pieces import AttentionPiece, Pieces
from headlight.results import Attention, AttentionMaps, Embeddings, Floats, Hidden, Occlusion, TokenList
from headlight.spec import AttentionSpec, HiddenSpec, IndicesLike, Number, TokenChoice, indices_of
from headlight.work import Pooled, RequestT, ResponseT, ResultT, Tokenized, UnaryWork


class Client(ClientBase[grpc.Channel]):
    """A connection to a Headlight service. Threads may share one; it closes with its `with` block, or by `close()`.

    An input is a text, a pair of texts (a tuple of two), or a sequence of token ids with special tokens included
    (integers, a list or a NumPy array). Every method may raise what `headlight.errors` lists: InvalidInput and NotFound
    for what the caller can mend, Overloaded (with a delay, where the server named one), Unavailable (after a few
    attempts), DeadlineExceeded, EngineError.

    Args:
        target: "host:port". All addresses of the name are used in turn.
        model: name of the model; empty: the only one that the server has.
        timeout: seconds that one method may take in all; None: as long as it needs.
        tls: whether to use TLS, with gRPC's default certificate authorities.
        credentials: use TLS with these instead.
        concurrency: calls in flight at once for a list that needs several.
        options: gRPC channel arguments, over those of `headlight.channel`.
    """

    def _open(self, target: str, credentials: grpc.ChannelCredentials | None, options: Options) -> grpc.Channel:
        if credentials is None:
            return grpc.insecure_channel(target, options)
        return grpc.secure_channel(target, credentials, options)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends the connection; calls in flight fail."""
        self._channel.close()

    def encode(
        self, texts: Iterable[Input] | str, *, head_mask: ArrayLike | None = None, truncate: Truncate = None
    ) -> Floats:
        """Pooled vectors in the order of the inputs; a long list becomes several calls.

        Args:
            texts: the inputs; a lone text counts as a list of one.
            head_mask: [layers, heads], by which what each head contributes is multiplied: 0 removes it; None: ones.
            truncate: which side of an input too long to cut off; None: refuse it.

        Returns:
            float32 [N, D]; [0, D] for no inputs.
        """
        return self.encode_with_info(texts, head_mask=head_mask, truncate=truncate).vectors

    def encode_with_info(
        self, texts: Iterable[Input] | str, *, head_mask: ArrayLike | None = None, truncate: Truncate = None
    ) -> Embeddings:
        """As `encode`, with the number of tokens of each input, what was cut off, and which weights answered."""
        deadline = self._deadline()
        work = Pooled(self._describe(deadline), self._model, as_list(texts), truncate, head_mask)
        return self._call(self._stub.Encode, work, deadline)

    def encode_tokens(self, texts: Iterable[Input] | str, *, truncate: Truncate = None) -> list[Floats]:
        """The vector of each token, special ones included: float32 [n, D] for an input of n. Arguments as `encode`."""
        deadline = self._deadline()
        work = stream.token_vectors(self._describe(deadline), self._model, as_list(texts), truncate)
        return self._stream(work, deadline)

    def attend(self, text: Input, layers: IndicesLike = None, *, truncate: Truncate = None) -> Attention:
        """Whole maps of attention of one text of any length: they arrive in frames that default message limits let through.

        Args:
            text: the input.
            layers: which, from 0, or negative from the end; None: all.
            truncate: as in `encode`.
        """
        deadline = self._deadline()
        work = stream.whole_attention(self._describe(deadline), self._model, text, layers, truncate)
        return self._stream(work, deadline)[0]

    def attention(
        self,
        texts: Iterable[Input] | str,
        spec: AttentionSpec,
        *,
        head_mask: ArrayLike | None = None,
        truncate: Truncate = None,
    ) -> list[AttentionMaps]:
        """Attention of each input in the form that a spec says: chosen, reduced, in fewer bytes.

        Args:
            texts: the inputs; a lone text counts as a list of one.
            spec: see `AttentionSpec.of`.
            head_mask: as in `encode`.
            truncate: as in `encode`.
        """
        deadline = self._deadline()
        described = self._describe(deadline)
        work = stream.attention_maps(described, self._model, as_list(texts), spec, truncate, head_mask)
        return self._stream(work, deadline)

    def attention_pieces(
        self, text: Input, spec: AttentionSpec, *, truncate: Truncate = None
    ) -> Iterator[AttentionPiece]:
        """Attention of one text piece by piece, each at most 1 MiB (or a row), in order: for more than should be in memory at once.

        The service sends no faster than the pieces are taken; who takes none for its `--stall-seconds` is cut. Not sent again where
        a connection is lost. Arguments as `attention`, without a head mask; not with uint8 or top_k.
        """
        pieces = Pieces(self._model, text, spec, truncate)
        call = self._stub.EncodeStream(iter([pieces.request]), timeout=seconds_left(self._deadline()))
        try:
            with self._errors():
                for frame in call:
                    yield from pieces.receive(frame)
        finally:
            call.cancel()
        pieces.finish()

    def attention_bytes(self, text: Input, spec: AttentionSpec, *, truncate: Truncate = None) -> int:
        """The bytes of data that `attention` of one text would have. Nothing is computed."""
        request = stream.dry_run(self._model, text, spec, truncate)
        with self._errors():
            response = self._stub.Encode(request, timeout=seconds_left(self._deadline()))
        return int(response.data_bytes)

    def occlusion(self, text: Input, tokens: TokenChoice | None = None, *, truncate: Truncate = None) -> Occlusion:
        """How far the pooled vector of one text moves when each token is hidden: what it rests on, without looking at attention.

        Costs an encoding for each token hidden.

        Args:
            text: the input.
            tokens: which to hide; None: all that are not special. See `headlight.spec.TokenChoice`.
            truncate: as in `encode`.
        """
        request = stream.occlusion_request(self._model, text, tokens, truncate)
        with self._errors():
            response = self._stub.Occlude(request, timeout=seconds_left(self._deadline()))
        return stream.occlusion(response)

    def hidden(
        self,
        text: Input,
        layers: IndicesLike = None,
        *,
        tokens: TokenChoice = "all",
        dtype: Number = "float32",
        truncate: Truncate = None,
    ) -> Hidden:
        """Hidden states of one text: 0 is the embedding output, l the output of block l.

        Args:
            text: the input.
            layers: which, from 0, or negative from the end; None: all.
            tokens: of which tokens; see `headlight.spec.TokenChoice`.
            dtype: "float32" or "float16".
            truncate: as in `encode`.
        """
        deadline = self._deadline()
        spec = HiddenSpec(layers=indices_of("layers", layers), tokens=tokens, dtype=dtype)
        work = stream.hidden(self._describe(deadline), self._model, text, spec, truncate)
        return self._stream(work, deadline)[0]

    def tokenize(self, texts: Iterable[Input] | str) -> list[TokenList]:
        """The tokens of each input, without running the model. Nothing is cut off."""
        deadline = self._deadline()
        return self._call(
            self._stub.Tokenize, Tokenized(self._describe(deadline), self._model, as_list(texts)), deadline
        )

    def model(self) -> ModelDescription:
        """The model, what runs it, its limits, and how far it is from PyTorch. Asks the server each time."""
        self._description = None
        return self._describe(self._deadline())

    def _describe(self, deadline: float | None) -> ModelDescription:
        if self._description is None:
            with self._errors():
                response = self._stub.GetModel(pb.GetModelRequest(model=self._model), timeout=seconds_left(deadline))
            self._description = from_model(response)
        return self._description

    def _call(self, method: Any, work: UnaryWork[RequestT, ResponseT, ResultT], deadline: float | None) -> ResultT:
        pending: deque[tuple[range, RequestT, Any]] = deque()
        retries = Retries(deadline)

        def start(request: RequestT) -> Any:
            return method.future(request, timeout=seconds_left(deadline))

        def finish_first() -> None:
            part, request, call = pending.popleft()
            try:
                with self._errors(part.start):
                    work.receive(part, response_of(call))
                retries.reset()
            except Overloaded as error:
                time.sleep(retries.delay(error))
                pending.appendleft((part, request, start(request)))

        try:
            for part, request in work.requests():
                while len(pending) == self._concurrency:
                    finish_first()
                pending.append((part, request, start(request)))
            while pending:
                finish_first()
        finally:
            for _, _, call in pending:
                call.cancel()
        return work.result()

    def _stream(self, work: stream.Streamed[ResultT], deadline: float | None) -> list[ResultT]:
        retries = Retries(deadline)
        while unanswered := work.unanswered:
            call = self._stub.EncodeStream(work.requests(), timeout=seconds_left(deadline))
            try:
                with self._errors():
                    for frame in call:
                        work.receive(frame)
                break
            except MixedWeights:
                raise
            except (Overloaded, Unavailable) as error:
                if work.unanswered < unanswered:
                    retries.reset()
                time.sleep(retries.delay(error))
            finally:
                call.cancel()
        return work.result()


def response_of(call: Any) -> Any:
    """The response of a call, once it is there. One that the server cancelled raises itself, as failed ones do."""
    try:
        return call.result()
    except grpc.FutureCancelledError:
        raise call from None
