"""Dialects of the HTTP frontend, one module for each door.

The first of ALL answers for paths that none has.
"""

from headlight_service.frontends.http.dialects import home_page, openai, probes, weaviate

ALL = (openai, weaviate, home_page, probes)
