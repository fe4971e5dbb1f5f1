"""`headlight embed --text-column`: a job from tables to a table."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from headlight.bulk.row_blocks import BLOCK, JobRetries
from headlight.bulk.signals import ended_by_sigterm
from headlight.cli.embed.encoder_choice import encoder_of, is_service
from headlight.cli.embed.job_checkpoint import how_to_resume
from headlight.cli.embed.progress import Progress
from headlight.cli.embed.vector_options import vector_types
from headlight.cli.files import say
from headlight.cli.output_files import count_text
from headlight.cli.shared_options import reading
from headlight.cli.tables.part_folder import PartFolder
from headlight.cli.tables.table_job import PartEncoder, TableJob
from headlight.cli.tables.table_options import (
    check_table_options,
    copied_columns,
    is_joined,
    metadata_of,
    settings_of,
)
from headlight.cli.tables.table_source import TableSource
from headlight.interface.arguments import Input
from headlight.interface.encoder import Encoder
from headlight.results import Embeddings


def run_table(arguments: argparse.Namespace, patience: float) -> None:
    """Run `headlight embed` on tables; `patience` is the default of --retry-for."""
    check_table_options(arguments)
    arguments.priority = arguments.priority or "bulk"
    source = TableSource(arguments.texts, arguments.text_column, copied_columns(arguments))
    progress = Progress(source.rows, wanted=arguments.progress)

    def tell(line: str) -> None:
        progress.clear()
        say(line)

    seconds = patience if arguments.retry_for is None else arguments.retry_for
    retries = JobRetries(seconds, arguments.timeout, tell)
    with ended_by_sigterm(), encoder_of(arguments, 1, 0.0) as encoder:
        try:
            run_job(arguments, source, encoder, retries, progress)
        finally:
            progress.clear()


def run_job(
    arguments: argparse.Namespace,
    source: TableSource,
    encoder: Encoder,
    retries: JobRetries,
    progress: Progress,
) -> None:
    """Run the job on an encoder, and report its output."""
    model = retries.persist(encoder.model)

    def encode(some: Sequence[Input]) -> Embeddings:
        return encoder.encode_with_info(
            some,
            dimensions=arguments.dimensions,
            normalize=arguments.normalize,
            dtype=vector_types(arguments),
            **reading(arguments),
        )

    nothing = encode([])
    service = is_service(encoder)
    folder = PartFolder(f"{arguments.out}.partial" if is_joined(arguments) else arguments.out)
    settings = settings_of(arguments, source, nothing)
    with folder.opened(settings):
        job = TableJob(
            source,
            folder,
            PartEncoder(
                encode,
                nothing.model,
                retries=retries,
                block=(model.limits.max_items or BLOCK) if service else arguments.part_rows,
                at_once=None if service else 1,
            ),
            nothing,
            text=arguments.text_column,
            copied=copied_columns(arguments),
            identity=arguments.id_column,
            metadata=metadata_of(arguments, model, nothing),
        )
        begun = len(folder.done())
        if begun:
            say(f"going on from {folder.name}, which has {count_text(begun, 'finished part')}")
        try:
            job.run(arguments.part_rows, progress, encoder.close)
        except BaseException as error:
            progress.clear()
            if parts := len(folder.done()):
                say(
                    f"{count_text(parts, 'part')} of {arguments.part_rows:,} rows are kept in "
                    f"{folder.name}; {how_to_resume(error)}"
                )
            raise
        progress.clear()
        finish(arguments, folder, settings)


def finish(arguments: argparse.Namespace, folder: PartFolder, settings: dict[str, object]) -> None:
    """Complete the folder, join its parts if one file is asked for, and report both."""
    rows, rejected = folder.finish(settings)
    side = f"{folder.name}/_rejected-*.jsonl"
    if is_joined(arguments):
        side = f"{arguments.out.removesuffix('.parquet')}.rejected.jsonl"
        folder.join(arguments.out, side)
    if rejected:
        say(f"{rejected:,} of {rows + rejected:,} rows could not be encoded: see {side}")
    say(f"wrote {arguments.out}: {count_text(rows, 'vector')}")
