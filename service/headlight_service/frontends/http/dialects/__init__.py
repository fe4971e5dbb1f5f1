"""Dialects of the HTTP frontend, one module for each door.

The first of ALL answers for paths that none has.
"""

from headlight_service.frontends.http.dialects import openai, probes, tei, weaviate

ALL = (openai, tei, weaviate, probes)
