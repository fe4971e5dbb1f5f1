"""Client of a Headlight service.

`headlight.runtime` (extra [runtime]) runs the engine in the caller's process.
"""

import importlib
from typing import TYPE_CHECKING, Any

from headlight.description import ModelDescription
from headlight.errors import (
    BadAnswer,
    BundleError,
    DeadlineExceeded,
    EngineError,
    HeadlightError,
    InvalidInput,
    NotFound,
    Overloaded,
    Unauthenticated,
    Unavailable,
)
from headlight.results import (
    Attention,
    AttentionMaps,
    Embeddings,
    Hidden,
    ModelRef,
    TokenList,
    TokenVectors,
    Usage,
)
from headlight.spec import AttentionSpec, PooledSpec, Run, Span, TokensSpec

if TYPE_CHECKING:
    from headlight.client.async_client import AsyncClient
    from headlight.client.sync_client import Client

__version__ = "0.1.0"

__all__ = [
    "AsyncClient",
    "Attention",
    "AttentionMaps",
    "AttentionSpec",
    "BadAnswer",
    "BundleError",
    "Client",
    "DeadlineExceeded",
    "Embeddings",
    "EngineError",
    "HeadlightError",
    "Hidden",
    "InvalidInput",
    "ModelDescription",
    "ModelRef",
    "NotFound",
    "Overloaded",
    "PooledSpec",
    "Run",
    "Span",
    "TokenList",
    "TokenVectors",
    "TokensSpec",
    "Unauthenticated",
    "Unavailable",
    "Usage",
]

# Loaded on first use, because they import gRPC: `headlight.runtime` works without gRPC, and
# `headlight serve` sets gRPC's variables before the import.
_CLIENTS = {
    "AsyncClient": "headlight.client.async_client",
    "Client": "headlight.client.sync_client",
}


def __getattr__(name: str) -> Any:
    if name not in _CLIENTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_CLIENTS[name]), name)
