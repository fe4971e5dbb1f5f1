"""Codec of comparison specs (`headlight.comparison`), for the clients and the service."""

from __future__ import annotations

from typing import get_args

from headlight.comparison import CompareSpec, EvidenceSpec
from headlight.outputs.contract import known, numbers_of, span_in, span_message
from headlight.pb import headlight_pb2 as pb
from headlight.spec import RowType


def compare_spec(message: pb.CompareRequest) -> CompareSpec:
    """Decode a spec, unchecked. Raises InvalidInput: this side does not know a value."""
    matrix = message.matrix
    return CompareSpec(
        late_interaction=message.HasField("late_interaction"),
        evidence=tuple(
            _evidence_spec(f"evidence[{at}]", each) for at, each in enumerate(message.evidence)
        ),
        matrix=known("matrix.dtype", "DataType", matrix.dtype, get_args(RowType), "float32")
        if message.HasField("matrix")
        else None,
        matrix_max_bytes=matrix.max_bytes if matrix.HasField("max_bytes") else None,
        matrix_kind=known("matrix.kind", "MatrixKind", matrix.kind, unspecified="cosine"),
        sort=message.sort,
    )


def _evidence_spec(field: str, message: pb.EvidenceRequest) -> EvidenceSpec:
    return EvidenceSpec(
        method=known(
            f"{field}.method", "EvidenceMethod", message.method, unspecified="late_interaction"
        ),
        unit=known(f"{field}.unit", "Unit", message.unit, unspecified="token"),
        spans=tuple(tuple(map(span_in, each.spans)) for each in message.spans),
        top_k=message.top_k if message.HasField("top_k") else None,
        layers=tuple(message.layers),
        heads=tuple(message.heads),
        per_token=message.per_token,
        max_encodings=message.max_encodings if message.HasField("max_encodings") else None,
        query_units=message.query_units,
        distinct=message.distinct,
    )


def evidence_requests(spec: CompareSpec, passages: range) -> list[pb.EvidenceRequest]:
    """Encode the evidence of a checked spec, for some of its passages."""
    return [
        pb.EvidenceRequest(
            method=numbers_of("EvidenceMethod")[each.method],
            unit=numbers_of("Unit")[each.unit],
            spans=[
                pb.TextSpans(spans=map(span_message, passage))
                for passage in each.spans[passages.start : passages.stop]
            ],
            top_k=each.top_k,
            layers=each.layers,
            heads=each.heads,
            per_token=each.per_token,
            max_encodings=each.max_encodings,
            query_units=each.query_units,
            distinct=each.distinct,
        )
        for each in spec.evidence
    ]


def matrix_request(spec: CompareSpec) -> pb.SimilarityMatrix | None:
    """Encode the requested matrices of a checked spec; None: there are none."""
    if spec.matrix is None:
        return None
    return pb.SimilarityMatrix(
        dtype=numbers_of("DataType")[spec.matrix],
        max_bytes=spec.matrix_max_bytes,
        kind=numbers_of("MatrixKind")[spec.matrix_kind] if spec.contributions else None,
    )
