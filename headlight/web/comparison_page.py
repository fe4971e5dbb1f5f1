"""A comparison as one self-contained HTML file, which loads nothing."""

from __future__ import annotations

import string
from collections.abc import Sequence

from headlight.comparison import (
    Comparison,
    Evidence,
    MatchedTerms,
    PassageComparison,
    UnitWeights,
)
from headlight.results import Floats, TokenList
from headlight.web.assets import asset, digest, script_of
from headlight.web.page import block, plain

COMPARISON_SCRIPTS = ("elements.js", "comparison.js")
BEST = 3  # units that are underlined in each passage


def comparison_page(
    comparison: Comparison,
    query: str,
    passages: Sequence[str],
    names: Sequence[str] = (),
    *,
    best: int = BEST,
) -> str:
    """Return a page with the query, and below it the passages with their evidence.

    A reader chooses the method if there are several, and points at a token of the query to see what
    it matched, if there is evidence by late interaction. Of a model that reranks, the query is
    shown with each passage, and can be contrasted with that of another passage. The page holds its
    data, style and script, and forbids itself to load anything.

    Args:
        comparison: with evidence.
        query: the text.
        passages: the texts, in the order of the request.
        names: a name of each, such as the place that it is from.
        best: underline this many units of each passage, those with the largest weights above 0.

    Returns:
        HTML, to be written as UTF-8.

    Raises:
        ValueError: there is no evidence, or the texts are not those of the comparison.
    """
    if not all(each.evidence for each in comparison):
        raise ValueError("comparison: has no evidence; compare with evidence=...")
    if len(passages) != len(comparison) or len(names) not in (0, len(passages)):
        raise ValueError(
            f"passages: {len(passages)} texts and {len(names)} names for {len(comparison)}; "
            "give those that were compared"
        )
    style = asset("page.css") + asset("comparison.css")
    script = script_of(*COMPARISON_SCRIPTS, "comparison_start.js")
    model = comparison.model
    tokens = [] if comparison.query is None else offsets(comparison.query)
    data = {
        "similarity": comparison.similarity,
        "best": best,
        "query": {"text": query, "tokens": [tokens[at] for at in comparison.query_tokens]},
        "passages": [
            described(each, passages[each.index], names[each.index] if names else "")
            for each in comparison
        ],
    }
    return string.Template(asset("comparison.html")).substitute(
        {
            "name": plain(model.name),
            "version": plain(model.version),
            "provider": plain(model.provider),
            "precision": plain(model.precision),
            "bundle": plain(model.bundle_sha256),
            "view": asset("comparison_view.html"),
            "style": style,
            "style_hash": digest(style),
            "script": script,
            "script_hash": digest(script),
            "data": block(data),
        }
    )


def described(passage: PassageComparison, text: str, name: str) -> dict[str, object]:
    """Return a passage as the script reads it."""
    return {
        "name": name,
        "text": text,
        "score": round(passage.score, 6),
        "maxSim": None if passage.max_sim_mean is None else round(passage.max_sim_mean, 6),
        "tokens": [] if passage.tokens is None else offsets(passage.tokens),
        "evidence": [evidence_of(each, passage.tokens) for each in passage.evidence],
    }


def evidence_of(evidence: Evidence, tokens: TokenList | None) -> dict[str, object]:
    """Return evidence as the script reads it."""
    cosines, special = evidence.matched_cosines, evidence.special
    pieces = (
        [] if special is None or tokens is None else [tokens.pieces[at] for [at] in special.units]
    )
    return {
        "method": evidence.method,
        **({"units": [], "weights": []} if evidence.terms else units_of(evidence)),
        "terms": None if evidence.terms is None else terms_of(evidence.weights, evidence.terms),
        "matched": list(evidence.matched_tokens),
        "cosines": [] if cosines is None else shortest(cosines),
        "query": None if evidence.query is None else units_of(evidence.query),
        "special": []
        if special is None
        else [[*each] for each in zip(pieces, shortest(special.weights), strict=True)],
    }


def terms_of(products: Floats, terms: MatchedTerms) -> list[list[object]]:
    """Return shared terms as the script reads them: spelling, product, and both weights."""
    columns = map(shortest, (products, terms.query, terms.passage))
    return [[*row] for row in zip(terms.labels(), *columns, strict=True)]


def units_of(units: Evidence | UnitWeights) -> dict[str, object]:
    """Return units with their weights as the script reads them."""
    return {
        "units": [[span.start, span.end] for span in units.characters],
        "weights": shortest(units.weights),
    }


def shortest(numbers: Floats) -> list[float]:
    """Return numbers in the shortest decimals of the same float32."""
    return [float(str(number)) for number in numbers]


def offsets(tokens: TokenList) -> list[list[int]]:
    """Return the first character and the end of each token."""
    return [[start, end] for start, end in zip(tokens.starts, tokens.ends, strict=True)]
