"""The client: what each method asks for, and how its flow is executed by blocking."""

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
from headlight.results import Attention, AttentionMaps, Embeddings, Hidden, Occlusion, TokenList, TokenVectors
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
    """A connection to a Headlight service. Threads may share one; it closes with its `with` block, or by `close()`.

    An input is a text, a pair of texts (a tuple of two), or a sequence of token ids with special tokens included
    (integers, a list or a NumPy array). Every method may raise what `headlight.errors` lists: InvalidInput and NotFound
    for what the caller can mend, Overloaded (with a delay, where the server named one), Unavailable (where nobody
    answers: after some attempts within a second; in the middle of a list, and for streams, after half a minute, for what came is not to
    be lost), DeadlineExceeded, EngineError, BadAnswer (where what the server sent is not what was asked for).

    Args:
        target: "host:port", or a target of gRPC's with its scheme, as "dns:///name:port" or "unix:path". All addresses of the name
            are used in turn.
        model: name of the model; empty: the only one that the server has.
        timeout: seconds that one method may take in all; None: as long as it needs. A service that vanishes or freezes while a call
            waits for it is then noticed after some six minutes; sooner with `options=[("grpc.keepalive_time_ms", 30_000)]`, for
            Headlight's service lets clients ping every 10 s. What else may stand between may not, so that it is no default.
        tls: whether to use TLS, with gRPC's default certificate authorities. Any other argument of TLS implies it.
        credentials: use TLS with these instead.
        tls_ca: file of the authorities to trust instead, PEM.
        tls_cert, tls_key: files of a certificate to show, and of its key, PEM: for mutual TLS. All three files are looked at again at
            each call: where they changed, the call goes over a new connection, and those that run end on theirs. What cannot be used,
            as a file half written, changes nothing.
        tls_server_name: the name that the server's certificate must have; None: that of the target. For a port that is forwarded.
        token: sent with every call, as `authorization: Bearer ...`. In plaintext, too, where there is no TLS: for a mesh that
            encrypts.
        token_file: the same from a file, which is read again when it changes.
        concurrency: calls in flight at once for a list that needs several.
        options: gRPC channel arguments, over those of `headlight.client.channel`.

    Raises:
        InvalidInput: the target is none, the model no text, or the timeout no number.
        ValueError: the concurrency is no whole number from 1, or what is said of TLS and tokens cannot be used.
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
        """Pooled vectors in the order of the inputs; a long list becomes several calls.

        Args:
            texts: the inputs; a lone text counts as a list of one. A tuple of two texts is two inputs here; for one pair write
                `[("first", "second")]`.
            spec: how many dimensions, whether normalised, in which one type; None: whole, as the model has them, float32.
            head_mask: [layers, heads], by which what each head contributes is multiplied: 0 removes it; None: ones.
            reading: truncate, prompt, prompt_name, priority; see `headlight.wire.client_codec.Reading`.

        Returns:
            float32 [N, D], or what the spec says; [0, D] for no inputs.
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
        """As `encode`, in any number of types, with the tokens of each input, what was cut off, and which weights answered."""
        return self._run(then(self._call(self._stub.Encode, texts, Pooled, spec, head_mask, reading), Pooled.result))

    def encode_tokens(
        self, texts: Iterable[Input] | str, spec: TokensSpec | None = None, **reading: Unpack[Reading]
    ) -> list[NDArray[Any]]:
        """The vector of each token: float32 [n, D] for an input of n, special ones included unless the spec says otherwise."""
        return self._run(self._stream(texts, large_outputs.bare_token_vectors, spec, reading))

    def token_vectors(
        self, texts: Iterable[Input] | str, spec: TokensSpec | None = None, **reading: Unpack[Reading]
    ) -> list[TokenVectors]:
        """As `encode_tokens`, with the tokens, and which of them the vectors are of."""
        return self._run(self._stream(texts, large_outputs.token_vectors, spec, reading))

    def attend(self, text: Input, layers: IndicesLike = None, **reading: Unpack[Reading]) -> Attention:
        """Whole maps of attention of one text of any length: they arrive in frames that default message limits let through.

        Args:
            text: the input. One alone, so that a tuple of two texts is a pair here, where for `encode` it is two inputs.
            layers: which, from 0, or negative from the end; None: all.
            reading: as in `encode`.
        """
        return self._run(then(self._stream([text], large_outputs.whole_attention, layers, reading), only))

    def attention(
        self,
        texts: Iterable[Input] | str,
        spec: AttentionSpec,
        *,
        head_mask: ArrayLike | None = None,
        **reading: Unpack[Reading],
    ) -> list[AttentionMaps]:
        """Attention of each input in the form that a spec says: chosen, reduced, in fewer bytes.

        Args:
            texts: the inputs, as in `encode`.
            spec: see `AttentionSpec.of`.
            head_mask: as in `encode`.
            reading: as in `encode`.
        """
        return self._run(self._stream(texts, large_outputs.attention_maps, spec, reading, head_mask))

    def attention_pieces(
        self, text: Input, spec: AttentionSpec, **reading: Unpack[Reading]
    ) -> Iterator[AttentionPiece]:
        """Attention of one text piece by piece, each at most 1 MiB (or a row), in order: for more than should be in memory at once.

        The service sends no faster than the pieces are taken; who takes none for its `--stall-seconds` is cut. Sent again only while
        nothing of the answer has come. Arguments as `attention`, without a head mask; not with uint8 or top_k. They are checked, and
        the timeout begins, now; the service is asked when the first piece is.
        """
        return self._iterate(self._pieces(text, spec, reading))

    def attention_bytes(self, text: Input, spec: AttentionSpec, **reading: Unpack[Reading]) -> int:
        """The bytes of data that `attention` of one text would have. Nothing is computed. Arguments as `attention`."""
        request = unary_calls.dry_run(self._model, text, spec, reading)
        answer = self._ask(self._stub.Encode, request, self._deadline())
        return self._run(then(answer, lambda response: unary_calls.data_bytes(response, self._model)))

    def occlusion(self, text: Input, tokens: TokensLike | None = None, **reading: Unpack[Reading]) -> Occlusion:
        """How far the pooled vector of one text moves when each token is hidden: what it rests on, without looking at attention.

        Costs an encoding for each token hidden.

        Args:
            text: the input, as in `attend`.
            tokens: which to hide; None: all that are not special. See `headlight.spec.TokensLike`.
            reading: as in `encode`.
        """
        request = unary_calls.occlusion_request(self._model, text, tokens, reading)
        answer = self._ask(self._stub.Occlude, request, self._deadline())
        return self._run(then(answer, lambda response: unary_calls.occlusion(response, self._model, text)))

    def hidden(
        self,
        text: Input,
        layers: IndicesLike = None,
        *,
        tokens: TokensLike = "all",
        dtype: Number = "float32",
        **reading: Unpack[Reading],
    ) -> Hidden:
        """Hidden states of one text: 0 is the embedding output, l the output of block l.

        Args:
            text: the input, as in `attend`.
            layers: which, from 0, or negative from the end; None: all.
            tokens: of which tokens; see `headlight.spec.TokensLike`.
            dtype: "float32" or "float16".
            reading: as in `encode`.
        """
        spec = HiddenSpec(layers=indices_of("layers", layers), tokens=tokens_like("tokens", tokens), dtype=dtype)
        return self._run(then(self._stream([text], large_outputs.hidden, spec, reading), only))

    def tokenize(self, texts: Iterable[Input] | str, **prompting: Unpack[Prompting]) -> list[TokenList]:
        """The tokens of each input, without running the model. Nothing is cut off.

        `prompt`, `prompt_name` and `special_tokens` as in `encode`.
        """
        return self._run(then(self._call(self._stub.Tokenize, texts, Tokenized, prompting), Tokenized.result))

    def model(self) -> ModelDescription:
        """The model, what runs it, its limits, and how far it is from PyTorch. Asks the server each time."""
        return self._run(self._learn(self._deadline()))

    def _discard(self, channel: grpc.Channel) -> None:
        channel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends the connection; calls in flight, and any later one, raise ValueError."""
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
    """The response of a call, once it is there. One that the server cancelled raises itself, as failed ones do."""
    try:
        return call.result()
    except grpc.FutureCancelledError:
        raise call from None
