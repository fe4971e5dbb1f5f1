"""Codec of comparison specs (`headlight.comparison`), for the clients and the service."""

from __future__ import annotations

from collections.abc import Mapping

from headlight.comparison import CompareSpec, EvidenceMethod, EvidenceSpec, EvidenceUnit
from headlight.pb import headlight_pb2 as pb
from headlight.spec import Span
from headlight.wire.attention_codec import known
from headlight.wire.vector_codec import ROW_TYPES

METHODS: Mapping[EvidenceMethod, pb.EvidenceMethod] = {
    "late_interaction": pb.EVIDENCE_METHOD_LATE_INTERACTION,
    "occlusion": pb.EVIDENCE_METHOD_OCCLUSION,
    "attention": pb.EVIDENCE_METHOD_ATTENTION,
}
EVIDENCE_UNITS: Mapping[EvidenceUnit, pb.Unit] = {
    "token": pb.UNIT_TOKEN,
    "word": pb.UNIT_WORD,
    "sentence": pb.UNIT_SENTENCE,
    "span": pb.UNIT_SPAN,
}


def compare_spec(message: pb.CompareRequest) -> CompareSpec:
    """Decode a spec, unchecked. Raises InvalidInput: this side does not know a value."""
    wanted = message.matrix
    return CompareSpec(
        late_interaction=message.HasField("late_interaction"),
        evidence=tuple(
            _evidence_spec(f"evidence[{at}]", each) for at, each in enumerate(message.evidence)
        ),
        matrix=known("matrix.dtype", ROW_TYPES, wanted.dtype, "float32")
        if message.HasField("matrix")
        else None,
        matrix_max_bytes=wanted.max_bytes if wanted.HasField("max_bytes") else None,
        sort=message.sort,
    )


def _evidence_spec(field: str, message: pb.EvidenceRequest) -> EvidenceSpec:
    return EvidenceSpec(
        method=known(f"{field}.method", METHODS, message.method, "late_interaction"),
        unit=known(f"{field}.unit", EVIDENCE_UNITS, message.unit, "token"),
        spans=tuple(
            tuple(Span(span.start, span.end, span.text) for span in each.spans)
            for each in message.spans
        ),
        top_k=message.top_k if message.HasField("top_k") else None,
        layers=tuple(message.layers),
        heads=tuple(message.heads),
    )


def evidence_requests(spec: CompareSpec, passages: range) -> list[pb.EvidenceRequest]:
    """Encode the evidence of a checked spec, for some of its passages."""
    return [
        pb.EvidenceRequest(
            method=METHODS[each.method],
            unit=EVIDENCE_UNITS[each.unit],
            spans=[
                pb.TextSpans(spans=[pb.TextSpan(**span._asdict()) for span in own])
                for own in each.spans[passages.start : passages.stop]
            ],
            top_k=each.top_k,
            layers=each.layers,
            heads=each.heads,
        )
        for each in spec.evidence
    ]


def matrix_request(spec: CompareSpec) -> pb.SimilarityMatrix | None:
    """Encode the requested matrices of a checked spec; None: there are none."""
    if spec.matrix is None:
        return None
    return pb.SimilarityMatrix(dtype=ROW_TYPES[spec.matrix], max_bytes=spec.matrix_max_bytes)
