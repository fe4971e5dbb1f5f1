"""Error of each imported family against its own code.

Also the cost to export and start a model of a usual size.

    nox -s families-table

writes bench/results/families.md. The models are random with sharpened attention; see
tests/families/models.py.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import transformers

from bench.frame.machine import machine
from bench.frame.report import publish
from bench.random_bert import make
from headlight import Client
from headlight_export.folders.origin import read_origin
from headlight_export.writer.bundle_writer import export_checkpoint, export_origin
from tests.factory import small_config, write_checkpoint
from tests.families.opened import (
    LENGTHS,
    NAMES,
    distances,
    imported,
    limits,
    moved_by_mates,
    sentence,
)
from tests.families.test_size import resident
from tests.system.processes import Service

OUTPUTS = ("attention", "hidden", "tokens", "pooled")
STARTS = 5


def family_row(name: str, folder: Path) -> str:
    """Return the worst error of each output over the lengths, the effect of batch-mates,
    and the error of the reference itself.
    """
    with imported(name, folder) as (runtime, theirs):
        found = [distances(runtime, theirs, name, sentence(length)) for length in LENGTHS]
        allowed = max(limits(theirs, sentence(length))["attention"] for length in LENGTHS)
        moved = moved_by_mates(runtime)
    worst = [max(one[output] for one in found) for output in OUTPUTS]
    return f"| {name} | " + " | ".join(f"{value:.1e}" for value in (*worst, moved, allowed)) + " |"


def size_lines(folder: Path) -> list[str]:
    """Return export time, start time and memory of a model of MiniLM's size."""
    model = make(folder, "minilm")
    begin = time.monotonic()
    export_origin(read_origin(model), folder / "bundle")
    took = time.monotonic() - begin
    starts = []
    for _ in range(STARTS):
        begin = time.monotonic()
        with Service(folder / "bundle"):
            starts.append(time.monotonic() - begin)
    export_checkpoint(write_checkpoint(folder / "small", small_config()), folder / "small bundle")
    weights = (folder / "bundle" / "weights.bin").stat().st_size
    with Service(folder / "small bundle") as bare, Service(folder / "bundle") as full:
        for service in (bare, full):
            with Client(service.target) as client:
                client.encode(["one text", "and another"])
        more = resident(full) - resident(bare)
    return [
        (
            f"6 layers, 12 heads, d=384, a vocabulary of 30,522 ({weights / 2**20:.0f} MiB of "
            f"weights in float32), as sentence-transformers saves it: exported in {took:.0f} s; "
            f"ready {sorted(starts)[STARTS // 2]:.2f} s after its start (median of {STARTS}, "
            f"imports included, files in the page cache); {more / 2**20:.0f} MiB more resident "
            "memory than a service of a model of some kilobytes, "
            f"{more / weights:.2f} times the weights."
        ),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("bench/results/families.md"))
    parser.add_argument("--only", nargs="*", default=NAMES, metavar="NAME")
    options = parser.parse_args()
    transformers.logging.set_verbosity_error()
    with tempfile.TemporaryDirectory() as folder:
        rows = [family_row(name, Path(folder) / name) for name in options.only]
        size = size_lines(Path(folder) / "minilm")
    report = [
        "# Imported families against their own code",
        "",
        (
            f"`nox -s families-table` on {machine(['transformers', 'torch', 'onnxruntime'])}. "
            "Random models of small odd sizes, biases, gains and token types random too, "
            "attention sharpened; saved by save_pretrained, exported, run by the runtime. "
            "The largest distance from transformers in eager mode (jina_bert, new: from a NumPy "
            f"reference) over texts of {', '.join(map(str, LENGTHS))} tokens: of attention "
            "weights absolute, of hidden states and token vectors over max(1, RMS of the row), of "
            "the pooled vector over its length. Behind it, how far any of eight texts in one "
            "batch moved from being alone in one; and what attention may be off: 1e-5, or four "
            "times what their own float32 is off their float64 where that is more. linear, "
            "dynamic, yarn and llama3 are scalings of rotary positions."
        ),
        "",
        "| | attention | hidden | tokens | pooled | moved by batch-mates | attention may be |",
        "|---|---|---|---|---|---|---|",
        *rows,
        "",
        *size,
    ]
    publish(options.out, report)


if __name__ == "__main__":
    main()
