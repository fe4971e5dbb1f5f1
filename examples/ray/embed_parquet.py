"""Embed the texts of Parquet files with Ray Data. The same command resumes a run that was killed.

    python embed_parquet.py texts/ vectors/ --bundle build/bundles/docs-rope --workers 2
    python embed_parquet.py s3://bucket/texts s3://bucket/vectors --target headlight:50051

Each part of the output has a checkpoint file of the ids in it, in the folder OUTPUT.checkpoint.
All nodes must reach both folders. Rows that cannot be encoded have the reason in the column
`error`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import time
from pathlib import Path

# Before Ray is imported: no usage reports; its workers keep what the environment says.
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"

import pyarrow.dataset as ds
import ray
from pyarrow import fs
from ray.data import ActorPoolStrategy, DataContext
from ray.data.checkpoint import CheckpointConfig

from headlight import Client
from headlight.ray import Embedder

PENDING = ".pending.parquet"
IO_CPUS = 2  # for reading, writing and the actor that skips finished ids: they wait, mostly
IO_TASK_CPUS = 0.1
FILTER_MEMORY_BYTES = 256 * 2**20  # least reservation of the actor that skips finished ids


def parse() -> argparse.Namespace:
    """Return the arguments of the command line."""
    made = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    made.add_argument("input", help="folder of Parquet files")
    made.add_argument("output", help="folder of the results")
    source = made.add_mutually_exclusive_group(required=True)
    source.add_argument("--bundle", help="compute in the workers, with the model of this folder")
    source.add_argument("--target", help="call the services at this HOST:PORT")
    made.add_argument("--text-column", default="text")
    made.add_argument("--id-column", default="id", help="unique in the whole input")
    made.add_argument("--truncate", choices=("end", "start"), help="cut texts too long on a side")
    made.add_argument("--workers", type=int, default=1)
    made.add_argument("--cpus-per-worker", type=float, default=1)
    made.add_argument("--batch-rows", type=int, default=1024)
    made.add_argument("--part-rows", type=int, default=16384, help="rows of a part, at least")
    made.add_argument("--object-store-mb", type=int, default=512, help="if it starts Ray itself")
    made.add_argument("--address", help="a running cluster, or auto; default: start Ray here")
    return made.parse_args()


def start(arguments: argparse.Namespace) -> None:
    """Start Ray, or connect to a cluster."""
    if arguments.address:
        ray.init(address=arguments.address, log_to_driver=False)
        return
    workers = arguments.workers * arguments.cpus_per_worker
    ray.init(
        num_cpus=max(1, round(workers)) + IO_CPUS,
        object_store_memory=arguments.object_store_mb * 2**20,
        include_dashboard=False,
        log_to_driver=False,
    )


def located(path: str) -> str:
    """Return an absolute path, or the address of a bucket."""
    return path if "://" in path else str(Path(path).resolve())


def digest(arguments: argparse.Namespace) -> str:
    """Return the digest of the model, which all workers and later runs must have."""
    if arguments.bundle:
        return hashlib.sha256(Path(arguments.bundle, "manifest.json").read_bytes()).hexdigest()
    with Client(arguments.target, wait_for_ready=60) as client:
        return client.model().bundle_sha256


def check_job(output: str, job: dict[str, str | None]) -> None:
    """Write the settings of the job beside its output.

    Exit if they differ from those there, or if the output holds files of something else.
    """
    system, path = fs.FileSystem.from_uri(f"{output}.job.json")
    text = json.dumps(job).encode()
    if system.get_file_info(path).type == fs.FileType.NotFound:
        if names(output):
            sys.exit(f"{output}: holds Parquet files of no job of this command; name another")
        with system.open_output_stream(path) as file:
            file.write(text)
        return
    with system.open_input_stream(path) as file:
        if file.read() != text:
            sys.exit(f"{output}: was made with another model or option; name another output")


def names(folder: str) -> dict[str, str]:
    """Return the Parquet files of a folder, by name."""
    system, path = fs.FileSystem.from_uri(folder)
    files = system.get_file_info(fs.FileSelector(path, allow_not_found=True))
    return {each.base_name: each.path for each in files if each.base_name.endswith(".parquet")}


def repair(output: str, checkpoint: str) -> int:
    """Remove parts without a finished checkpoint, and checkpoints without a part.

    Return the number of finished rows.

    A part is finished when its checkpoint gets its last name. After a kill there may be half a
    part, or a part that a repeated task had begun to write again.
    """
    system, _ = fs.FileSystem.from_uri(output)
    parts, marks = names(output), names(checkpoint)
    begun = {name.removesuffix(PENDING) for name in marks if name.endswith(PENDING)}
    marked = {name.removesuffix(".parquet") for name in marks if not name.endswith(PENDING)}
    written = {name.rpartition("-")[0] for name in parts}
    good = (marked & written) - begun
    for name, path in parts.items():
        if name.rpartition("-")[0] not in good:
            system.delete_file(path)
    for name, path in marks.items():
        if name.removesuffix(".parquet") not in good:
            system.delete_file(path)
    return int(ds.dataset(output).count_rows()) if good else 0


def check_columns(arguments: argparse.Namespace, source: str) -> int:
    """Return the number of rows of the input; exit if it lacks a column."""
    dataset = ds.dataset(source)
    for column in (arguments.text_column, arguments.id_column):
        if column not in dataset.schema.names:
            sys.exit(f"{source}: no column {column}; there are {', '.join(dataset.schema.names)}")
    return int(dataset.count_rows())


def embed(
    arguments: argparse.Namespace, source: str, output: str, checkpoint: str, model: str
) -> None:
    """Run the job, without the rows that are finished, on a model of this digest."""
    context = DataContext.get_current()
    context.enable_progress_bars = False
    # The newer reader starts up to 32 processes to read footers.
    context.use_datasource_v2 = False
    context.checkpoint_config = CheckpointConfig(
        id_column=arguments.id_column,
        checkpoint_path=checkpoint,
        delete_checkpoint_on_success=False,  # else the same command would begin anew
    )
    context.checkpoint_config.checkpoint_actor_memory_bytes = FILTER_MEMORY_BYTES
    context.checkpoint_config.checkpoint_actor_pool_max_size = 1
    rows = ray.data.read_parquet(source, num_cpus=IO_TASK_CPUS)
    parts = rows.repartition(target_num_rows_per_block=arguments.part_rows)
    parts.map_batches(
        Embedder,
        fn_constructor_kwargs={
            "bundle": arguments.bundle,
            "target": arguments.target,
            "text_column": arguments.text_column,
            "truncate": arguments.truncate,
            "sha256": model,
        },
        batch_format="pyarrow",
        batch_size=arguments.batch_rows,
        compute=ActorPoolStrategy(size=arguments.workers),
        num_cpus=arguments.cpus_per_worker,
    ).write_parquet(output, ray_remote_args={"num_cpus": IO_TASK_CPUS})


def main() -> None:
    """Run the command."""
    arguments = parse()
    source, output = located(arguments.input), located(arguments.output.rstrip("/"))
    checkpoint = f"{output}.checkpoint"
    expected = check_columns(arguments, source)
    model = digest(arguments)
    check_job(
        output,
        {"model": model, "text": arguments.text_column, "truncate": arguments.truncate},
    )
    start(arguments)
    begun = time.monotonic()
    before = repair(output, checkpoint)
    embed(arguments, source, output, checkpoint, model)
    rows = repair(output, checkpoint)  # a task of a killed run may have ended meanwhile
    seconds = time.monotonic() - begun
    if rows != expected:
        sys.exit(f"{output}: holds {rows} of {expected} rows; are the ids unique?")
    bad = ds.field("error").is_valid()
    rejected = ds.dataset(output).count_rows(filter=bad) if rows else 0
    print(
        f"{rows} rows, {rejected} rejected, {rows - before} in this run: "
        f"{seconds:.1f} s, {(rows - before) / seconds:.0f} rows/s"
    )


if __name__ == "__main__":
    main()
