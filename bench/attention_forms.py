"""Forms of attention that the benchmarks compare."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from headlight.outputs.maps.resolved_spec import is_one_token
from headlight.outputs.registry import OUTPUTS
from headlight.pb import headlight_pb2 as pb
from headlight.runtime.values import Ids
from headlight.spec import AttentionSpec

VECTORS_ALONE, WHOLE_MAPS = "vectors alone", "whole maps"
FORMS: dict[str, AttentionSpec] = {
    "one row of all heads": AttentionSpec(reduce=("pooled_row",)),
    "one row, mean of heads": AttentionSpec(reduce=("pooled_row", "head_mean")),
    "mean of heads": AttentionSpec(reduce=("head_mean",)),
    "largest of heads": AttentionSpec(reduce=("head_max",)),
    "rollout": AttentionSpec(reduce=("rollout",)),
    "8 largest of each row": AttentionSpec(top_k=8),
    "statistics": AttentionSpec(reduce=("statistics",)),
    "whole maps, uint8": AttentionSpec(dtype="uint8"),
    "whole maps, float16": AttentionSpec(dtype="float16"),
    WHOLE_MAPS: AttentionSpec(),
    "scores": AttentionSpec(scores=True),
}
MOST_IDS = 8000


def suited(spec: AttentionSpec, pooling: str) -> AttentionSpec:
    """Replace the pooled token's row by the weighted mean, if the model pools several tokens."""
    if is_one_token(pooling):
        return spec
    reduce = tuple("pooling_weights" if name == "pooled_row" else name for name in spec.reduce)
    return dataclasses.replace(spec, reduce=reduce)


def random_ids(length: int, below: int = MOST_IDS) -> Ids:
    """Return random ids, int64 [length]."""
    return np.random.default_rng(length).integers(5, below, size=length, dtype=np.int64)


def attention_request(spec: AttentionSpec | None, lengths: Sequence[int]) -> pb.EncodeRequest:
    """Return a request for the attention of inputs of these lengths, in tokens.

    None: for their pooled vectors.
    """
    outputs = pb.Outputs(pooled=pb.PooledOutput())
    if spec is not None:
        outputs = pb.Outputs(attention=OUTPUTS["attention"].message_of(spec))
    inputs = [pb.Input(ids=pb.TokenIds(ids=random_ids(length))) for length in lengths]
    return pb.EncodeRequest(inputs=inputs, outputs=outputs)
