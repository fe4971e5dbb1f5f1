"""Arguments of a comparison, as the contract can express them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import get_args

from headlight.comparison import EVIDENCE_UNITS, CompareSpec, EvidenceSpec, MatrixKind
from headlight.errors import InvalidInput, Phrase, Reason
from headlight.evidence_methods import EVIDENCE_METHODS, METHODS, EvidenceMethod
from headlight.interface.arguments import Input
from headlight.interface.checked_specs import (
    INT32,
    UINT32,
    UINT64,
    each_as,
    optional,
    span_of,
    whole_number,
)
from headlight.refusals import Path
from headlight.spec import RowType, check_name

EvidenceLike = EvidenceMethod | EvidenceSpec | Iterable[EvidenceMethod | EvidenceSpec]
# Names that the inputs and the prompt of one side have in a request of that side alone.
QUERY: Mapping[Path, Path] = {
    ("inputs", 0): ("query",),
    ("prompt",): ("query_prompt",),
    ("prompt_name",): ("query_prompt_name",),
    ("prompt_text",): ("query_prompt_text",),
}
PASSAGE: Mapping[Path, Path] = {
    ("inputs",): ("passages",),
    ("prompt",): ("passage_prompt",),
    ("prompt_name",): ("passage_prompt_name",),
    ("prompt_text",): ("passage_prompt_text",),
}


def side_names(passages: int) -> dict[Path, Path]:
    """Return the names of inputs that are the query and so many passages."""
    each: dict[Path, Path] = {("inputs", 1 + at): ("passages", at) for at in range(passages)}
    return {("inputs",): ("passages",), ("inputs", 0): ("query",)} | each


def evidence_specs(evidence: EvidenceLike) -> tuple[EvidenceSpec, ...]:
    """Return evidence as in a spec. Raises InvalidInput: it is no list of methods or specs."""
    given = [evidence] if isinstance(evidence, str | EvidenceSpec) else evidence
    if not isinstance(given, Iterable):
        raise InvalidInput("evidence", Reason.MUST_BE, kind=Phrase.EVIDENCE)
    return tuple(
        each if isinstance(each, EvidenceSpec) else EvidenceSpec(method=each) for each in given
    )


def checked_comparison(spec: CompareSpec, passages: int) -> CompareSpec:
    """Return a spec of a comparison with so many passages.

    Raises:
        InvalidInput: a value does not fit its type, is no name that there is, or does not fit the
            others. Names the field.
    """
    check_name("matrix_kind", spec.matrix_kind, get_args(MatrixKind))
    if spec.matrix is not None:
        check_name("matrix", spec.matrix, get_args(RowType))
    elif spec.matrix_kind != "cosine":
        raise InvalidInput("matrix_kind", Reason.NO_MATRIX)
    elif spec.matrix_max_bytes is not None:
        raise InvalidInput("matrix_max_bytes", Reason.NO_MATRIX)
    methods = [each.method for each in spec.evidence]
    for at, each in enumerate(methods):
        if each in methods[:at]:
            raise InvalidInput(f"evidence[{at}].method", Reason.REQUESTED_TWICE, method=each)
    return dataclasses.replace(
        spec,
        evidence=tuple(
            _evidence(f"evidence[{at}]", each, passages) for at, each in enumerate(spec.evidence)
        ),
        matrix_max_bytes=optional(
            "matrix_max_bytes", spec.matrix_max_bytes, UINT64, Phrase.WHOLE_FROM_0
        ),
    )


def _evidence(field: str, spec: EvidenceSpec, passages: int) -> EvidenceSpec:
    check_name(f"{field}.method", spec.method, EVIDENCE_METHODS)
    check_name(f"{field}.unit", spec.unit, EVIDENCE_UNITS)
    if spec.method != "attention" and (spec.layers or spec.heads):
        raise InvalidInput(
            f"{field}.{'layers' if spec.layers else 'heads'}", Reason.ONLY_OF_ATTENTION
        )
    spans = each_as(f"{field}.spans", spec.spans, Phrase.SPANS_OF_PASSAGES, tuple)
    if spec.unit != "span" and spans:
        raise InvalidInput(f"{field}.spans", Reason.ONLY_OF_SPANS)
    if spec.method == "terms" and spec.unit == "span":
        raise InvalidInput(f"{field}.unit", Reason.TERMS_WITHOUT_UNITS)
    if spec.unit == "span" and len(spans) != passages:
        raise InvalidInput(
            f"{field}.spans", Reason.LISTS_FOR_PASSAGES, count=len(spans), passages=passages
        )
    if spec.top_k == 0:
        raise InvalidInput(f"{field}.top_k", Reason.NO_TOP_K, value=0)
    _check_options(field, spec)

    def whole(one: int) -> int:
        return whole_number(one, INT32)

    return dataclasses.replace(
        spec,
        spans=tuple(
            each_as(f"{field}.spans[{at}].spans", passage, Phrase.SPANS, span_of)
            for at, passage in enumerate(spans)
        ),
        top_k=optional(f"{field}.top_k", spec.top_k, UINT32, Phrase.WHOLE_FROM_1),
        max_encodings=optional(
            f"{field}.max_encodings", spec.max_encodings, UINT32, Phrase.WHOLE_FROM_1
        ),
        layers=each_as(f"{field}.layers", spec.layers, Phrase.WHOLE_NUMBERS, whole),
        heads=each_as(f"{field}.heads", spec.heads, Phrase.WHOLE_NUMBERS, whole),
    )


def _check_options(field: str, spec: EvidenceSpec) -> None:
    """Raise InvalidInput for an option that the method or its units do not have."""
    for option, reason in (
        ("per_token", Reason.NO_SUMS),
        ("query_units", Reason.NO_QUERY_UNITS),
        ("distinct", Reason.NOT_DISTINCT),
    ):
        names = [name for name, traits in METHODS.items() if traits.takes(option)]
        if getattr(spec, option) and spec.method not in names:
            raise InvalidInput(
                f"{field}.{option}", reason, method=spec.method, names=", ".join(names)
            )
    if spec.max_encodings is None:
        return
    if not METHODS[spec.method].takes("max_encodings") or spec.unit not in ("word", "token"):
        raise InvalidInput(f"{field}.max_encodings", Reason.ONLY_OF_OCCLUSION)
    if spec.max_encodings in (0, 1):
        raise InvalidInput(f"{field}.max_encodings", Reason.FEW_ENCODINGS, value=spec.max_encodings)


def check_pairs(spec: CompareSpec, query: object, passages: Sequence[object]) -> None:
    """Check what a model is to compare that reads the query and a passage as one pair of texts.

    Raises:
        InvalidInput: it needs vectors of the query alone, or a side is not a text.
    """
    needing = {"late_interaction": spec.late_interaction, "matrix": spec.matrix is not None}
    for at, each in enumerate(spec.evidence):
        needing[f"evidence[{at}].method"] = not METHODS[each.method].of_pairs
    for field, needs in needing.items():
        if needs:
            raise InvalidInput(field, Reason.READS_PAIRS)
    for place, given in enumerate((query, *passages)):
        if not isinstance(given, str):
            field = "query" if place == 0 else f"passages[{place - 1}]"
            raise InvalidInput(field, Reason.PART_OF_PAIR)


def check_no_prompt(prompts: Mapping[str, object]) -> None:
    """Raise InvalidInput if a prompt of some argument is set: one of passages in pairs."""
    for name, prompt in prompts.items():
        if prompt:
            raise InvalidInput(name, Reason.NO_PROMPT_FOR, what="pairs")


def checked_request(
    query: Input, passages: Sequence[Input], spec: CompareSpec, *, pairs: bool
) -> CompareSpec:
    """Return the checked spec of a comparison. Raises InvalidInput, naming the argument.

    `pairs`: whether the model reranks.
    """
    if not passages:
        raise InvalidInput("passages", Reason.NO_ENTRIES)
    for place, given in enumerate((query, *passages)):
        if isinstance(given, tuple) and given and isinstance(given[0], str):
            field = "query" if place == 0 else f"passages[{place - 1}]"
            raise InvalidInput(field, Reason.PAIR_COMPARED)
    spec = checked_comparison(spec, len(passages))
    if pairs:
        check_pairs(spec, query, passages)
    return spec
