"""The client for asyncio."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable
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


class AsyncClient(ClientBase[grpc.aio.Channel]):
    """`headlight.client.Client` for asyncio: the same arguments, methods, results and errors, each method a coroutine.

    Make it inside a running event loop. It closes at the end of its `async with` block, or by `close()`. Cancelling a
    method cancels its calls.
    """

    def _open(self, target: str, credentials: grpc.ChannelCredentials | None, options: Options) -> grpc.aio.Channel:
        if credentials is None:
            return grpc.aio.insecure_channel(target, options)
        return grpc.aio.secure_channel(target, credentials, options)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Ends the connection; calls in flight fail."""
        await self._channel.close(None)

    async def encode(
        self, texts: Iterable[Input] | str, *, head_mask: ArrayLike | None = None, truncate: Truncate = None
    ) -> Floats:
        """Pooled vectors, float32 [N, D]; see `Client.encode`."""
        return (await self.encode_with_info(texts, head_mask=head_mask, truncate=truncate)).vectors

    async def encode_with_info(
        self, texts: Iterable[Input] | str, *, head_mask: ArrayLike | None = None, truncate: Truncate = None
    ) -> Embeddings:
        """Pooled vectors, token counts and origin; see `Client.encode_with_info`."""
        deadline = self._deadline()
        work = Pooled(await self._describe(deadline), self._model, as_list(texts), truncate, head_mask)
        return await self._call(self._stub.Encode, work, deadline)

    async def encode_tokens(self, texts: Iterable[Input] | str, *, truncate: Truncate = None) -> list[Floats]:
        """Token vectors, float32 [n, D] for each input; see `Client.encode_tokens`."""
        deadline = self._deadline()
        work = stream.token_vectors(await self._describe(deadline), self._model, as_list(texts), truncate)
        return await self._stream(work, deadline)

    async def attend(self, text: Input, layers: IndicesLike = None, *, truncate: Truncate = None) -> Attention:
        """Whole maps of attention of one text; see `Client.attend`."""
        deadline = self._deadline()
        work = stream.whole_attention(await self._describe(deadline), self._model, text, layers, truncate)
        return (await self._stream(work, deadline))[0]

    async def attention(
        self,
        texts: Iterable[Input] | str,
        spec: AttentionSpec,
        *,
        head_mask: ArrayLike | None = None,
        truncate: Truncate = None,
    ) -> list[AttentionMaps]:
        """Attention in the form that a spec says; see `Client.attention`."""
        deadline = self._deadline()
        described = await self._describe(deadline)
        work = stream.attention_maps(described, self._model, as_list(texts), spec, truncate, head_mask)
        return await self._stream(work, deadline)

    async def attention_pieces(
        self, text: Input, spec: AttentionSpec, *, truncate: Truncate = None
    ) -> AsyncIterator[AttentionPiece]:
        """Attention of one text piece by piece; see `Client.attention_pieces`."""
        pieces = Pieces(self._model, text, spec, truncate)
        call = self._stub.EncodeStream(iter([pieces.request]), timeout=seconds_left(self._deadline()))
        try:
            with self._errors():
                async for frame in call:
                    for piece in pieces.receive(frame):
                        yield piece
        finally:
            call.cancel()
        pieces.finish()

    async def attention_bytes(self, text: Input, spec: AttentionSpec, *, truncate: Truncate = None) -> int:
        """The bytes of data that `attention` of one text would have; see `Client.attention_bytes`."""
        request = stream.dry_run(self._model, text, spec, truncate)
        with self._errors():
            response = await self._stub.Encode(request, timeout=seconds_left(self._deadline()))
        return int(response.data_bytes)

    async def occlusion(
        self, text: Input, tokens: TokenChoice | None = None, *, truncate: Truncate = None
    ) -> Occlusion:
        """How far the vector moves when each token is hidden; see `Client.occlusion`."""
        request = stream.occlusion_request(self._model, text, tokens, truncate)
        with self._errors():
            response = await self._stub.Occlude(request, timeout=seconds_left(self._deadline()))
        return stream.occlusion(response)

    async def hidden(
        self,
        text: Input,
        layers: IndicesLike = None,
        *,
        tokens: TokenChoice = "all",
        dtype: Number = "float32",
        truncate: Truncate = None,
    ) -> Hidden:
        """Hidden states of one text; see `Client.hidden`."""
        deadline = self._deadline()
        spec = HiddenSpec(layers=indices_of("layers", layers), tokens=tokens, dtype=dtype)
        work = stream.hidden(await self._describe(deadline), self._model, text, spec, truncate)
        return (await self._stream(work, deadline))[0]

    async def tokenize(self, texts: Iterable[Input] | str) -> list[TokenList]:
        """The tokens of each input; see `Client.tokenize`."""
        deadline = self._deadline()
        work = Tokenized(await self._describe(deadline), self._model, as_list(texts))
        return await self._call(self._stub.Tokenize, work, deadline)

    async def model(self) -> ModelDescription:
        """The model, its service and its parity; see `Client.model`."""
        self._description = None
        return await self._describe(self._deadline())

    async def _describe(self, deadline: float | None) -> ModelDescription:
        if self._description is None:
            with self._errors():
                response = await self._stub.GetModel(
                    pb.GetModelRequest(model=self._model), timeout=seconds_left(deadline)
                )
            self._description = from_model(response)
        return self._description

    async def _call(
        self, method: Any, work: UnaryWork[RequestT, ResponseT, ResultT], deadline: float | None
    ) -> ResultT:
        pending: deque[tuple[range, RequestT, Any]] = deque()
        retries = Retries(deadline)

        def start(request: RequestT) -> Any:
            return method(request, timeout=seconds_left(deadline))

        async def finish_first() -> None:
            part, request, call = pending.popleft()
            try:
                with self._errors(part.start):
                    work.receive(part, await call)
                retries.reset()
            except Overloaded as error:
                await asyncio.sleep(retries.delay(error))
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
        retries = Retries(deadline)
        while unanswered := work.unanswered:
            call = self._stub.EncodeStream(work.requests(), timeout=seconds_left(deadline))
            try:
                with self._errors():
                    async for frame in call:
                        work.receive(frame)
                break
            except MixedWeights:
                raise
            except (Overloaded, Unavailable) as error:
                if work.unanswered < unanswered:
                    retries.reset()
                await asyncio.sleep(retries.delay(error))
            finally:
                call.cancel()
        return work.result()
