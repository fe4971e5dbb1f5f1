"""`python -m export CHECKPOINT --out DIR`: export, prove, and print the proof."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from export.precision import PRECISIONS
from export.quality import table as quality_table
from export.report import table
from export.writer import ParityError, export_checkpoint


def main() -> int:
    """0: the bundle stands; 1: it disagrees with PyTorch and was not written; 2: the arguments do not fit."""
    parser = argparse.ArgumentParser(
        prog="python -m export", description="Turn a checkpoint into a bundle to be served."
    )
    parser.add_argument("checkpoint", type=Path, help="folder of config.json, model.safetensors and tokenizer.json")
    parser.add_argument(
        "--out", type=Path, required=True, help="bundle directory to write; an older bundle there is replaced"
    )
    parser.add_argument("--name", help="name that clients use; default: the last part of --out")
    parser.add_argument("--version", help="default: the first 12 digits of the SHA-256 of the weights")
    parser.add_argument(
        "--precision",
        action="append",
        default=[],
        help=f"also write graphs in this precision: {', '.join(PRECISIONS)}; may be given several times, fp32 is always there",
    )
    parser.add_argument(
        "--texts",
        type=Path,
        help="file of a text a line to judge precisions by; default: docstrings of Python's library",
    )
    options = parser.parse_args()
    print(f"exporting {options.checkpoint} (tracing takes half a minute)", flush=True)
    try:
        result = export_checkpoint(
            options.checkpoint,
            options.out,
            name=options.name,
            version=options.version,
            precisions=options.precision,
            texts=options.texts,
        )
    except (FileNotFoundError, FileExistsError, ValueError) as error:
        print(f"export: {error}", file=sys.stderr)
        return 2
    except ParityError as error:
        print(table(error.result.rows, error.result.own_error))
        print(f"export: not written: {error}", file=sys.stderr)
        return 1
    print("\nlargest distance from PyTorch (tokens and hidden: over max(1, RMS of the row))\n")
    print(table(result.rows, result.own_error))
    if result.quality:
        print("\n" + quality_table(result.quality))
    print(f"\nwrote {options.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
