"""Retrieval of sections: vectors of spans of the whole document, or of each section alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bench.evidence.methods import figure
from bench.evidence.sections import Document
from headlight.runtime import Runtime
from headlight_model.evaluate.ranking import Floats, ranks, reciprocal_ranks

LATE, ALONE = "span vectors (late chunking)", "sections encoded alone"
BARE = "sections alone, without special tokens"  # as spans are
SMOOTHED = "sections alone, plus the mean of their document"
BATCH = 8  # texts of a call
GAIN = "gain of span vectors over"
RIGHT_DOCUMENT = "right document first"


def vectors(runtime: Runtime, documents: Sequence[Document]) -> tuple[dict[str, Floats], list[int]]:
    """Return the vectors of all sections by contestant, [C, D], and each document's tokens.

    Those of SMOOTHED have the document's subject without attention across sections.
    """
    late, tokens = [], []
    for document in documents:
        [spans] = runtime.span_vectors([document.text], [document.spans], beyond_max_length=True)
        late.append(spans.vectors)
        tokens.append(len(spans.tokens))
    texts = [each.text for document in documents for each in document.sections]
    alone, at, smoothed = encoded(runtime, texts), 0, []
    for document in documents:
        part = alone[at : at + len(document.sections)]
        mixed = part + part.mean(axis=0)
        smoothed.append(mixed / np.linalg.norm(mixed, axis=1, keepdims=True))
        at += len(part)
    return {
        LATE: np.concatenate(late),
        ALONE: alone,
        BARE: bare(runtime, texts),
        SMOOTHED: np.concatenate(smoothed),
    }, tokens


def bare(runtime: Runtime, texts: Sequence[str]) -> Floats:
    """Return the vector of the only span of each text, [N, D]."""
    rows = []
    for at in range(0, len(texts), BATCH):
        some = texts[at : at + BATCH]
        spans = [[(0, len(text))] for text in some]
        rows += [each.vectors for each in runtime.span_vectors(some, spans, truncate="end")]
    return np.concatenate(rows)


def encoded(runtime: Runtime, texts: Sequence[str]) -> Floats:
    """Return the vectors of some texts, [N, D]."""
    parts = [
        runtime.encode(texts[at : at + BATCH], truncate="end") for at in range(0, len(texts), BATCH)
    ]
    return np.concatenate(parts)


def measure(runtime: Runtime, documents: Sequence[Document]) -> dict[str, Any]:
    """Return the metrics of both contestants, of all documents and by their length."""
    by_contestant, tokens = vectors(runtime, documents)
    longest = runtime.bundle.manifest.max_length
    sections = [each for document in documents for each in document.sections]
    of_document = np.repeat(np.arange(len(documents)), [len(each.sections) for each in documents])
    with_query = [row for row, each in enumerate(sections) if each.query]
    queries = encoded(runtime, [sections[row].query for row in with_query])
    origin = of_document[with_query]
    beyond = np.array(tokens)[origin] > longest
    metrics = {
        name: metrics_of(queries @ rows.T, with_query, of_document)
        for name, rows in by_contestant.items()
    }
    groups = {
        "all documents": np.ones(len(with_query), bool),
        f"within {longest} tokens": ~beyond,
        f"beyond {longest} tokens": beyond,
    }
    return {
        "documents": len(documents),
        "beyond": int(sum(each > longest for each in tokens)),
        "sections": len(sections),
        "tokens": {"median": int(np.median(tokens)), "most": max(tokens)},
        "rows": [
            row
            for group, chosen in groups.items()
            if chosen.any()
            for row in rows_of(
                group, metrics, chosen, [documents[at].name for at in origin[chosen]]
            )
        ],
    }


def metrics_of(scores: Floats, answers: Sequence[int], of_document: Any) -> dict[str, Floats]:
    """Return the metrics of each question."""
    rank = ranks(scores.astype(np.float64), answers)
    first = of_document[scores.argmax(axis=1)] == of_document[list(answers)]
    return {
        "recall@1": (rank == 1).astype(np.float64),
        "recall@5": (rank <= 5).astype(np.float64),
        "MRR@10": reciprocal_ranks(rank),
        RIGHT_DOCUMENT: first.astype(np.float64),
    }


def rows_of(
    group: str, metrics: dict[str, dict[str, Floats]], chosen: Any, documents: Sequence[str]
) -> list[dict[str, Any]]:
    """Return a row for each contestant, and the gain of LATE over the others.

    The intervals of a gain come from drawing questions, and from drawing documents.
    """
    base = {"group": group, "questions": int(chosen.sum())}
    rows: list[dict[str, Any]] = [
        {**base, "name": name}
        | {key: figure(list(values_of_key[chosen])) for key, values_of_key in values.items()}
        for name, values in metrics.items()
    ]
    for than in (ALONE, BARE):
        for drawn, whole in (("questions", None), ("documents", documents)):
            gains = {
                key: figure(list((values_of_key - metrics[than][key])[chosen]), whole)
                for key, values_of_key in metrics[LATE].items()
            }
            rows.append({**base, "name": f"{GAIN} {than}; {drawn} drawn"} | gains)
    return rows
