"""Blocking client: its methods, and the blocking execution of their flows."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack

import grpc
from numpy.typing import ArrayLike, NDArray

from headlight.client.call_flow import (
    Command,
    Failure,
    Flow,
    LayOut,
    Linger,
    Pause,
    Read,
    Wait,
    only,
    output,
    run,
    steps,
    then,
)
from headlight.client.calls import large_outputs, unary_calls
from headlight.client.calls.attention_pieces import AttentionPiece
from headlight.client.calls.unary_calls import Pooled, Tokenized
from headlight.client.channel import BLOCKING_CONFIG
from headlight.client.client_flows import ClientFlows
from headlight.description import ModelDescription
from headlight.results import (
    Attention,
    AttentionMaps,
    Embeddings,
    Hidden,
    Occlusion,
    TokenList,
    TokenVectors,
)
from headlight.spec import (
    AttentionSpec,
    HiddenSpec,
    IndicesLike,
    Number,
    PooledSpec,
    TokensLike,
    TokensSpec,
    indices_of,
    tokens_like,
)
from headlight.wire.client_codec import Input, Prompting, Reading
from headlight.wire.status_errors import error_of_call
from headlight.wire.vector_codec import one_type

T = TypeVar("T")


class Client(ClientFlows[grpc.Channel]):
    """Connection to a Headlight service.

    Threads may share it; it closes with its `with` block, or by `close()`.

    An input is a text, a pair of texts (a tuple of two), or token ids with special tokens included.
    Token ids are integers, in a list or a NumPy array.

    Every method may raise the errors of `headlight.errors`. The caller can correct InvalidInput and
    NotFound. Overloaded has a retry delay if the server gave one. Unavailable means that no server
    answers. It is raised after some attempts within a second. For streams, and in the middle of a
    list, it is raised after half a minute, so that fewer answers are lost. BadAnswer means that the
    server's answer does not fit the request. DeadlineExceeded and EngineError may also be raised.

    Args:
        target: "host:port", or a target of gRPC's with its scheme, as "dns:///name:port" or
            "unix:path". Calls rotate over all addresses of the name.
        model: name of the model; empty: the only one that the server has.
        timeout: total seconds for one method; None: no limit. Without one, a call detects after
            some six minutes that a service vanished or froze.
            `options=[("grpc.keepalive_time_ms", 30_000)]` is faster, because Headlight's service
            allows a ping every 10 s. It is not the default, because a proxy in between may not
            allow it.
        tls: whether to use TLS, with gRPC's default certificate authorities. Any other TLS argument
            implies it.
        credentials: use TLS with these instead.
        tls_ca: file of the authorities to trust instead, PEM.
        tls_cert, tls_key: files of the client's certificate and its key, PEM: for mutual TLS. Each
            call checks all three files. After a change, new calls use a new connection, and running
            ones end on theirs. An unusable file, such as a half-written one, changes nothing.
        tls_server_name: the name that the server's certificate must have; None: that of the target.
            Use it for a forwarded port.
        token: token for every call, sent as `authorization: Bearer ...`. Without TLS it is sent in
            plaintext: only for a mesh that encrypts.
        token_file: file of the token; it is read again after a change.
        concurrency: calls in flight at once for a list that needs several.
        options: gRPC channel arguments; they override those of `headlight.client.channel`.

    Raises:
        InvalidInput: the target is not an address, the model is not a text, or the timeout is not a
            number.
        ValueError: the concurrency is not a whole number from 1, or TLS or token arguments cannot
            be used.
    """

    _service_config = BLOCKING_CONFIG
    _closed: threading.Event

    def encode(
        self,
        texts: Iterable[Input] | str,
        spec: PooledSpec | None = None,
        *,
        head_mask: ArrayLike | None = None,
        **reading: Unpack[Reading],
    ) -> NDArray[Any]:
        """Return pooled vectors in the order of the inputs; a long list becomes several calls.

        Args:
            texts: the inputs; a lone text counts as a list of one. A tuple of two texts is two
                inputs here; for one pair write `[("first", "second")]`.
            spec: dimensions, normalisation and one type; None: float32, as the model has them.
            head_mask: [layers, heads], factors of each head's contribution: 0 removes it; None:
                ones.
            reading: truncate, prompt, prompt_name, priority; see
                `headlight.wire.client_codec.Reading`.

        Returns:
            float32 [N, D], or as in the spec; [0, D] for no inputs.
        """
        work = self._call(self._stub.Encode, texts, Pooled, one_type(spec), head_mask, reading)
        return self._run(then(work, lambda done: done.result().vectors))

    def encode_with_info(
        self,
        texts: Iterable[Input] | str,
        spec: PooledSpec | None = None,
        *,
        head_mask: ArrayLike | None = None,
        **reading: Unpack[Reading],
    ) -> Embeddings:
        """Encode in any number of types, with counts, truncation and weights; see `encode`."""
        return self._run(
            then(
                self._call(self._stub.Encode, texts, Pooled, spec, head_mask, reading),
                Pooled.result,
            )
        )

    def encode_tokens(
        self,
        texts: Iterable[Input] | str,
        spec: TokensSpec | None = None,
        **reading: Unpack[Reading],
    ) -> list[NDArray[Any]]:
        """Return the vector of each token: float32 [n, D] for an input of n tokens.

        Special tokens are included unless the spec excludes them.
        """
        return self._run(self._stream(texts, large_outputs.bare_token_vectors, spec, reading))

    def token_vectors(
        self,
        texts: Iterable[Input] | str,
        spec: TokensSpec | None = None,
        **reading: Unpack[Reading],
    ) -> list[TokenVectors]:
        """Return the vectors of `encode_tokens` together with their tokens and positions."""
        return self._run(self._stream(texts, large_outputs.token_vectors, spec, reading))

    def attend(
        self, text: Input, layers: IndicesLike = None, **reading: Unpack[Reading]
    ) -> Attention:
        """Return the whole attention maps of one text of any length.

        They arrive in frames that fit default message limits.

        Args:
            text: one input: a tuple of two texts is a pair here, but two inputs for `encode`.
            layers: indices from 0, or negative from the end; None: all.
            reading: as in `encode`.
        """
        return self._run(
            then(self._stream([text], large_outputs.whole_attention, layers, reading), only)
        )

    def attention(
        self,
        texts: Iterable[Input] | str,
        spec: AttentionSpec,
        *,
        head_mask: ArrayLike | None = None,
        **reading: Unpack[Reading],
    ) -> list[AttentionMaps]:
        """Return the attention of each input, selected and reduced by a spec to fewer bytes.

        Args:
            texts: the inputs, as in `encode`.
            spec: see `AttentionSpec.of`.
            head_mask: as in `encode`.
            reading: as in `encode`.
        """
        return self._run(
            self._stream(texts, large_outputs.attention_maps, spec, reading, head_mask)
        )

    def attention_pieces(
        self, text: Input, spec: AttentionSpec, **reading: Unpack[Reading]
    ) -> Iterator[AttentionPiece]:
        """Yield the attention of one text in order, in pieces.

        A piece has at most 1 MiB (or one row), to save memory. The service sends no faster than the
        caller takes pieces. It ends the call if the caller takes none for its `--stall-seconds`.
        There is a retry only before the first piece. Arguments as for `attention`, without a head
        mask; not with uint8 or top_k. The call checks the arguments and starts the timeout. The
        request is sent when the first piece is taken.
        """
        return self._iterate(self._pieces(text, spec, reading))

    def attention_bytes(self, text: Input, spec: AttentionSpec, **reading: Unpack[Reading]) -> int:
        """Return the bytes of data of `attention` for one text, without computing it.

        Arguments as for `attention`.
        """
        request = unary_calls.dry_run(self._model, text, spec, reading)
        answer = self._ask(self._stub.Encode, request, self._deadline())
        return self._run(
            then(answer, lambda response: unary_calls.data_bytes(response, self._model))
        )

    def occlusion(
        self, text: Input, tokens: TokensLike | None = None, **reading: Unpack[Reading]
    ) -> Occlusion:
        """Return how far the pooled vector of one text moves as each token is hidden.

        It shows the tokens that the vector depends on, without attention. It costs one encoding for
        each hidden token.

        Args:
            text: the input, as in `attend`.
            tokens: the tokens to hide; None: all but special tokens. See
                `headlight.spec.TokensLike`.
            reading: as in `encode`.
        """
        request = unary_calls.occlusion_request(self._model, text, tokens, reading)
        answer = self._ask(self._stub.Occlude, request, self._deadline())
        return self._run(
            then(answer, lambda response: unary_calls.occlusion(response, self._model, text))
        )

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
        return self._run(then(self._stream([text], large_outputs.hidden, spec, reading), only))

    def tokenize(
        self, texts: Iterable[Input] | str, **prompting: Unpack[Prompting]
    ) -> list[TokenList]:
        """Return the tokens of each input, without running the model. Nothing is truncated.

        `prompt`, `prompt_name` and `special_tokens` as in `encode`.
        """
        return self._run(
            then(self._call(self._stub.Tokenize, texts, Tokenized, prompting), Tokenized.result)
        )

    def model(self) -> ModelDescription:
        """Return the model, its runtime, limits and parity with PyTorch.

        Asks the server each time.
        """
        return self._run(self._learn(self._deadline()))

    def _discard(self, channel: grpc.Channel) -> None:
        channel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the connection. Calls in flight and later calls raise ValueError."""
        for channel in self._end():
            channel.close()

    def _start(self, method: Any, request: Any, timeout: float | None) -> Any:
        return method.future(request, timeout=timeout)

    def _run(self, flow: Flow[T]) -> T:
        return run(flow, self._execute)

    def _iterate(self, flow: Flow[None]) -> Iterator[AttentionPiece]:
        """Execute a flow and pass on the pieces that it yields."""
        with contextlib.closing(steps(flow)) as commands:
            while (piece := output(commands, self._execute)) is not None:
                yield piece

    def _execute(self, command: Command) -> Any:
        match command:
            case Pause(seconds):
                return self._pause(seconds)
            case LayOut(make):
                return make()
            case Wait(call):
                return response_of(call)
            case Failure(call):
                return error_of_call(call) if call.done() else None
            case Read(call):
                return next(iter(call), None)
            case Linger(call, seconds):
                with contextlib.suppress(grpc.FutureTimeoutError, grpc.FutureCancelledError):
                    call.exception(seconds)

    def _pause(self, seconds: float) -> None:
        self._closed.wait(seconds)


def response_of(call: Any) -> Any:
    """Wait for a call and return its response.

    A call that the server cancelled is raised itself, as failed calls are.
    """
    try:
        return call.result()
    except grpc.FutureCancelledError:
        raise call from None
