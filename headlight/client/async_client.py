"""The client for asyncio."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, TypeVar, Unpack, cast

from headlight.client.async_caller import AsyncCaller
from headlight.client.calls.attention_pieces import AttentionPiece
from headlight.client.sync_client import Client
from headlight.spec import AttentionSpec
from headlight.wire.client_codec import Input, Reading

P = ParamSpec("P")
T = TypeVar("T")


def awaited(method: Callable[Concatenate[Client, P], T]) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]:
    """The same method as a coroutine: what it runs, a client for asyncio awaits."""

    @functools.wraps(method)
    async def awaiting(client: Any, /, *arguments: P.args, **keywords: P.kwargs) -> T:
        return await cast("Awaitable[T]", method(client, *arguments, **keywords))

    awaiting.__qualname__ = f"Async{awaiting.__qualname__}"
    return awaiting


class AsyncClient(AsyncCaller):
    """`headlight.client.sync_client.Client` for asyncio: the same arguments, methods, results and errors, each method a coroutine.

    Make it inside a running event loop, else it raises RuntimeError. It closes at the end of its `async with` block, or by
    `close()`. Cancelling a method cancels its calls.
    """

    encode = awaited(Client.encode)
    encode_with_info = awaited(Client.encode_with_info)
    encode_tokens = awaited(Client.encode_tokens)
    token_vectors = awaited(Client.token_vectors)
    attend = awaited(Client.attend)
    attention = awaited(Client.attention)
    attention_bytes = awaited(Client.attention_bytes)
    occlusion = awaited(Client.occlusion)
    hidden = awaited(Client.hidden)
    tokenize = awaited(Client.tokenize)
    model = awaited(Client.model)

    def attention_pieces(
        self, text: Input, spec: AttentionSpec, **reading: Unpack[Reading]
    ) -> AsyncIterator[AttentionPiece]:
        """Attention of one text piece by piece; see `Client.attention_pieces`."""
        return self._iterate(self._pieces(text, spec, reading))
