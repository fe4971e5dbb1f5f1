"""Client of a Headlight service; `headlight.runtime` (extra [runtime]) is the same engine in one process, without a service."""

from headlight.client.async_client import AsyncClient
from headlight.client.sync_client import Client
from headlight.description import ModelDescription
from headlight.embeddings import Embeddings, TokenVectors, Usage
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
from headlight.results import Attention, AttentionMaps, Hidden, ModelRef, TokenList
from headlight.spec import AttentionSpec, PooledSpec, Run, Span, TokensSpec

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
