"""The client for asyncio."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from typing import Any, Unpack

from numpy.typing import ArrayLike, NDArray

from headlight.client.async_caller import AsyncCaller
from headlight.client.calls import large_outputs, unary_calls
from headlight.client.calls.attention_pieces import AttentionPiece
from headlight.client.calls.unary_calls import Pooled, Tokenized
from headlight.description import ModelDescription
from headlight.embeddings import Embeddings, TokenVectors
from headlight.results import Attention, AttentionMaps, Hidden, Occlusion, TokenList
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
from headlight.wire.vector_codec import one_type


class AsyncClient(AsyncCaller):
    """`headlight.client.sync_client.Client` for asyncio: the same arguments, methods, results and errors, each method a coroutine.

    Make it inside a running event loop, else it raises RuntimeError. It closes at the end of its `async with` block, or by
    `close()`. Cancelling a method cancels its calls.
    """

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
        return (await self._run(self._call(self._stub.Encode, texts, Pooled, spec, head_mask, reading))).result()

    async def encode_tokens(
        self, texts: Iterable[Input] | str, spec: TokensSpec | None = None, **reading: Unpack[Reading]
    ) -> list[NDArray[Any]]:
        """The vectors of tokens, [n, D] for each input; see `Client.encode_tokens`."""
        return await self._run(self._stream(texts, large_outputs.bare_token_vectors, spec, reading))

    async def token_vectors(
        self, texts: Iterable[Input] | str, spec: TokensSpec | None = None, **reading: Unpack[Reading]
    ) -> list[TokenVectors]:
        """The same with the tokens, and which of them the vectors are of; see `Client.token_vectors`."""
        return await self._run(self._stream(texts, large_outputs.token_vectors, spec, reading))

    async def attend(self, text: Input, layers: IndicesLike = None, **reading: Unpack[Reading]) -> Attention:
        """Whole maps of attention of one text; see `Client.attend`."""
        return (await self._run(self._stream([text], large_outputs.whole_attention, layers, reading)))[0]

    async def attention(
        self,
        texts: Iterable[Input] | str,
        spec: AttentionSpec,
        *,
        head_mask: ArrayLike | None = None,
        **reading: Unpack[Reading],
    ) -> list[AttentionMaps]:
        """Attention in the form that a spec says; see `Client.attention`."""
        return await self._run(self._stream(texts, large_outputs.attention_maps, spec, reading, head_mask))

    def attention_pieces(
        self, text: Input, spec: AttentionSpec, **reading: Unpack[Reading]
    ) -> AsyncIterator[AttentionPiece]:
        """Attention of one text piece by piece; see `Client.attention_pieces`."""
        return self._iterate(self._pieces(text, spec, reading))

    async def attention_bytes(self, text: Input, spec: AttentionSpec, **reading: Unpack[Reading]) -> int:
        """The bytes of data that `attention` of one text would have; see `Client.attention_bytes`."""
        request = unary_calls.dry_run(self._model, text, spec, reading)
        answer = await self._run(self._ask(self._stub.Encode, request, self._deadline()))
        return unary_calls.data_bytes(answer, self._model)

    async def occlusion(self, text: Input, tokens: TokensLike | None = None, **reading: Unpack[Reading]) -> Occlusion:
        """How far the vector moves when each token is hidden; see `Client.occlusion`."""
        request = unary_calls.occlusion_request(self._model, text, tokens, reading)
        answer = await self._run(self._ask(self._stub.Occlude, request, self._deadline()))
        return unary_calls.occlusion(answer, self._model, text)

    async def hidden(
        self,
        text: Input,
        layers: IndicesLike = None,
        *,
        tokens: TokensLike = "all",
        dtype: Number = "float32",
        **reading: Unpack[Reading],
    ) -> Hidden:
        """Hidden states of one text; see `Client.hidden`."""
        spec = HiddenSpec(layers=indices_of("layers", layers), tokens=tokens_like("tokens", tokens), dtype=dtype)
        return (await self._run(self._stream([text], large_outputs.hidden, spec, reading)))[0]

    async def tokenize(self, texts: Iterable[Input] | str, **prompting: Unpack[Prompting]) -> list[TokenList]:
        """The tokens of each input; see `Client.tokenize`."""
        return (await self._run(self._call(self._stub.Tokenize, texts, Tokenized, prompting))).result()

    async def model(self) -> ModelDescription:
        """The model, its service and its parity; see `Client.model`."""
        return await self._run(self._learn(self._deadline()))
