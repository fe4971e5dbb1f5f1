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
    weaviate,
)

ALL = (openai, contract_api, tei, rerank, weaviate, home_page, api_docs, probes)
