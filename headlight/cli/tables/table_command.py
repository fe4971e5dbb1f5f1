"""`headlight embed` and `headlight classify` with --text-column: a job from tables to a table."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from typing import Any

from headlight.bulk.row_blocks import BlockSize, JobRetries
from headlight.bulk.signals import ended_by_sigterm
from headlight.cli.embed.embed_options import encoder_of, is_service
from headlight.cli.embed.job_checkpoint import report_kept
from headlight.cli.embed.progress import Progress
from headlight.cli.files import PARTIAL, say
from headlight.cli.output_files import count_text
from headlight.cli.tables.part_folder import PartFolder
from headlight.cli.tables.row_results import (
    Labels,
    ManyVectors,
    RowResults,
    Terms,
    Vectors,
    facts_of,
)
from headlight.cli.tables.table_job import PartEncoder, TableJob
from headlight.cli.tables.table_options import (
    check_apart,
    check_table_options,
    copied_columns,
    folder_name,
    is_joined,
    rejected_file,
    settings_of,
    text_columns,
)
from headlight.cli.tables.table_source import TableSource
from headlight.interface.encoder import Encoder


def embed_table(arguments: argparse.Namespace, default_retry_seconds: float) -> int:
    """Run `headlight embed` on tables. Return the exit code."""
    kind: type[RowResults[Any]] = Vectors
    if arguments.multi_vector:
        kind = ManyVectors
    elif arguments.sparse:
        kind = Terms
    return run_table(arguments, kind(arguments), default_retry_seconds)


def classify_table(arguments: argparse.Namespace, default_retry_seconds: float) -> int:
    """Run `headlight classify` on tables. Return the exit code."""
    return run_table(arguments, Labels(arguments), default_retry_seconds)


def run_table(
    arguments: argparse.Namespace, results: RowResults[Any], default_retry_seconds: float
) -> int:
    """Run a command on tables. Return the exit code."""
    check_table_options(arguments, results.names)
    arguments.priority = arguments.priority or "bulk"
    source = TableSource(arguments.texts, text_columns(arguments), copied_columns(arguments))
    check_apart(arguments, source)
    progress = Progress(source.rows, reports=arguments.progress)

    def tell(line: str) -> None:
        progress.clear()
        say(line)

    seconds = default_retry_seconds if arguments.retry_for is None else arguments.retry_for
    retries = JobRetries(seconds, arguments.timeout, tell)
    with ended_by_sigterm(), encoder_of(arguments, 1, 0.0) as encoder:
        try:
            return run_on(encoder, arguments, results, source, retries, progress)
        finally:
            progress.clear()


def run_on(
    encoder: Encoder,
    arguments: argparse.Namespace,
    results: RowResults[Any],
    source: TableSource,
    retries: JobRetries,
    progress: Progress,
) -> int:
    """Run the job on an encoder, and report its output. Return the exit code."""
    model = retries.persist(encoder.model)
    results.open(encoder, model)
    service = is_service(encoder)
    folder = PartFolder(folder_name(arguments))
    job = TableJob(
        source,
        folder,
        PartEncoder(
            results.encode,
            model.ref,
            retries=retries,
            block=BlockSize.of_service(model) if service else BlockSize(arguments.part_rows),
            at_once=None if service else 1,
        ),
        results,
        texts=text_columns(arguments),
        empty_texts=getattr(arguments, "empty_texts", None),
        copied=copied_columns(arguments),
        identity=arguments.id_column,
        metadata=facts_of(results, arguments),
        pieces=service,
    )

    def stop() -> None:
        retries.end()
        encoder.close()

    settings = settings_of(arguments, source, results.settings())
    with folder.opened(settings):
        if folder.is_joined:
            rejected = folder.rejected
            folder.remove()
            say(f"{arguments.out} is complete: an earlier run was ended after it")
            return report_rejected(arguments, rejected, source.rows)
        run_parts(job, folder, arguments.part_rows, source.rows, progress, stop)
        return finish(arguments, folder, settings, source.rows, results.noun)


def run_parts(
    job: TableJob,
    folder: PartFolder,
    size: int,
    rows: int,
    progress: Progress,
    stop: Callable[[], None],
) -> None:
    """Run the job, and report what an earlier run or this one has left."""
    if begun := folder.kept(size, rows):
        say(f"going on from {folder.name}, which has {begun:,} of {rows:,} rows")
    try:
        job.run(size, progress, stop)
    except BaseException as error:
        progress.clear()
        report_kept(folder.kept(size, rows), rows, "rows", folder.name, error)
        raise
    progress.clear()


def finish(
    arguments: argparse.Namespace,
    folder: PartFolder,
    settings: Mapping[str, object],
    rows: int,
    noun: str,
) -> int:
    """Complete the folder, join its parts if one file is asked for, and report both.

    Return the exit code.
    """
    size = arguments.part_rows
    sizes = [min(size, rows - first) for first in range(0, rows, size)] or [0]
    good, rejected = folder.finish(settings, sizes)
    if is_joined(arguments):
        folder.join(arguments.out, rejected_file(arguments), len(sizes))
    say(f"wrote {arguments.out}: {count_text(good, noun)}")
    return report_rejected(arguments, rejected, rows)


def report_rejected(arguments: argparse.Namespace, rejected: int, rows: int) -> int:
    """Report how many rows have no result, and where they are listed. Return the exit code."""
    if not rejected:
        return 0
    side = f"{arguments.out.rstrip('/')}/_rejected-*.jsonl"
    if is_joined(arguments):
        side = rejected_file(arguments)
    say(f"{rejected:,} of {rows:,} rows could not be encoded: see {side}")
    return PARTIAL
