"""`headlight embed`: its options, its output, and resuming from a checkpoint."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from headlight.bulk.row_blocks import BLOCK, BlockSize, JobRetries, check_weights, encode_blocks
from headlight.bulk.signals import ended_by_sigterm
from headlight.cli.embed.embed_files import (
    made_with,
    partial_folder,
    report_left_out,
    report_skipped,
    rows_in,
    write,
)
from headlight.cli.embed.embed_options import (
    ONE_TYPE,
    add_local,
    add_vectors,
    check_kind,
    encoder_of,
    encoding,
    is_service,
    vector_types,
)
from headlight.cli.embed.job_checkpoint import Rows
from headlight.cli.embed.multi_vector_lines import add_multi_vector, embed_multi_vector
from headlight.cli.embed.progress import Progress
from headlight.cli.embed.span_lines import add_spans, embed_spans
from headlight.cli.embed.sparse_lines import add_sparse, check_no_sparse, embed_sparse
from headlight.cli.error_advice import reworded
from headlight.cli.files import UsageError, say
from headlight.cli.input_lines import InputLines, read_inputs
from headlight.cli.shared_options import (
    add_connection,
    add_output,
    add_reading,
    add_texts,
    command,
    seconds,
)
from headlight.cli.tables.loading import table_command
from headlight.cli.tables.table_options import add_tables, is_table
from headlight.client.channel import READY_SECONDS
from headlight.interface.arguments import Input
from headlight.results import Embeddings, ModelRef

RETRY_SECONDS = 60.0
LOCAL_BLOCKS_AT_ONCE = 2  # so that one is tokenised while another is computed
NOTES = """\
Of texts from a file or standard input, with --out OUT, vectors are kept in
OUT.partial as they come; OUT is written at the end. After an error, Ctrl-C or
SIGTERM the same command goes on from there; texts not done yet may be mended
first. The exit code is 4 if texts or rows were left out of a finished job; the
last line says how many, and where they are listed."""
EXAMPLES = (
    'headlight embed "join two paths" "parse a date"',
    "headlight embed --file texts.txt --out vectors.npz",
    "headlight embed --file texts.jsonl --id-field id --truncate end --out vectors.jsonl",
    "headlight embed --file texts.txt --spans sentences --out sentences.jsonl",
    "headlight embed docs.parquet --text-column body --id-column id --out vectors.parquet",
)


def add_embed(commands: Any) -> None:
    """Add the command and its options."""
    made = command(
        commands,
        "embed",
        run_embed,
        "vectors of texts",
        arguments="[TEXT]...",
        notes=NOTES,
        examples=EXAMPLES,
    )
    group = add_texts(made)
    group.add_argument(
        "--id-field",
        metavar="NAME",
        help=(
            "lines are JSON objects; keep a text of at most 1000 characters or a whole number "
            "from each, as `ids` of npz and json and `id` of jsonl"
        ),
    )
    group.add_argument(
        "--token-ids",
        action="store_true",
        help=(
            "each text is a list of token ids, special ones included, as 2 705 1210 3: "
            "for models without a tokenizer"
        ),
    )
    group.add_argument(
        "--skip-bad",
        action="store_true",
        help=(
            "leave out what cannot be encoded (too long, empty) and say so on standard error: npz "
            "has `lines`, the numbers of the lines that its rows are of, and `skipped_lines`; "
            "json and jsonl have null and the reason; text and npy have no row for it"
        ),
    )
    add_reading(made, several=True)
    vectors = add_vectors(made)
    add_spans(vectors)
    add_sparse(vectors)
    add_multi_vector(vectors)
    add_output(made, ("text", "json", "jsonl", "npz", "npy", "parquet")).add_argument(
        "--progress",
        action=argparse.BooleanOptionalAction,
        help=(
            "tell on standard error how far it is; default: in a terminal, "
            "for texts from a file or standard input"
        ),
    )
    add_tables(made)
    add_local(made)
    add_connection(made).add_argument(
        "--retry-for",
        type=seconds,
        metavar="SECONDS",
        help=(
            "wait so long for a service that is away or overloaded, since it last answered; "
            f"default: {RETRY_SECONDS:g} for texts from a file or standard input, else 0"
        ),
    )


def other_output(arguments: argparse.Namespace) -> Callable[[argparse.Namespace], None] | None:
    """Return what runs the command for another output than pooled vectors."""
    if arguments.multi_vector:
        return embed_multi_vector
    if arguments.sparse:
        return embed_sparse
    return None if arguments.spans is None else embed_spans


def run_embed(arguments: argparse.Namespace) -> int:
    """Run `headlight embed`. Return the exit code."""
    if not arguments.sparse:
        check_no_sparse(arguments)
    if is_table(arguments):
        return int(table_command("embed").embed_table(arguments, RETRY_SECONDS))
    if arguments.beyond_max_length and arguments.spans is None:
        raise UsageError("--beyond-max-length: needs --spans")
    if (other := other_output(arguments)) is not None:
        other(arguments)
        return 0
    vector_types(arguments)  # before the texts are read
    if arguments.id_field is not None and (arguments.format or "text") in ONE_TYPE:
        raise UsageError(
            "--id-field: text and npy hold vectors alone; use --format json, jsonl or npz"
        )
    inputs = read_inputs(arguments)
    listed = inputs.name is not None
    progress = Progress(
        len(inputs.texts), reports=arguments.progress if listed else bool(arguments.progress)
    )

    def tell(line: str) -> None:
        progress.clear()
        say(line)

    usual = RETRY_SECONDS if listed else 0.0
    # The job's own waiting is reported.
    ready = 0.0 if listed or arguments.retry_for is not None else READY_SECONDS
    retries = JobRetries(
        usual if arguments.retry_for is None else arguments.retry_for, arguments.timeout, tell
    )
    with ended_by_sigterm(), encoder_of(arguments, 1, ready) as encoder:
        model = retries.persist(encoder.model)
        check_kind(arguments, model)
        encode = encoding(encoder, arguments)
        nothing = encode([])
        folder = partial_folder(arguments.out) if listed and arguments.out is not None else None
        settings = made_with(arguments, nothing)
        with rows_in(folder, settings, nothing, inputs.texts, arguments.skip_bad) as rows:
            service = is_service(encoder)
            options = {
                "retries": retries,
                "stop": encoder.close,
                "block": BlockSize.of_service(model) if service else BlockSize(BLOCK),
                "at_once": None if service else LOCAL_BLOCKS_AT_ONCE,
            }
            try:
                add_rows(rows, inputs, encode, arguments.skip_bad, model.ref, progress, options)
            finally:
                progress.clear()
            report_skipped(rows, inputs)
            write(rows, inputs, model.ref, arguments, folder)
            return report_left_out(rows, arguments.format, arguments.out)


def add_rows(
    rows: Rows,
    inputs: InputLines,
    encode: Callable[[Sequence[Input]], Embeddings],
    skip: bool,
    ref: ModelRef,
    progress: Progress,
    options: Mapping[str, Any],
) -> None:
    """Add the missing rows of a job, of the weights `ref`; `options` are of `encode_blocks`."""
    texts, problems = inputs.texts, dict(inputs.problems)

    def take(block: range, vectors: Embeddings | None) -> None:
        if vectors is not None:
            check_weights(ref, vectors.model)
        skipped = {at - block.start: problems[at] for at in block if at in problems}
        rows.append(texts[block.start : block.stop], vectors, skipped)
        progress.add(len(block))

    progress.begin(len(rows))
    encode_blocks(
        texts, problems, encode, take, skip=skip, first=len(rows), reword=reworded, **options
    )
