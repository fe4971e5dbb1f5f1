"""The outputs, in the order of their parts in a stream."""

from __future__ import annotations

from headlight.outputs.attention import AttentionMap
from headlight.outputs.hidden import HiddenStates
from headlight.outputs.output import Output
from headlight.outputs.pooled import PooledVectors
from headlight.outputs.spans import SpanMeans
from headlight.outputs.tokens import TokenRows

OUTPUTS: dict[str, Output] = {
    each.name: each
    for each in (PooledVectors(), TokenRows(), AttentionMap(), HiddenStates(), SpanMeans())
}
