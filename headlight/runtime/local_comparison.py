"""Comparison of a query with passages on an engine in this process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from headlight.comparison import PASSAGE_PROMPTS, QUERY_PROMPTS, CompareSpec, Comparison
from headlight.errors import InvalidInput
from headlight.interface.arguments import Input, Reading
from headlight.interface.comparison_arguments import (
    check_no_pair,
    checked_comparison,
    of_side,
)
from headlight.runtime.comparison.comparison_plan import (
    comparison_outputs,
    of_evidence,
    plan_comparison,
)
from headlight.runtime.comparison.passage_comparison import ComparisonNumbers, passage_result
from headlight.runtime.encode_items import Selection
from headlight.runtime.local_results import Prepared

if TYPE_CHECKING:
    from headlight.runtime.local_encoder import LocalEncoder

Prepare = Callable[..., list[Prepared]]  # LocalEncoder's method


def compare(
    encoder: LocalEncoder,
    prepare: Prepare,
    query: Input,
    passages: Sequence[Input],
    spec: CompareSpec,
    query_reading: Reading,
    passage_reading: Reading,
) -> Comparison:
    """Compare a query with passages; see `Encoder.compare`.

    Args:
        encoder: computes.
        prepare: tokenises inputs.
        query, passages: the inputs.
        spec: what to return, unchecked.
        query_reading, passage_reading: how to read their texts.

    Raises:
        InvalidInput: naming the argument.
    """
    if not passages:
        raise InvalidInput("passages", "is empty; send at least one")
    for place, each in enumerate((query, *passages)):
        check_no_pair(each, "query" if place == 0 else f"passages[{place - 1}]")
    spec = checked_comparison(spec, len(passages))
    selection = select(encoder, spec)
    with of_side("query"):
        [of_query] = prepare([query], query_reading, selection, default_prompts=QUERY_PROMPTS)
    with of_side("passage"):
        of_passages = prepare(passages, passage_reading, selection, default_prompts=PASSAGE_PROMPTS)
    prepared = [of_query, *of_passages]
    manifest = encoder.bundle.manifest
    texts = [each if isinstance(each, str) else None for each in (query, *passages)]
    plan = plan_comparison(spec, manifest, [each.tokenized for each in prepared], texts)
    plan.check_max_bytes()
    numbers = ComparisonNumbers(plan)
    items = plan.items([each.item for each in prepared])
    numbers.take_whole(encoder.engine.run_in_batches(items))
    if plan.holes:
        results = encoder.engine.run_in_batches(plan.hidden_items(items, encoder.select()))
        numbers.take_hidden(np.stack([each.pooled for each in results if each.pooled is not None]))
    found = [
        passage_result(spec, each, of_passages[each.index].tokens if spec.details else None)
        for each in numbers.passages()
    ]
    return Comparison(
        plan.measure,
        tuple(found),
        of_query.tokens if spec.details else None,
        tuple(plan.query.tolist()) if spec.token_vectors else (),
        encoder.model().ref,
    )


def select(encoder: LocalEncoder, spec: CompareSpec) -> Selection:
    """Resolve the outputs that a comparison needs. Raises InvalidInput, naming the evidence."""
    try:
        return encoder.select(**comparison_outputs(spec))
    except InvalidInput as error:
        raise of_evidence(spec, error) from None
