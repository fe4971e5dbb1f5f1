"""Steps of a comparison in this process, before and after the engine runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from headlight.comparison import CompareSpec, Comparison
from headlight.description import ModelDescription
from headlight.errors import renamed
from headlight.interface.arguments import Input
from headlight.results import ModelRef
from headlight.runtime.bundle.manifest import Manifest
from headlight.runtime.comparison.comparison_layout import (
    ComparisonLayout,
    comparison_outputs,
    evidence_names,
    layout_of,
)
from headlight.runtime.comparison.passage_comparison import PassageNumbers, passage_result
from headlight.runtime.encode_items import Selection
from headlight.runtime.local_results import Prepared
from headlight.runtime.spelling import Spelling
from headlight.spec import ScoreOutput


def selection_of(
    spec: CompareSpec, select: Callable[..., Selection], model: ModelDescription
) -> Selection:
    """Resolve the outputs that a comparison needs; `select` is that of the encoder.

    Raises:
        InvalidInput: naming the evidence.
    """
    with renamed(evidence_names(spec)):
        return select(**comparison_outputs(spec, model))


def plan_of(
    spec: CompareSpec,
    manifest: Manifest,
    output: ScoreOutput,
    inputs: Sequence[Input],
    prepared: Sequence[Prepared],
) -> ComparisonLayout:
    """Return the plan of query and passages, or of pairs.

    Raises:
        InvalidInput: naming the argument.
    """
    plan = layout_of(spec, manifest, output, [each.tokenized for each in prepared], inputs)
    plan.check_max_bytes()
    return plan


def comparison_of(
    plan: ComparisonLayout,
    prepared: Sequence[Prepared],
    numbers: Sequence[PassageNumbers],
    model: ModelRef,
    spelling: Spelling | None,
) -> Comparison:
    """Return the comparison as a client makes it of an answer."""
    spec = plan.spec
    tokens = [each.tokens if spec.details else None for each in prepared]
    query = None if plan.of_pairs else tokens.pop(0)
    return Comparison(
        plan.measure,
        tuple(passage_result(spec, each, tokens[each.index], spelling) for each in numbers),
        query,
        tuple(plan.query.tolist()) if spec.token_vectors else (),
        model,
    )
