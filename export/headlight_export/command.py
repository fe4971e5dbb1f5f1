"""Command line of the exporter: export, prove, and print the proof."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from headlight.errors import HeadlightError
from headlight_export.folders.origin import read_origin
from headlight_export.parity.parity_report import table
from headlight_export.parity.transformers_comparison import Compared
from headlight_export.precision.conversion import PRECISIONS
from headlight_export.precision.quality import table as quality_table
from headlight_export.progress import Lines
from headlight_export.writer.bundle_writer import Exported, ParityError, export_origin


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the export and return its exit code.

    0 is success. 1: the bundle disagrees with PyTorch and was not written. 2: invalid arguments or
    files.
    """
    options = _parser().parse_args(arguments)
    print(f"exporting {options.checkpoint}", flush=True)
    try:
        result = _export(options)
    except (OSError, ValueError, HeadlightError) as error:
        print(f"export: {error}", file=sys.stderr)
        return 2
    except ParityError as error:
        print(table(error.result.rows, error.result.own_error))
        print(f"export: not written: {error}", file=sys.stderr)
        return 1
    if result.tokens is not None:
        print(f"\n{result.tokens}")
    if (limit := result.tokenizer_limit) is not None:
        cost = f"{limit.worst_ms_per_1000_characters:g} ms for 1,000 characters"
        print(
            f"\ntexts of up to {limit.max_characters:,} characters are read; "
            f"the slowest kind is {limit.worst}: {cost}"
        )
    _tell_of_peer(result.transformers)
    print("\nlargest distance from PyTorch (tokens and hidden: over max(1, RMS of the row))\n")
    print(table(result.rows, result.own_error))
    if result.quality:
        print("\n" + quality_table(result.quality))
    if (cut := result.truncate_dim) is not None:
        print(
            f"\nThe folder's own library cuts vectors to {cut} numbers unless told otherwise; "
            f"here callers ask for dimensions={cut}."
        )
    print(f"\nwrote {options.out}")
    return 0


def _tell_of_peer(found: Compared) -> None:
    if found.errors:
        errors = ", ".join(f"{output} {error:.1e}" for output, error in found.errors.items())
        print(f"\nour PyTorch against transformers {found.version}: {errors}")
    if found.why_not:
        print(f"\nnot compared with transformers: {found.why_not}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="headlight export", description="Turn a checkpoint into a bundle to be served."
    )
    parser.add_argument(
        "checkpoint",
        type=Path,
        help="folder of a checkpoint of ours, of Hugging Face or of sentence-transformers",
    )
    parser.add_argument(
        "--out",
        type=Path,
        required=True,
        help="bundle directory to write; an older bundle there is replaced",
    )
    parser.add_argument("--name", help="name that clients use; default: the last part of --out")
    parser.add_argument(
        "--version", help="default: the first 12 digits of the SHA-256 of the weights"
    )
    parser.add_argument(
        "--pooling",
        help="for folders that do not say: mean, cls, max, last, weighted_mean, mean_sqrt_len",
    )
    parser.add_argument(
        "--max-length",
        type=int,
        help=(
            "tokens to be accepted; default: what the folder says, as far as the model was trained"
        ),
    )
    parser.add_argument(
        "--ids-only",
        action="store_true",
        help="serve a folder without a tokenizer, for token ids alone",
    )
    parser.add_argument(
        "--precision",
        action="append",
        default=[],
        help=(
            f"also write graphs in this precision: {', '.join(PRECISIONS)}; "
            "may be given several times, fp32 is always there"
        ),
    )
    parser.add_argument(
        "--provider",
        action="append",
        default=[],
        help=(
            "also measure on this provider, in each precision that it has here: openvino, "
            "for which every bundle has graphs"
        ),
    )
    parser.add_argument(
        "--texts",
        type=Path,
        help=(
            "file of a text a line to judge precisions and providers by; default: "
            "docstrings of Python's library"
        ),
    )
    parser.add_argument(
        "--calibration",
        type=Path,
        help=(
            "file of a text a line, whose vectors set the ranges of int8 vectors; default: "
            "the bundle has none"
        ),
    )
    return parser


def _export(options: argparse.Namespace) -> Exported:
    progress = Lines()
    try:
        progress("reading the folder")
        origin = read_origin(
            options.checkpoint,
            pooling=options.pooling,
            max_length=options.max_length,
            ids_only=options.ids_only,
        )
        progress.tell(origin.about)
        return export_origin(
            origin,
            options.out,
            name=options.name,
            version=options.version,
            precisions=options.precision,
            providers=options.provider,
            texts=options.texts,
            calibration=options.calibration,
            progress=progress,
        )
    finally:
        progress.close()
