"""Dialects of the HTTP frontend, one module for each door.

The first of ALL answers for paths that none has.
"""

from headlight_service.frontends.http.dialects import (
    api_docs,
    contract_api,
    home_page,
    openai,
    probes,
    rerank,
    tei,
    vllm,
    weaviate,
)

ALL = (openai, contract_api, tei, rerank, vllm, weaviate, home_page, api_docs, probes)
