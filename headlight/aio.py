"""The client for asyncio."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable, Sequence
from types import TracebackType
from typing import Any, Self, Unpack

import grpc
from numpy.typing import ArrayLike, NDArray

from headlight import single, stream
from headlight.channel import ClientBase, Options, Retries
from headlight.convert import Input, Prompting, Reading, as_list, from_model
from headlight.description import ModelDescription
from headlight.embeddings import Embeddings, TokenVectors
from headlight.ending import end_async
from headlight.errors import Overloaded, Unavailable
from headlight.pb import headlight_pb2 as pb
from headlight.pieces import AttentionPiece, Pieces
from headlight.results import Attention, AttentionMaps, Hidden, Occlusion, TokenList
from headlight.spec import (
    AttentionSpec,
    HiddenSpec,
    IndicesLike,
    Number,
    PooledSpec,
    TokenChoice,
    TokensSpec,
    indices_of,
)
from headlight.verdict import true_status
from headlight.wire_vectors import one_type
from headlight.work import Pooled, RequestT, ResponseT, ResultT, Tokenized, UnaryWork


class AsyncClient(ClientBase[grpc.aio.Channel]):
    """`headlight.client.Client` for asyncio: the same arguments, methods, results and errors, each method a coroutine.

    Make it inside a running event loop. It closes at the end of its `async with` block, or by `close()`. Cancelling a
    method cancels its calls.
    """

    _closing: Sequence[asyncio.Task[None]] = ()  # channels whose certificates were replaced

    def _open(self, target: str, credentials: grpc.ChannelCredentials | None, options: Options) -> grpc.aio.Channel:
        if credentials is None:
            return grpc.aio.insecure_channel(target, options)
        return grpc.aio.secure_channel(target, credentials, options)

    def _discard(self, channel: grpc.aio.Channel) -> None:
        closing = asyncio.create_task(channel.close(None))
        self._closing = [*(task for task in self._closing if not task.done()), closing]

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Ends the connection; calls in flight fail, and any later one raises ValueError."""
        for channel in self._end():
            await channel.close(None)
        await asyncio.gather(*self._closing)

    async def encode(
        self,
        texts: Iterable[Input] | str,
        spec: PooledSpec | None = None,
        *,
        head_mask: ArrayLike | None = None,
        **reading: Unpack[Reading],
    ) -> NDArray[Any]:
        """Pooled vectors, float32 [N, D] unless a spec says otherwise; see `Client.encode`."""
        return (await self.encode_with_info(texts, one_type(spec), head_mask=head_mask, **reading)).vectors

    async def encode_with_info(
        self,
        texts: Iterable[Input] | str,
        spec: PooledSpec | None = None,
        *,
        head_mask: ArrayLike | None = None,
        **reading: Unpack[Reading],
    ) -> Embeddings:
        """Pooled vectors, token counts and origin; see `Client.encode_with_info`."""
        deadline = self._deadline()
        described = await self._describe(deadline)
        work = Pooled(
            described, self._model, as_list(texts), PooledSpec() if spec is None else spec, head_mask, reading
        )
        return await self._call(self._stub.Encode, work, deadline)

    async def encode_tokens(
        self, texts: Iterable[Input] | str, spec: TokensSpec | None = None, **reading: Unpack[Reading]
    ) -> list[NDArray[Any]]:
        """The vectors of tokens, [n, D] for each input; see `Client.encode_tokens`."""
        deadline = self._deadline()
        described = await self._describe(deadline)
        work = stream.bare_token_vectors(
            described, self._model, as_list(texts), TokensSpec() if spec is None else spec, reading
        )
        return await self._stream(work, deadline)

    async def token_vectors(
        self, texts: Iterable[Input] | str, spec: TokensSpec | None = None, **reading: Unpack[Reading]
    ) -> list[TokenVectors]:
        """The same with the tokens, and which of them the vectors are of; see `Client.token_vectors`."""
        deadline = self._deadline()
        described = await self._describe(deadline)
        work = stream.token_vectors(
            described, self._model, as_list(texts), TokensSpec() if spec is None else spec, reading
        )
        return await self._stream(work, deadline)

    async def attend(self, text: Input, layers: IndicesLike = None, **reading: Unpack[Reading]) -> Attention:
        """Whole maps of attention of one text; see `Client.attend`."""
        deadline = self._deadline()
        work = stream.whole_attention(await self._describe(deadline), self._model, text, layers, reading)
        return (await self._stream(work, deadline))[0]

    async def attention(
        self,
        texts: Iterable[Input] | str,
        spec: AttentionSpec,
        *,
        head_mask: ArrayLike | None = None,
        **reading: Unpack[Reading],
    ) -> list[AttentionMaps]:
        """Attention in the form that a spec says; see `Client.attention`."""
        deadline = self._deadline()
        described = await self._describe(deadline)
        work = stream.attention_maps(described, self._model, as_list(texts), spec, reading, head_mask)
        return await self._stream(work, deadline)

    async def attention_pieces(
        self, text: Input, spec: AttentionSpec, **reading: Unpack[Reading]
    ) -> AsyncIterator[AttentionPiece]:
        """Attention of one text piece by piece; see `Client.attention_pieces`."""
        pieces, deadline = Pieces(self._model, text, spec, reading), self._deadline()
        retries = Retries(deadline, Overloaded, Unavailable)
        while True:
            await asyncio.sleep(retries.pause(last=pieces.begun))
            call = self._stub.EncodeStream(iter([pieces.request]), timeout=self._left(deadline))
            try:
                with retries, self._errors(), true_status(call):
                    async for frame in call:
                        for piece in pieces.receive(frame):
                            yield piece
                    pieces.finish()
                    return
            finally:
                await end_async(call, pieces.over)

    async def attention_bytes(self, text: Input, spec: AttentionSpec, **reading: Unpack[Reading]) -> int:
        """The bytes of data that `attention` of one text would have; see `Client.attention_bytes`."""
        request = single.dry_run(self._model, text, spec, reading)
        return int((await self._ask(self._stub.Encode, request, self._deadline())).data_bytes)

    async def occlusion(self, text: Input, tokens: TokenChoice | None = None, **reading: Unpack[Reading]) -> Occlusion:
        """How far the vector moves when each token is hidden; see `Client.occlusion`."""
        request = single.occlusion_request(self._model, text, tokens, reading)
        return single.occlusion(await self._ask(self._stub.Occlude, request, self._deadline()))

    async def hidden(
        self,
        text: Input,
        layers: IndicesLike = None,
        *,
        tokens: TokenChoice = "all",
        dtype: Number = "float32",
        **reading: Unpack[Reading],
    ) -> Hidden:
        """Hidden states of one text; see `Client.hidden`."""
        deadline = self._deadline()
        spec = HiddenSpec(layers=indices_of("layers", layers), tokens=tokens, dtype=dtype)
        work = stream.hidden(await self._describe(deadline), self._model, text, spec, reading)
        return (await self._stream(work, deadline))[0]

    async def tokenize(self, texts: Iterable[Input] | str, **prompting: Unpack[Prompting]) -> list[TokenList]:
        """The tokens of each input; see `Client.tokenize`."""
        deadline = self._deadline()
        work = Tokenized(await self._describe(deadline), self._model, as_list(texts), prompting)
        return await self._call(self._stub.Tokenize, work, deadline)

    async def model(self) -> ModelDescription:
        """The model, its service and its parity; see `Client.model`."""
        self._description = None
        return await self._describe(self._deadline())

    async def _describe(self, deadline: float | None) -> ModelDescription:
        if self._description is None:
            self._description = from_model(
                await self._ask(self._stub.GetModel, pb.GetModelRequest(model=self._model), deadline)
            )
        return self._description

    async def _ask(self, method: Any, request: Any, deadline: float | None) -> Any:
        """The response of one unary call, which is sent again when the server says."""
        retries = Retries(deadline, Overloaded)
        while True:
            await asyncio.sleep(retries.pause())
            with retries, self._errors():
                return await method(request, timeout=self._left(deadline))

    async def _call(
        self, method: Any, work: UnaryWork[RequestT, ResponseT, ResultT], deadline: float | None
    ) -> ResultT:
        pending: deque[tuple[range, RequestT, Any]] = deque()
        retries = Retries(deadline, Overloaded)

        def start(request: RequestT) -> Any:
            return method(request, timeout=self._left(deadline))

        async def finish_first() -> None:
            part, request, call = pending.popleft()
            with retries, self._errors(part.start):
                work.receive(part, await call)
                retries.reset()
                return
            await asyncio.sleep(retries.pause())
            pending.appendleft((part, request, start(request)))

        try:
            for part, request in work.requests():
                while len(pending) == self._concurrency:
                    await finish_first()
                pending.append((part, request, start(request)))
            while pending:
                await finish_first()
        finally:
            for _, _, call in pending:
                call.cancel()
        return work.result()

    async def _stream(self, work: stream.Streamed[ResultT], deadline: float | None) -> list[ResultT]:
        retries = Retries(deadline, Overloaded, Unavailable)
        while work.unanswered:
            await asyncio.sleep(retries.pause())
            call = self._stub.EncodeStream(work.requests(), timeout=self._left(deadline))
            try:
                with retries, self._errors(), true_status(call):
                    async for frame in call:
                        if work.receive(frame):
                            retries.reset()
                    break
            finally:
                await end_async(call, work.over)
        return work.result()
