"""A comparison as text for a terminal, or as JSON."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from headlight.analysis.terminal_view import COLOURS, RESET, cells
from headlight.cli.output_files import count_text
from headlight.cli.result_output import numbers, wrapped_lines
from headlight.comparison import (
    LOGIT,
    Comparison,
    Contrast,
    Evidence,
    MatchedTerms,
    PassageComparison,
    UnitWeights,
)
from headlight.evidence_methods import METHODS, EvidenceMethod
from headlight.results import Floats, TokenList
from headlight.web.page import JOINERS

INDENT, LEAST_CELLS = 3, 20
QUERY_TITLE = "query: "
MOST_TERMS = 10
MOST_OTHERS = 6  # tokens of a pair that are of neither text; a chat template has a hundred
BRIGHT = 4  # colours of `COLOURS` from this one on have black letters


class RankedContrast(NamedTuple):
    """Why the best passage is above another.

    Attributes:
        rank: of the other.
        score, other_score: those of the best and of the other.
        contrast: of both.
        method: of the evidence that is contrasted.
    """

    rank: int
    score: float
    other_score: float
    contrast: Contrast
    method: EvidenceMethod


class Part(NamedTuple):
    """Part of a passage: a unit of the evidence, or what is between two.

    Attributes:
        text: its characters.
        share: its weight, divided by the largest of all passages; 0 if it is negative, or no unit.
        best: whether it is one of the units with the largest weights.
    """

    text: str
    share: float = 0.0
    best: bool = False


def comparison_text(
    comparison: Comparison,
    query: str,
    passages: Sequence[str],
    places: Sequence[str],
    unit: str,
    best: int,
    width: int,
    colour: bool,
    *,
    contrast: RankedContrast | None = None,
) -> str:
    """Return the passages with their scores, with the evidence of the first method marked.

    Of a model that reranks, the query is marked above each passage.

    Args:
        comparison: with evidence, and the late interaction's score if the model has it.
        query, passages: the texts, passages by their index.
        places: where each passage is from.
        unit: of the evidence.
        best: mark this many units of each passage.
        width: columns of a line.
        colour: show weights as colours, and the best bold; else only the best, between asterisks.
        contrast: why the best passage is above another; None: it is not shown.
    """
    top = max((largest_weight(each.evidence[0]) for each in comparison), default=0)

    def marked(units: Evidence | UnitWeights, text: str, title: str = "") -> list[str]:
        parts = parts_of(units, text, best, top)
        parts = [*([Part(title)] if title else []), *(parts if colour else asterisks(parts))]
        return indented(wrapped(parts, max(width - INDENT, LEAST_CELLS)))

    def listed(lines: Sequence[str]) -> list[str]:
        return indented(wrapped_lines(lines, max(width - INDENT, LEAST_CELLS)))

    pairs = comparison.similarity == LOGIT
    blocks = [] if pairs else [f"query: {plain(query)}"]
    for rank, passage in enumerate(comparison, 1):
        evidence = passage.evidence[0]
        lines = [f"{rank}. {scores(passage)}  {plain(places[passage.index])}"]
        if evidence.query is not None:
            lines += marked(evidence.query, query, QUERY_TITLE)
        lines += marked(evidence, passages[passage.index])
        if evidence.terms is not None:
            lines += listed([terms_text(evidence.weights, evidence.terms)])
        if evidence.special is not None and passage.tokens is not None:
            lines += listed([others_text(evidence.special, passage.tokens)])
        blocks.append("\n".join(lines))
    if contrast is not None:
        lines = [contrast_text(contrast)]
        if contrast.method != "terms":
            lines += marked(contrast.contrast.query, query, QUERY_TITLE)
        lines += listed(extremes(contrast.contrast, query, best))
        blocks.append("\n".join(lines))
    method = comparison.passages[0].evidence[0].method
    meanings = legend(comparison.similarity, method, unit, best, top, colour)
    blocks.append("\n".join(wrapped_lines(meanings, width)))
    return "\n\n".join(blocks)


def indented(lines: Iterable[str]) -> list[str]:
    """Return lines with the indent of a passage."""
    return [f"{' ' * INDENT}{line}" for line in lines]


def largest_weight(evidence: Evidence) -> float:
    """Return the largest weight of a passage, and of the query in a pair; 0 if there is none."""
    sides = [evidence.weights, *(() if evidence.query is None else (evidence.query.weights,))]
    return max((float(max(each, default=0)) for each in sides), default=0)


def others_text(special: UnitWeights, tokens: TokenList) -> str:
    """Return the pair's tokens that are of neither text, with their weights.

    Of many, as those of a chat template, the largest, and the sum of the rest.
    """
    shown = sorted(special.largest(MOST_OTHERS))
    pieces = (plain(tokens.pieces[at]) for [at] in (special.units[place] for place in shown))
    parts = [
        f"{piece} {weight:.3f}"
        for piece, weight in zip(pieces, special.weights[shown], strict=True)
    ]
    if rest := len(special.units) - len(shown):
        left = special.weights.sum() - special.weights[shown].sum()
        parts.append(f"{rest} more {left:.3f}")
    return "other tokens: " + ", ".join(parts)


def terms_text(products: Floats, terms: MatchedTerms) -> str:
    """Return shared terms with the product of their weights, and the sum of the rest."""
    rows = zip(terms.labels(), products, terms.query, terms.passage, strict=True)
    parts = [
        f"{plain(label)} {product:.3f} ({mine:.3f} × {its:.3f})"
        for label, product, mine, its in itertools.islice(rows, MOST_TERMS)
    ]
    if (rest := len(products) - MOST_TERMS) > 0:
        parts.append(f"{rest} more {products[MOST_TERMS:].sum():.3f}")
    return f"terms: {', '.join(parts) or 'none is shared'}"


def contrast_text(contrast: RankedContrast) -> str:
    """Return the scores of a contrast, and their difference."""
    return (
        f"1 above {contrast.rank}: {contrast.score:.3f} less {contrast.other_score:.3f} is "
        f"{contrast.contrast.difference:.3f}"
    )


def extremes(contrast: Contrast, text: str, count: int) -> list[str]:
    """Return the units or terms with the largest weights above 0, and the least below 0."""
    weights, characters = contrast.weights, contrast.query.characters
    labels = contrast.terms or [text[span.start : span.end] for span in characters]

    def listed(title: str, order: Sequence[int]) -> str:
        parts = (f"{plain(labels[at])} {weights[at]:+.3f}" for at in order)
        return f"{title}: {', '.join(parts) or 'nothing'}"

    order = contrast.largest(len(labels))
    for_it = [at for at in order if weights[at] > 0][:count]
    against = [at for at in reversed(order) if weights[at] < 0][:count]
    return [listed("for it", for_it), listed("against it", against)]


def scores(passage: PassageComparison) -> str:
    """Return the scores of a passage."""
    late = "" if passage.max_sim_mean is None else f"  max-sim {passage.max_sim_mean:.3f}"
    return f"{passage.score:.3f}{late}"


def legend(
    similarity: str, method: EvidenceMethod, unit: str, best: int, top: float, colour: bool
) -> Iterator[str]:
    """Yield what the numbers and marks mean."""
    pairs = similarity == LOGIT
    if method == "terms":
        yield f"score: {similarity}"
        yield f"weight by {METHODS[method].title}: {METHODS[method].meaning}"
        return
    if pairs:
        yield "score: logit of the query and the passage, read as a pair"
    else:
        yield f"score: {similarity}; max-sim: mean over the query's tokens of their largest cosine"
    of = "each query and passage" if pairs else "each passage"
    most = f"up to {count_text(best, unit)} of {of}, with the largest weights above 0"
    if colour:
        ramp = "".join(f"\x1b[48;5;{number}m " for number in COLOURS[1:])
        yield f"colours: weight of each {unit} from 0 {ramp}{RESET} to {top:.3f}; bold: {most}"
    else:
        yield f"**marked**: {most}"
    traits = METHODS[method]
    yield f"weight by {traits.title}: {traits.of_pairs if pairs else traits.meaning}"


def parts_of(evidence: Evidence | UnitWeights, text: str, best: int, top: float) -> list[Part]:
    """Return a passage in its parts, in order.

    Units that share a character, such as tokens of one emoji, are cut where the one before ends.
    """
    chosen = set(evidence.largest(best))
    parts, place = list[Part](), 0
    for at, span in enumerate(evidence.characters):
        if span.start > place:
            parts.append(Part(plain(text[place : span.start])))
        start, weight = max(place, span.start), float(evidence.weights[at])
        if span.end > start:
            share = max(0.0, weight / top) if top > 0 else 0.0
            parts.append(Part(plain(text[start : span.end]), share, at in chosen and weight > 0))
        place = max(place, span.end)
    return [*parts, Part(plain(text[place:]))]


def plain(text: str) -> str:
    """Return a text on one line, of as many characters, without any that drive a terminal."""
    return "".join(
        char
        if char.isprintable() or char in JOINERS
        else " "
        if char.isspace()
        else "\N{REPLACEMENT CHARACTER}"
        for char in text
    )


def asterisks(parts: Sequence[Part]) -> list[Part]:
    """Return the parts with asterisks around the best instead of weights."""
    runs = (
        (best, "".join(part.text for part in run))
        for best, run in itertools.groupby(parts, lambda part: part.best)
    )
    return [Part(f"**{text}**" if best else text) for best, text in runs]


def wrapped(parts: Sequence[Part], width: int) -> Iterator[str]:
    """Yield lines of at most `width` columns, broken at spaces; a longer word is cut."""
    line, taken = "", 0
    for word in words_of(parts):
        for piece in pieces_of(word, width):
            size = sum(cells(part.text) for part in piece)
            if taken + size > width:
                yield line.rstrip()
                line, taken = "", 0
            if taken or not piece[0].text.isspace():
                line, taken = line + "".join(map(drawn, piece)), taken + size
    if taken:
        yield line.rstrip()


def words_of(parts: Sequence[Part]) -> Iterator[list[Part]]:
    """Yield the parts of each word, and of each run of spaces; a part with spaces is split."""
    pieces = (
        part._replace(text="".join(run))
        for part in parts
        for _, run in itertools.groupby(part.text, str.isspace)
    )
    for _, word in itertools.groupby(pieces, lambda part: part.text.isspace()):
        yield list(word)


def pieces_of(word: Sequence[Part], width: int) -> Iterator[list[Part]]:
    """Yield a word in pieces of at most `width` columns."""
    piece, taken = list[Part](), 0
    for part in word:
        text, start = part.text, 0
        for at, char in enumerate(text):
            if taken + cells(char) > width:
                yield [*piece, part._replace(text=text[start:at])]
                piece, taken, start = [], 0, at
            taken += cells(char)
        piece.append(part._replace(text=text[start:]))
    yield piece


def drawn(part: Part) -> str:
    """Return a part in the colour of its weight, bold if it is one of the best."""
    level = round(part.share * (len(COLOURS) - 1))
    if not level or not part.text:
        return part.text
    letters = 16 if level >= BRIGHT else 231
    bold = "1;4;" if part.best else ""
    return f"\x1b[{bold}38;5;{letters};48;5;{COLOURS[level]}m{part.text}{RESET}"


def comparison_json(
    comparison: Comparison,
    query: str,
    passages: Sequence[str],
    places: Sequence[str],
    unit: str,
    best: int,
    *,
    contrast: RankedContrast | None = None,
) -> dict[str, object]:
    """Return scores and evidence with the characters of each unit, the best passage first.

    `best` of an evidence lists the places of its largest weights in `units`. Of a model that
    reranks, evidence also has the units of the query.
    """
    labels = () if comparison.query is None else comparison.query.labels(query)
    fields: dict[str, object] = {
        "model": dataclasses.asdict(comparison.model),
        "similarity": comparison.similarity,
        "query": {"text": query, "tokens": [labels[at] for at in comparison.query_tokens]},
        "unit": unit,
        "passages": [
            {
                "place": places[passage.index],
                "text": passages[passage.index],
                "score": shortest(passage.score),
                "max_sim_mean": None
                if passage.max_sim_mean is None
                else shortest(passage.max_sim_mean),
                "evidence": [
                    evidence_json(each, passage.tokens, query, passages[passage.index], best)
                    for each in passage.evidence
                ],
            }
            for passage in comparison
        ],
    }
    if contrast is not None:
        fields["contrast"] = {
            "rank": contrast.rank,
            "method": contrast.method,
            "difference": shortest(contrast.contrast.difference),
            **contrasted_json(contrast.contrast, query, best),
        }
    return fields


def contrasted_json(contrast: Contrast, query: str, best: int) -> dict[str, object]:
    """Return the units of a contrast with their weights, or its terms."""
    if not contrast.terms:
        return {"query": units_json(contrast.query, query, best)}
    rows = zip(contrast.terms, numbers(contrast.weights), strict=True)
    return {"terms": [{"piece": piece, "weight": weight} for piece, weight in rows]}


def units_json(units: Evidence | UnitWeights, text: str, best: int) -> dict[str, object]:
    """Return units of a text with their weights, and the places of the largest."""
    return {
        "units": [
            {"start": start, "end": end, "text": text[start:end], "weight": weight}
            for (start, end, _), weight in zip(
                units.characters, numbers(units.weights), strict=True
            )
        ],
        "best": units.largest(best),
    }


def evidence_json(
    evidence: Evidence, tokens: TokenList | None, query: str, text: str, best: int
) -> dict[str, object]:
    """Return the evidence of one method, and what the query's tokens or terms matched."""
    fields: dict[str, object] = {
        "method": evidence.method,
        **(units_json(evidence, text, best) if evidence.terms is None else {}),
    }
    if (terms := evidence.terms) is not None:
        columns = map(numbers, (evidence.weights, terms.query, terms.passage))
        rows = zip(terms.terms, terms.labels(), *columns, strict=True)
        names = ("term", "piece", "weight", "query", "passage")
        fields["terms"] = [dict(zip(names, row, strict=True)) for row in rows]
    if evidence.query is not None:
        fields["query"] = units_json(evidence.query, query, best)
    if evidence.special is not None and tokens is not None:
        weights = numbers(evidence.special.weights)
        fields["special"] = [
            {"token": at, "piece": tokens.pieces[at], "weight": weight}
            for [at], weight in zip(evidence.special.units, weights, strict=True)
        ]
    cosines: Floats | None = evidence.matched_cosines
    if cosines is not None and tokens is not None:
        fields["matches"] = [
            {"start": tokens.starts[at], "end": tokens.ends[at], "cosine": cosine}
            for at, cosine in zip(evidence.matched_tokens, numbers(cosines), strict=True)
        ]
    return fields


def shortest(number: float) -> float:
    """Return a float32 in its shortest decimals."""
    return float(f"{number:.7g}")
