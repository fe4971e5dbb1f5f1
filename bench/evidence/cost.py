"""Cost of comparisons and their evidence beside that of encoding the same texts."""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Sequence
from typing import Any

from bench.evidence.deletion import BUDGET
from bench.evidence.planted import SEED, Case
from bench.frame.rounds import Contestants, ratios, spread, times
from headlight.comparison import EvidenceSpec
from headlight.interface.encoder import Encoder
from headlight.runtime import Runtime

TOKENS = 128  # of a passage, special tokens included
SIZES = (10, 100)  # passages of a request
ENCODE, SCORES = "Encode", "Compare, scores alone"
EVIDENCE = "with late interaction evidence of words"
OCCLUSION = "with occlusion of {}s"


def passages(runtime: Runtime, cases: Sequence[Case], count: int) -> list[str]:
    """Return texts of TOKENS tokens: the passages of the cases, joined and cut."""
    draw, texts = random.Random(SEED), list[str]()
    while len(texts) < count:
        text = " ".join(each.passage for each in draw.sample(cases, 3))
        tokens = runtime.tokenize(text)[0]
        if len(tokens) < TOKENS:
            continue
        cut = text[: tokens.ends[TOKENS - 2]]  # the last token is [SEP]
        if len(runtime.tokenize(cut)[0]) == TOKENS:
            texts.append(cut)
    return texts


def calls(encoder: Encoder, query: str, texts: Sequence[str]) -> Contestants:
    """Return the calls that take turns."""

    def evidence(**fields: Any) -> Callable[[], object]:
        return lambda: encoder.compare(query, texts, evidence=EvidenceSpec(**fields))

    return {
        ENCODE: lambda: encoder.encode([query, *texts]),
        SCORES: lambda: encoder.compare(query, texts),
        "with the late interaction score": lambda: encoder.compare(
            query, texts, late_interaction=True
        ),
        "with span evidence of words": evidence(method="span"),
        "with contributions of words": evidence(method="contributions"),
        f"with occlusion of at most {BUDGET} units": evidence(
            method="occlusion", max_encodings=BUDGET
        ),
        EVIDENCE: evidence(method="late_interaction"),
        "with attention of words": evidence(method="attention"),
        OCCLUSION.format("sentence"): evidence(method="occlusion", unit="sentence"),
        OCCLUSION.format("word"): evidence(method="occlusion"),
    }


def measure(
    encoder: Encoder, where: str, query: str, sizes: Sequence[Sequence[str]], rounds: int
) -> list[dict[str, Any]]:
    """Return a row for each call and list of passages.

    Occlusion of the words of the last list takes its turns with Encode alone, in one round, and
    in process only.
    """
    rows, slow = list[dict[str, Any]](), OCCLUSION.format("word")
    for texts in sizes:
        contestants, size = calls(encoder, query, texts), len(texts)
        apart = (
            {ENCODE: contestants[ENCODE], slow: contestants.pop(slow)} if texts is sizes[-1] else {}
        )
        rows += rows_of(where, size, times(contestants, rounds))
        if apart and isinstance(encoder, Runtime):
            [_, row] = rows_of(where, size, times(apart, 1))
            rows.append(row)
    return rows


def rows_of(where: str, size: int, taken: dict[str, list[float]]) -> list[dict[str, Any]]:
    """Return the median time of each call, and its ratio to Encode in the same round."""
    rows = []
    for name, milliseconds in taken.items():
        ratio, least, most = spread(ratios(milliseconds, taken[ENCODE]))
        numbers = {
            "ms": statistics.median(milliseconds),
            "ratio": ratio,
            "least": least,
            "most": most,
        }
        row = {"place": where, "passages": size, "name": name, "rounds": len(milliseconds)}
        rows.append({**row, **{key: round(value, 3) for key, value in numbers.items()}})
    return rows
