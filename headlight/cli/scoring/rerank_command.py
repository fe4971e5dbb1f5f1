"""`headlight rerank`: its options, and documents by their score as text or JSON."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from headlight.analysis.terminal_view import fit
from headlight.cli.compare.compare_command import (
    BEST,
    PASSAGES,
    Passages,
    best_explained,
    passages_of,
)
from headlight.cli.compare.comparison_output import comparison_json, comparison_text
from headlight.cli.embed.embed_options import add_local, encoder_of
from headlight.cli.files import screen, terminal_width
from headlight.cli.output_files import count_text, write_result
from headlight.cli.result_output import numbers
from headlight.cli.shared_options import (
    add_connection,
    add_output,
    add_priority,
    add_prompt,
    add_text_field,
    command,
)
from headlight.client.channel import READY_SECONDS
from headlight.command_parser import positive
from headlight.comparison import Comparison, EvidenceSpec
from headlight.errors import renamed
from headlight.interface.encoder import Encoder
from headlight.printable import escaped
from headlight.refusals import Path
from headlight.results import LabelScore, ModelRef, RankedDocument
from headlight.spec import TRUNCATE

CALLS_AT_ONCE = 4
LEAST_CELLS = 20  # of a document
# Arguments of `compare` that are options here.
OPTIONS: Mapping[Path, Path] = {
    (f"query_{name}",): (name,) for name in ("prompt", "prompt_name", "prompt_text")
}
NOTES = """\
Documents are lines of files or of standard input. A model that reranks reads
each together with the query; the highest scores come first. To find documents
among many, embed them and search their vectors first."""
EXAMPLES = (
    'headlight rerank "join two paths" texts.txt',
    'headlight rerank "join two paths" texts.jsonl --top-n 2 --format json',
    'headlight rerank "join two paths" texts.txt --out ranks.json',
    'headlight rerank "join two paths" texts.txt --top-n 2 --why',
)


def add_rerank(commands: Any) -> None:
    """Add the command and its options."""
    made = command(
        commands,
        "rerank",
        run_rerank,
        "documents by their score for a query",
        arguments="QUERY [FILE]...",
        notes=NOTES,
        examples=EXAMPLES,
    )
    group = made.add_argument_group("input")
    group.add_argument("query", metavar="QUERY", help="the text to rank for")
    group.add_argument(
        "files",
        nargs="*",
        metavar="FILE",
        help=(
            "documents, one a line; from .jsonl or .ndjson, a JSON object a line; "
            "none, or -: standard input"
        ),
    )
    add_text_field(group)
    group.add_argument(
        "--top-n", type=positive, metavar="N", help="show the N best; default: all documents"
    )
    group = made.add_argument_group("evidence")
    group.add_argument(
        "--why",
        action="store_true",
        help=(
            "show how far each logit falls without a part of the document or the query, an "
            f"encoding for each part; of the {PASSAGES} best, if --top-n is absent"
        ),
    )
    group.add_argument(
        "--unit",
        choices=("token", "word", "sentence"),
        default="word",
        help="parts of --why; default: word",
    )
    group = add_prompt(made, "the query, or as the instruction of the model's template")
    group.add_argument(
        "--truncate",
        choices=TRUNCATE,
        default="end",
        help=(
            "of query and document that are too long together, cut off this side of the longer "
            "one, or the end of the document, or refuse; default: end"
        ),
    )
    add_priority(group, several=True)
    add_output(made, ("text", "json"))
    add_local(made)
    add_connection(made)


def run_rerank(arguments: argparse.Namespace) -> None:
    """Run `headlight rerank`."""
    documents = passages_of(arguments, "documents")
    arguments.places = documents.places  # of errors
    reading = {
        "truncate": arguments.truncate,
        "special_tokens": arguments.special_tokens,
        "priority": arguments.priority or "bulk",
    }
    with encoder_of(arguments, CALLS_AT_ONCE, READY_SECONDS) as encoder:
        if arguments.why:
            comparison, documents = explained(encoder, arguments, documents, reading)
            write_explained(arguments, comparison, documents)
            return
        query, texts = arguments.query, documents.texts
        prompt = {"prompt_name": arguments.prompt_name, "prompt": arguments.prompt}
        ranked = encoder.rerank(query, texts, top_n=arguments.top_n, **prompt, **reading)
        ref = encoder.model().ref
    write_result(
        arguments,
        what=f"scores of {count_text(len(ranked), 'document')}",
        text=lambda: ranks_text(ranked, documents.places, terminal_width(arguments.out)),
        json=lambda: ranks_json(arguments.query, ranked, documents.places, ref),
    )


def explained(
    encoder: Encoder, arguments: argparse.Namespace, documents: Passages, reading: dict[str, Any]
) -> tuple[Comparison, Passages]:
    """Return the best documents with what their scores fall by without each part."""

    def compare(some: Passages, **outputs: Any) -> Comparison:
        arguments.places = some.places  # of errors
        with renamed(OPTIONS):
            return encoder.compare(
                arguments.query,
                some.texts,
                sort=True,
                query_prompt_name=arguments.prompt_name,
                query_prompt=arguments.prompt,
                **outputs,
                **reading,
            )

    evidence = [EvidenceSpec(method="occlusion", unit=arguments.unit)]
    return best_explained(compare, documents, arguments.top_n or PASSAGES, evidence=evidence)


def write_explained(
    arguments: argparse.Namespace, comparison: Comparison, documents: Passages
) -> None:
    """Write the documents with their evidence, as `headlight compare` does."""
    texts = arguments.query, documents.texts, documents.places
    unit, out = arguments.unit, screen(arguments.out)
    write_result(
        arguments,
        what=f"evidence for {count_text(len(documents.texts), 'document')}",
        text=lambda: comparison_text(comparison, *texts, unit, BEST, *out),
        json=lambda: comparison_json(comparison, *texts, unit, BEST),
    )


def ranks_text(ranked: Sequence[RankedDocument], places: Sequence[str], width: int | None) -> str:
    """Return a line for each document: its score, its place and its text.

    `width`: columns to which texts are cut; None: they are whole.
    """
    longest = max(len(places[each.index]) for each in ranked)
    lines = []
    for each in ranked:
        head = f"{score_text(each.score)}  {places[each.index]:<{longest}}  "
        text = " ".join(escaped(each.document).split())
        if width is not None:
            text = fit(text, max(width - len(head), LEAST_CELLS)).rstrip()
        lines.append(head + text)
    return "\n".join(lines)


def score_text(score: float) -> str:
    """Return a score in a column that also holds logits: "  0.983", "-10.412"."""
    return f"{score:7.3f}"


def ranks_json(
    query: str, ranked: Sequence[RankedDocument], places: Sequence[str], ref: ModelRef
) -> dict[str, object]:
    """Return the documents with their scores, the best first."""
    results = [
        {
            "index": each.index,
            "place": places[each.index],
            **score_json(each),
            "cut_tokens": each.cut_tokens,
            "document": each.document,
        }
        for each in ranked
    ]
    return {"model": dataclasses.asdict(ref), "query": query, "results": results}


def score_json(each: RankedDocument | LabelScore) -> dict[str, float]:
    """Return a score and its logit in the shortest decimals of float32."""
    score, logit = numbers(np.array([each.score, each.logit], np.float32))
    return {"score": score, "logit": logit}
