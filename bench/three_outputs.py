"""Cost of dense, sparse and multi-vectors of a text in one pass, beside its dense vector alone.

    python -m bench.three_outputs

It writes bench/results/three-outputs.md. The model has BGE-M3's shape and random weights: 24 layers
of d=1024, a vocabulary of 250,002, and both heads. Its bundle, and that of the same encoder without
heads, are written to --folder: 7 GB, and 20 GB of memory. One lone text is encoded at a time, in
fp32, on all cores, in turns; the machine should be idle.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import statistics
from functools import partial
from pathlib import Path

import numpy as np
import torch

from bench.frame.machine import Others, machine
from bench.frame.report import command, parser, publish, table
from bench.frame.rounds import Contestants, ratios, spread, times
from headlight.outputs.sparse import USUAL, TermChoice
from headlight.runtime import EncodeItem, Runtime, Selection
from headlight.spec import MultiVectorSpec
from headlight_export.writer.bundle_writer import export_checkpoint
from headlight_model.checkpoint import save_checkpoint
from headlight_model.config import Dense, EncoderConfig, MultiVectorHead, TokenWeightHead
from headlight_model.encoder import Encoder

SPECIAL = (0, 1, 2, 3)  # ids without a weight
LIMIT = 1.15  # times the dense vector alone
DENSE, THREE = "dense", "three"  # bundles
WITHOUT, ALONE, ALL = "dense, a model without heads", "dense alone", "dense, sparse, multi-vectors"
HEADING = ("", "ms, median", "least", "most", "over a model without heads", "over dense alone")


def configs(options: argparse.Namespace) -> dict[str, EncoderConfig]:
    """Return the config of each bundle."""
    dense = EncoderConfig(
        vocab_size=options.vocabulary,
        dim=options.dim,
        heads=max(1, options.dim // 64),
        layers=options.layers,
        ffn_dim=4 * options.dim,
        positions="learned",
        norm="post",
        segments=1,
        pooling="cls",
        trained_length=options.tokens // 4,
        max_length=2 * options.tokens,
        pad_id=1,
    )
    three = dataclasses.replace(
        dense,
        token_weight_head=TokenWeightHead(skipped=SPECIAL),
        multi_vector_head=MultiVectorHead(layers=(Dense(width=options.dim, bias=True),)),
    )
    return {DENSE: dense, THREE: three}


def bundles(options: argparse.Namespace) -> dict[str, Path]:
    """Return the bundles, written unless they exist."""
    paths = dict[str, Path]()
    for name, config in configs(options).items():
        paths[name] = folder = options.folder / name / "bundle"
        if not folder.is_dir():
            torch.manual_seed(0)
            checkpoint = options.folder / name / "checkpoint"
            save_checkpoint(checkpoint, Encoder(config), None)
            export_checkpoint(checkpoint, folder, name=name)
    return paths


def measure(
    options: argparse.Namespace, paths: dict[str, Path], provider: str
) -> tuple[dict[str, list[float]], dict[str, int]]:
    """Return the milliseconds of each way to encode a text, by round, and the bytes of each output.

    A term of a sparse vector has an index and a weight.
    """
    ids = np.random.default_rng(0).integers(len(SPECIAL), options.vocabulary, options.tokens)
    chosen = Selection(
        pooled=True,
        sparse=TermChoice(USUAL, 0.0, options.vocabulary),
        multi_vector=MultiVectorSpec(),
    )
    ways = {WITHOUT: (DENSE, Selection()), ALONE: (THREE, Selection()), ALL: (THREE, chosen)}
    with contextlib.ExitStack() as stack:
        runtimes = {
            name: stack.enter_context(Runtime(path, provider=provider, attend=False))
            for name, path in paths.items()
        }
        [text] = runtimes[THREE].engine.run_in_batches([EncodeItem(ids, chosen)])
        sizes = {
            "dense": text["pooled"].nbytes,
            "sparse": 8 * int(np.count_nonzero(text["sparse"])),
            "multi-vectors": text["multi_vector"].nbytes,
        }
        contestants: Contestants = {
            name: partial(runtimes[bundle].engine.run_in_batches, [EncodeItem(ids, selection)])
            for name, (bundle, selection) in ways.items()
        }
        return times(contestants, options.rounds, warm_up=3), sizes


def rows(milliseconds: dict[str, list[float]]) -> list[tuple[str, ...]]:
    """Return the rows of a provider's table."""
    return [
        (
            name,
            *(f"{value:.1f}" for value in spread(values)),
            *(
                f"{statistics.median(ratios(values, milliseconds[other])):.3f}"
                for other in (WITHOUT, ALONE)
            ),
        )
        for name, values in milliseconds.items()
    ]


def main() -> None:
    """Measure, and write the page."""
    given = parser("bench.three_outputs", __doc__, "three-outputs.md", rounds=30)
    given.add_argument("--folder", type=Path, default=Path("build/three-outputs"))
    given.add_argument("--providers", nargs="+", default=["cpu", "openvino"])
    for name, usual in (("layers", 24), ("dim", 1024), ("vocabulary", 250_002), ("tokens", 128)):
        given.add_argument(f"--{name}", type=int, default=usual)
    options = given.parse_args()
    paths, others = bundles(options), Others()
    lines = [
        "# Dense, sparse and multi-vectors in one pass",
        "",
        machine(("onnxruntime", "openvino")),
        "",
        f"`{command('bench.three_outputs')}`: a text of {options.tokens} tokens, one at a time, by",
        f"a model of {options.layers} layers, d={options.dim}, {options.vocabulary:,} terms, with",
        "random weights, in fp32. Ratios are medians of the rounds, in which all took turns. A",
        "model with heads always computes them, so dense vectors of one without are measured, too.",
        f"The limit for all three is {LIMIT} times dense vectors alone.",
    ]
    for provider in options.providers:
        milliseconds, sizes = measure(options, paths, provider)
        lines += ["", f"## {provider}", "", *table(HEADING, rows(milliseconds))]
    listed = ", ".join(f"{name} {size:,}" for name, size in sizes.items())
    lines += ["", f"Bytes of the text's vectors in float32: {listed}."]
    lines += ["", f"Other processes used {others.share():.0%} of the machine."]
    publish(options.out, lines)


if __name__ == "__main__":
    main()
