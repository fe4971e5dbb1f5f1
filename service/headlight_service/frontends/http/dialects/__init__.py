"""Dialects of the HTTP frontend, one module for each door.

The first of ALL answers for paths that none has.
"""

from headlight_service.frontends.http.dialects import (
    api_docs,
    cohere,
    contract_api,
    home_page,
    jina,
    openai,
    probes,
    rerank,
    tei,
    vllm,
    vllm_pooling,
    weaviate,
)

ALL = (
    openai,
    contract_api,
    tei,
    rerank,
    cohere,
    jina,
    vllm,
    vllm_pooling,
    weaviate,
    home_page,
    api_docs,
    probes,
)
