"""Client of a Headlight service.

Its engine in one process, with the same methods: `headlight.runtime` (extra [runtime]).
"""

import functools
import importlib
from typing import TYPE_CHECKING, Any

from headlight import results as _results
from headlight.comparison import Comparison, Evidence, EvidenceSpec, PassageComparison
from headlight.description import ListedModel, ModelDescription
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
    AttentionPiece,
    Embeddings,
    Hidden,
    LabelScore,
    ModelRef,
    Occlusion,
    RankedDocument,
    Scores,
    SparseVector,
    TokenList,
    TokenVectors,
    Usage,
)
from headlight.span_vectors import SpanVectors, Windows
from headlight.spec import AttentionSpec, Run, Span

if TYPE_CHECKING:
    from headlight.client.async_client import AsyncClient
    from headlight.client.sync_client import Client
    from headlight.interface.encoder import Encoder

__version__ = "0.2.0"

__all__ = [
    "AsyncClient",
    "Attention",
    "AttentionMaps",
    "AttentionPiece",
    "AttentionSpec",
    "BadAnswer",
    "BundleError",
    "Client",
    "Comparison",
    "DeadlineExceeded",
    "Embeddings",
    "Encoder",
    "EngineError",
    "Evidence",
    "EvidenceSpec",
    "HeadlightError",
    "Hidden",
    "InvalidInput",
    "LabelScore",
    "ListedModel",
    "ModelDescription",
    "ModelRef",
    "NotFound",
    "Occlusion",
    "Overloaded",
    "PassageComparison",
    "RankedDocument",
    "Run",
    "Scores",
    "Span",
    "SpanVectors",
    "SparseVector",
    "TokenList",
    "TokenVectors",
    "Unauthenticated",
    "Unavailable",
    "Usage",
    "Windows",
]

_results.presenter = functools.partial(importlib.import_module, "headlight.web.notebook")

# Loaded on first use, because they load gRPC or protobuf: `headlight.runtime` works without gRPC,
# and `headlight serve` sets it up first.
_LOADED_LATE = {
    "AsyncClient": "headlight.client.async_client",
    "Client": "headlight.client.sync_client",
    "Encoder": "headlight.interface.encoder",
}


def __getattr__(name: str) -> Any:
    if name not in _LOADED_LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_LOADED_LATE[name]), name)
