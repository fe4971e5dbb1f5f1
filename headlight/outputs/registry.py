"""The outputs, in the order of their parts in a stream."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headlight.outputs.attention import AttentionMap
from headlight.outputs.hidden import HiddenStates
from headlight.outputs.multi_vector import MultiVectors
from headlight.outputs.output import Output
from headlight.outputs.pooled import PooledVectors
from headlight.outputs.scores import LabelScores
from headlight.outputs.spans import SpanMeans
from headlight.outputs.sparse import SparseVectors
from headlight.outputs.tokens import TokenRows

if TYPE_CHECKING:
    from headlight.runtime.values import GraphRole

OUTPUTS: dict[str, Output] = {
    each.name: each
    for each in (
        PooledVectors(),
        TokenRows(),
        AttentionMap(),
        HiddenStates(),
        SpanMeans(),
        LabelScores(),
        SparseVectors(),
        MultiVectors(),
    )
}
# The least tolerance of each output with answers of its own; the distance of others follows.
FLOORS = {name: output.floor for name, output in OUTPUTS.items() if output.floor}
MEASURED = tuple(FLOORS)
# Outputs of the graphs with a row of numbers for each input, or for each of its tokens.
ROWS = ("pooled", *dict.fromkeys(name for output in OUTPUTS.values() for name in output.reads))
# The graph that each output of a bundle needs. The description of tokens has no module: it has no
# numbers.
GRAPH_ROLES: dict[str, GraphRole] = {
    **{name: OUTPUTS[name].role for name in MEASURED},
    "token_info": "embed",
    **{name: output.role for name, output in OUTPUTS.items()},
}
