"""`headlight embed --spans`: a line of JSON for each span of each text."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Sequence
from typing import Literal

from headlight.archive import to_json
from headlight.cli.embed.embed_files import replacing
from headlight.cli.embed.embed_options import check_kind, encoder_of
from headlight.cli.embed.embed_output import json_numbers
from headlight.cli.files import UsageError, show
from headlight.cli.input_lines import InputLines, read_inputs
from headlight.cli.output_files import count_text, say_written
from headlight.cli.shared_options import reading
from headlight.client.channel import READY_SECONDS
from headlight.span_vectors import SpanVectors, Windows

WINDOWS = re.compile(r"(\d{1,9})(?::(\d{1,9}))?")
ROW_TYPES = ("float32", "float16")


def add_spans(group: argparse._ArgumentGroup) -> None:
    """Add the options of vectors of spans."""
    group.add_argument(
        "--spans",
        type=spans_of,
        metavar="sentences|N[:OVERLAP]",
        help=(
            "a vector for each sentence, or for each window of N tokens, of which OVERLAP are "
            "shared with the one before; a line of JSON for each, with its characters"
        ),
    )
    group.add_argument(
        "--beyond-max-length",
        action="store_true",
        help="with --spans: read a text that is too long in overlapping windows",
    )


def spans_of(text: str) -> Literal["sentences"] | Windows:
    """Return the spans that an option names. Raises ArgumentTypeError for any other text."""
    if text == "sentences":
        return "sentences"
    match = WINDOWS.fullmatch(text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r:.40} is not sentences, N or N:OVERLAP, as 64:16")
    return Windows(int(match[1]), int(match[2] or 0))


def embed_spans(arguments: argparse.Namespace) -> None:
    """Run `headlight embed --spans`."""
    dtypes = arguments.dtype or ["float32"]
    if arguments.format not in (None, "jsonl") or arguments.skip_bad:
        raise UsageError("--spans: writes lines of JSON; use --format jsonl, without --skip-bad")
    if len(dtypes) > 1 or dtypes[0] not in ROW_TYPES:
        raise UsageError(f"--spans: vectors have one --dtype, {' or '.join(ROW_TYPES)}")
    for option, value in (("progress", arguments.progress), ("retry-for", arguments.retry_for)):
        if value is not None:
            raise UsageError(f"--{option}: is not for --spans; leave it out")
    inputs = read_inputs(arguments)
    with encoder_of(arguments, 1, READY_SECONDS) as client:
        check_kind(arguments, client.model())
        vectors = client.span_vectors(
            inputs.texts,
            arguments.spans,
            dimensions=arguments.dimensions,
            normalize=arguments.normalize,
            dtype=dtypes[0],
            beyond_max_length=arguments.beyond_max_length,
            **reading(arguments),
        )
    if arguments.out is None:
        for line in lines(vectors, inputs):
            show(line, "jsonl")
        return
    with replacing(arguments.out, None) as file:
        file.writelines(line.encode() for line in lines(vectors, inputs))
    say_written(arguments.out, count_text(sum(map(len, vectors)), "vector"))


def lines(vectors: Sequence[SpanVectors], inputs: InputLines) -> Iterator[str]:
    """Yield a line of JSON for each span: text (from 0) or id, characters, tokens and vector."""
    for place, each in enumerate(vectors):
        name: dict[str, object] = {"text": place}
        if inputs.ids is not None:
            name = {"id": inputs.ids[place]}
        for at, (tokens, vector) in enumerate(zip(each.token_ranges, each.vectors, strict=True)):
            entry = {**name, "tokens": [tokens.start, tokens.stop]}
            if each.characters:
                entry |= {"start": each.characters[at].start, "end": each.characters[at].end}
            yield f'{to_json(entry)[:-1]}, "embedding": {json_numbers(vector)}}}\n'
