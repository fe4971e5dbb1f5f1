"""Arguments of a comparison, as the contract can express them."""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import get_args

from headlight.comparison import (
    EVIDENCE_METHODS,
    EVIDENCE_UNITS,
    CompareSpec,
    EvidenceMethod,
    EvidenceSpec,
)
from headlight.errors import InvalidInput
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
from headlight.spec import RowType, check_name

EvidenceLike = EvidenceMethod | EvidenceSpec | Iterable[EvidenceMethod | EvidenceSpec]
PROMPT_FIELDS = ("prompt_name", "prompt_text")
INPUT = re.compile(r"^inputs\[(\d+)\]")
LIST = "must be a method's name, an EvidenceSpec, or a list of them"


def evidence_specs(evidence: EvidenceLike) -> tuple[EvidenceSpec, ...]:
    """Return evidence as in a spec. Raises InvalidInput: it is no list of methods or specs."""
    given = [evidence] if isinstance(evidence, str | EvidenceSpec) else evidence
    if not isinstance(given, Iterable):
        raise InvalidInput("evidence", LIST)
    return tuple(
        each if isinstance(each, EvidenceSpec) else EvidenceSpec(method=each) for each in given
    )


def checked_comparison(spec: CompareSpec, passages: int) -> CompareSpec:
    """Return a spec of a comparison with so many passages.

    Raises:
        InvalidInput: a value does not fit its type, is no name that there is, or does not fit the
            others. Names the field.
    """
    if spec.matrix is not None:
        check_name("matrix", spec.matrix, get_args(RowType))
    elif spec.matrix_max_bytes is not None:
        raise InvalidInput("matrix_max_bytes", "is set, and no matrix is requested; leave it out")
    methods = [each.method for each in spec.evidence]
    for at, each in enumerate(methods):
        if each in methods[:at]:
            raise InvalidInput(
                f"evidence[{at}].method", f"{each} is requested twice; ask for each method once"
            )
    return dataclasses.replace(
        spec,
        evidence=tuple(
            _evidence(f"evidence[{at}]", each, passages) for at, each in enumerate(spec.evidence)
        ),
        matrix_max_bytes=optional(
            "matrix_max_bytes", spec.matrix_max_bytes, UINT64, "must be a whole number from 0"
        ),
    )


def _evidence(field: str, spec: EvidenceSpec, passages: int) -> EvidenceSpec:
    check_name(f"{field}.method", spec.method, EVIDENCE_METHODS)
    check_name(f"{field}.unit", spec.unit, EVIDENCE_UNITS)
    if spec.method != "attention" and (spec.layers or spec.heads):
        raise InvalidInput(
            f"{field}.{'layers' if spec.layers else 'heads'}",
            "are of attention alone; leave them out",
        )
    remedy = "must be a list of Spans for each passage"
    spans = each_as(f"{field}.spans", spec.spans, remedy, tuple)
    if spec.unit != "span" and spans:
        raise InvalidInput(f"{field}.spans", 'are of unit "span" alone; leave them out')
    if spec.unit == "span" and len(spans) != passages:
        raise InvalidInput(
            f"{field}.spans",
            f"has {len(spans)} lists for {passages} passages; send one list for each",
        )
    if spec.top_k == 0:
        raise InvalidInput(f"{field}.top_k", "is 0; ask for at least 1, or leave it out")
    numbers = "must hold whole numbers of 32 bits"

    def whole(one: int) -> int:
        return whole_number(one, INT32)

    return dataclasses.replace(
        spec,
        spans=tuple(
            each_as(f"{field}.spans[{at}].spans", own, "must be Spans", span_of)
            for at, own in enumerate(spans)
        ),
        top_k=optional(f"{field}.top_k", spec.top_k, UINT32, "must be a whole number from 1"),
        layers=each_as(f"{field}.layers", spec.layers, numbers, whole),
        heads=each_as(f"{field}.heads", spec.heads, numbers, whole),
    )


def checked_request(query: Input, passages: Sequence[Input], spec: CompareSpec) -> CompareSpec:
    """Return the checked spec of a comparison. Raises InvalidInput, naming the argument."""
    if not passages:
        raise InvalidInput("passages", "is empty; send at least one")
    for place, given in enumerate((query, *passages)):
        if isinstance(given, tuple) and given and isinstance(given[0], str):
            field = "query" if place == 0 else f"passages[{place - 1}]"
            raise InvalidInput(field, "is a pair of texts; send a text or ids")
    return checked_comparison(spec, len(passages))


def comparison_error(error: InvalidInput) -> InvalidInput:
    """Return an error whose inputs, the query first, are named `query` and `passages[i]`."""

    def named(found: re.Match[str]) -> str:
        place = int(found[1])
        return "query" if place == 0 else f"passages[{place - 1}]"

    field = "passages" if error.field == "inputs" else INPUT.sub(named, error.field)
    return InvalidInput(field, error.problem)


@contextlib.contextmanager
def of_side(side: str) -> Iterator[None]:
    """Name the inputs and the prompt of one side of a comparison: "query" or "passage"."""
    try:
        yield
    except InvalidInput as error:
        if error.field in ("prompt", *PROMPT_FIELDS):
            raise InvalidInput(f"{side}_{error.field}", error.problem) from None
        into = "query" if side == "query" else r"passages[\1]"
        raise InvalidInput(INPUT.sub(into, error.field), error.problem) from None
