"""Client of a Headlight service; `headlight.runtime` (extra [runtime]) is the same engine in one process, without a service."""

from headlight.aio import AsyncClient
from headlight.client import Client
from headlight.errors import (
    BundleError,
    DeadlineExceeded,
    EngineError,
    HeadlightError,
    InvalidInput,
    NotFound,
    Overloaded,
    Unavailable,
)
from headlight.results import Attention, Embeddings, Hidden, ModelDescription, ModelRef, TokenList

__version__ = "0.1.0"

__all__ = [
    "AsyncClient",
    "Attention",
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
    "TokenList",
    "Unavailable",
]
