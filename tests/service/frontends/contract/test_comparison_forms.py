"""Sizes of comparisons: what is reserved is never less than the answer, for texts of a model."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Sequence
from typing import Any, cast

import pytest

from headlight import Span
from headlight.comparison import CompareSpec, EvidenceSpec, EvidenceUnit
from headlight.evidence_methods import METHODS, UNIT_METHODS, EvidenceMethod
from headlight.results import ModelRef
from headlight.runtime import Runtime
from headlight.runtime.comparison.comparison_layout import ComparisonLayout, comparison_outputs
from headlight.spec import RowType
from headlight_service.core.requests.answer import Prepared
from headlight_service.core.requests.request import ComparisonRequest, Input, OutputSpec, Pair
from headlight_service.frontends.contract.comparison_forms import CompareForm, JsonCompareForm
from headlight_service.frontends.contract.json_answer_forms import NumberEncoding
from tests.service.conftest import serving
from tests.service.fakes import FakeRuntime

LARGE = 1 << 30
TEXTS = ["join paths", "Read it. Then close it!", "a", "one two " * 15]
OF_PAIRS: tuple[EvidenceMethod, ...] = ("occlusion", "attention")
UNITS: tuple[EvidenceUnit, ...] = ("token", "word", "sentence", "span")
Form = CompareForm | JsonCompareForm


def specs(methods: Sequence[EvidenceMethod] = UNIT_METHODS) -> list[CompareSpec]:
    found = [CompareSpec()]
    if "late_interaction" in methods:
        found.append(CompareSpec(late_interaction=True, matrix="float16"))
        found.append(CompareSpec(matrix="float16", matrix_kind="contribution"))
    for unit, top_k in itertools.product(UNITS, (None, 1, 3)):
        spans = tuple((Span(0, 1),) for _ in TEXTS[1:]) if unit == "span" else ()
        evidence = tuple(
            EvidenceSpec(method=method, unit=unit, spans=spans, top_k=top_k) for method in methods
        )
        matrix: RowType | None = "float32" if "late_interaction" in methods else None
        found.append(CompareSpec(evidence=evidence, matrix=matrix, sort=top_k == 1))
    for most, top_k in itertools.product((2, 5), (None, 3)):
        options = (
            EvidenceSpec(method="occlusion", max_encodings=most, top_k=top_k, query_units=True),
            *(
                EvidenceSpec(method=method, query_units=METHODS[method].query, top_k=top_k)
                for method in methods
                if method != "occlusion"
            ),
        )
        found.append(CompareSpec(evidence=options))
    return found


class Sized:
    """A form that keeps the size that it returned."""

    def __init__(self, form: Form) -> None:
        self.form, self.size = form, 0

    def overhead_bytes(self, ref: ModelRef, prepared: Prepared, plan: ComparisonLayout) -> int:
        self.size = self.form.overhead_bytes(ref, prepared, plan)
        return self.size


def made(name: str) -> Form:
    if name == "message":
        return CompareForm(LARGE)
    return JsonCompareForm(cast(NumberEncoding, name), LARGE)


@pytest.mark.parametrize("name", ["message", "list", "base64"])
@pytest.mark.parametrize("pairs", [False, True], ids=["texts", "pairs"])
async def test_no_answer_is_larger_than_reserved(
    runtime: Runtime, ranking: Runtime, name: str, pairs: bool
) -> None:
    inputs: list[Input] = [*TEXTS]
    if pairs:
        inputs = [Pair(TEXTS[0], each) for each in TEXTS[1:]]
    async with serving(cast(FakeRuntime, ranking if pairs else runtime)) as service:
        for spec in specs(OF_PAIRS if pairs else UNIT_METHODS):
            made_of = comparison_outputs(spec, (ranking if pairs else runtime).model())
            outputs = OutputSpec(**made_of, token_info=spec.details)
            request = ComparisonRequest(inputs, outputs, spec=spec, truncation="cut_end")
            form = Sized(made(name))
            handle = service.pipeline.submit(request, form)
            answer = await asyncio.to_thread(handle.result)
            found = form.form.encode(answer)
            handle.close()
            assert len(found) <= form.size, spec
            assert form.size <= 3 * len(found) + 2000, "and not far more"
            if name != "message":
                told: dict[str, Any] = json.loads(found)
                assert len(told["passages"]) == len(TEXTS) - 1
                assert ("query" in told) != pairs, "which each pair has"
        assert service.model.admission.outputs.held == 0
