"""Memory of one text in a graph of sparse vectors, beyond that of pooled vectors.

    python -m bench.sparse_memory

The model has random weights, the sizes of a small XLM-RoBERTa and a vocabulary of 250,002. It is
exported twice: with a head that weights each term, and with pooled vectors alone. Each figure is of
a fresh process. It writes bench/results/sparse-memory.md.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from bench.frame.machine import machine
from bench.frame.report import parser, publish, table
from bench.loading_memory import CLEAR_PEAK, MIB, status
from headlight_service.app.allocator import trim

MODELS = Path("build/sparse-memory")
VOCABULARY, WIDTH, LAYERS, TOKENS = 250_002, 384, 6, 512
KINDS = ("dense", "sparse")
CASES = ((1, 128), (1, TOKENS), (8, TOKENS))  # texts, tokens of each
HEADER = ("texts", "tokens", "dense", "sparse", "least and most", "sparse beyond dense")
MOST_BEYOND = 64  # MiB, of one text


def write(folder: Path, kind: str) -> None:
    """Write the bundle of one kind."""
    import torch  # noqa: PLC0415 -- a measured process has none

    from headlight_export.writer.bundle_writer import export_checkpoint  # noqa: PLC0415
    from headlight_model.checkpoint import save_checkpoint  # noqa: PLC0415
    from headlight_model.config import Dense, EncoderConfig, TermHead  # noqa: PLC0415
    from headlight_model.encoder import Encoder  # noqa: PLC0415

    torch.manual_seed(0)
    layer = Dense(width=WIDTH, bias=True, activation="gelu", norm=True)
    config = EncoderConfig(
        vocab_size=VOCABULARY,
        dim=WIDTH,
        heads=12,
        layers=LAYERS,
        ffn_dim=4 * WIDTH,
        positions="learned",
        norm="post",
        trained_length=TOKENS,
        max_length=TOKENS,
        term_head=TermHead(layers=(layer,)) if kind == "sparse" else None,
    )
    save_checkpoint(folder / "checkpoint", Encoder(config).eval(), None)
    export_checkpoint(folder / "checkpoint", folder / "bundle", name=kind)


def measure(bundle: Path, texts: int, tokens: int) -> None:
    """Open a bundle, compute some texts of random ids, and print the memory of both.

    Nothing is computed before, and what opening has freed goes back to the system: the first call
    could hide in it.
    """
    from headlight.runtime import Runtime  # noqa: PLC0415

    ids = np.random.default_rng(0).integers(5, VOCABULARY, (texts, tokens)).tolist()
    options: dict[str, Any] = {"provider": "cpu", "attend": False, "self_test": False}
    before = status("VmRSS")
    with Runtime(bundle, streams=1, threads=1, **options) as runtime:
        encode = runtime.encode if bundle.parent.name == "dense" else runtime.encode_sparse
        trim()
        loaded = status("VmRSS")
        Path("/proc/self/clear_refs").write_text(CLEAR_PEAK, encoding="ascii")
        for _ in range(3):
            encode(ids)
        print(json.dumps({"loaded": loaded - before, "call": status("VmHWM") - loaded}))


def figures(kind: str, texts: int, tokens: int, rounds: int) -> dict[str, list[float]]:
    """Return the memory of fresh processes, in MiB."""
    command = [sys.executable, "-m", "bench.sparse_memory", "--measure", kind]
    command += ["--texts", str(texts), "--tokens", str(tokens)]
    runs = []
    for _ in range(rounds):
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        runs.append(json.loads(done.stdout.splitlines()[-1]))
    return {name: [run[name] / MIB for run in runs] for name in ("loaded", "call")}


def main() -> None:
    """Measure, and write the page; or be the process that is measured."""
    options = parser("bench.sparse_memory", __doc__, "sparse-memory.md", rounds=3)
    options.add_argument("--measure", choices=KINDS, help=argparse.SUPPRESS)
    options.add_argument("--texts", type=int, default=1, help=argparse.SUPPRESS)
    options.add_argument("--tokens", type=int, default=TOKENS, help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.measure:
        measure(MODELS / given.measure / "bundle", given.texts, given.tokens)
        return
    for kind in KINDS:
        if not (MODELS / kind / "bundle").exists():
            write(MODELS / kind, kind)
    rows, beyond, loaded = list[tuple[str, ...]](), list[float](), ([0.0], [0.0])
    for texts, tokens in CASES:
        dense, sparse = (figures(kind, texts, tokens, given.rounds) for kind in KINDS)
        loaded = dense["loaded"], sparse["loaded"]
        middle = [statistics.median(each["call"]) for each in (dense, sparse)]
        beyond.append(middle[1] - middle[0])
        span = f"{min(sparse['call']):.0f} to {max(sparse['call']):.0f}"
        numbers = (f"{each:.0f}" for each in middle)
        rows.append((str(texts), str(tokens), *numbers, span, f"{beyond[-1]:.0f}"))
    weights = 4 * VOCABULARY * WIDTH / MIB
    opened = [statistics.median(each) for each in loaded]
    publish(
        given.out,
        [
            "# Memory of sparse vectors",
            "",
            machine(("onnxruntime",)),
            "",
            f"`python -m bench.sparse_memory`: a model with random weights, {LAYERS} layers of",
            f"d = {WIDTH} and a vocabulary of {VOCABULARY:,}, exported with pooled vectors alone,",
            "and with a head that weights each term. Resident memory of a process with one worker",
            "and one thread, in MiB: the peak (VmHWM) of three calls, beyond what the process had",
            f"after it opened the bundle; medians of {given.rounds} fresh processes.",
            "",
            *table(HEADER, rows),
            "",
            f"All logits of one text of {TOKENS} tokens would take "
            f"{4 * TOKENS * VOCABULARY / MIB:.0f} MiB.",
            "",
            f"Opening takes {opened[0]:.0f} MiB with pooled vectors and {opened[1]:.0f} MiB with",
            f"terms: the weights of the embedding, {weights:.0f} MiB, are there once more, for the",
            "matrix products with all terms.",
        ],
    )
    if beyond[1] > MOST_BEYOND:
        sys.exit(f"one text takes {beyond[1]:.0f} MiB beyond dense, over {MOST_BEYOND}")


if __name__ == "__main__":
    main()
