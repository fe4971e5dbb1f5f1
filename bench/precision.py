"""Quality cost of each precision, and its savings of time, memory and bytes, on CPU providers.

`nox -s bench` runs it and writes bench/results/precision.md.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import random
import sys
from collections.abc import Mapping
from pathlib import Path

from bench.attention_forms import random_ids
from bench.encoder import bundle
from bench.frame.machine import machine
from bench.frame.processes import run
from bench.frame.report import parser, publish, table
from bench.frame.rounds import medians
from headlight.runtime import EncodeItem, Runtime, Selection
from headlight.runtime.engine.batches import plan
from headlight_export.precision.conversion import PRECISIONS
from headlight_export.precision.sample_texts import passages
from headlight_export.precision.variant_options import usable_precisions
from headlight_export.writer.bundle_writer import export_checkpoint
from headlight_model.checkpoint import load_checkpoint

SHAPES = ((1, 16), (1, 128), (8, 32), (8, 128), (1, 512))
ALL = [("cpu", precision) for precision in ("fp32", *PRECISIONS)]
# int8 for OpenVINO needs NNCF at export.
PROVIDERS = ["openvino"] if importlib.util.find_spec("openvino") else []
if PROVIDERS:
    ALL += [("openvino", precision) for precision in (*usable_precisions("openvino"), "int8")]
QUALITY = (
    *("", "cosine, mean", "1st percentile", "least", "nearest text kept", "ten nearest kept"),
    *("moved by batch-mates, max Δ", "attention weights, mean Δ", "max Δ"),
)
# Memory of a bundle beyond the bare runtime, in MiB, after one batch of 64 tokens.
PROBE = """
import sys
from headlight.runtime import Runtime
def resident():
    status = open("/proc/self/status")
    return next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmRSS"))
before = resident()
folder, provider, precision, attend = sys.argv[1:]
runtime = Runtime(folder, provider=provider, precision=precision, attend=attend == "on")
runtime.warm_up((64,))
print(resident() - before)
"""


def made(checkpoint: Path, out: Path) -> Path:
    """Return the bundle of a checkpoint in all precisions, exported if missing."""
    if not (out / "manifest.json").is_file():
        export_checkpoint(checkpoint, out, precisions=PRECISIONS, providers=PROVIDERS)
    return out


def quality_table(path: Path) -> list[str]:
    """Return the quality of each precision, and the error of its attention weights."""
    manifest = Runtime(path).bundle.manifest
    report = json.loads((path / "parity.json").read_text(encoding="utf-8"))["quality"]
    rows = []
    for entry, details in zip(manifest.quality, report, strict=True):
        cells = [f"{each:.6f}" for each in (entry.cosine_mean, entry.cosine_p1, entry.cosine_min)]
        cells += [f"{entry.nearest_kept:.1%}", f"{entry.ten_nearest_kept:.1%}"]
        errors = (details["attention_mean_error"], details["max_error"]["attention"])
        cells += [f"{each:.1e}" for each in (entry.batch_drift, *errors)]
        rows.append((label(entry.provider, entry.precision), *cells))
    about = f"{manifest.quality[0].count} texts: {manifest.quality[0].texts}."
    return [about, "", *table(QUALITY, rows)]


def size_table(path: Path) -> list[str]:
    """Return bytes on disk and in memory."""
    manifest, rows = Runtime(path).bundle.manifest, []
    for variant in ALL:
        weights = manifest.graph("embed", *variant).weights
        disk = sum((path / file).stat().st_size for file in weights) / 1e6
        held = [_resident(path, *variant, attention) for attention in ("off", "on")]
        rows.append((label(*variant), f"{disk:.1f} MB", *(f"{mib:.0f} MiB" for mib in held)))
    heading = ("", "weights on disk", "resident, vectors alone", "resident, with attention")
    return table(heading, rows)


def label(provider: str, precision: str) -> str:
    return precision if provider == "cpu" else f"{precision}, {provider}"


def opened(path: Path) -> dict[str, Runtime]:
    """Return all variants, by label, for vectors alone."""
    return {
        label(*variant): Runtime(path, provider=variant[0], precision=variant[1], attend=False)
        for variant in ALL
    }


def _resident(path: Path, provider: str, precision: str, attention: str) -> float:
    return float(run([sys.executable, "-c", PROBE, str(path), provider, precision, attention]))


def speed_table(path: Path, rounds: int) -> list[str]:
    """Return milliseconds of pooled vectors by shape, and the ratio to fp32."""
    runtimes = opened(path)
    columns = []
    for batch, length in SHAPES:
        ids = random_ids(length, runtimes["fp32"].bundle.manifest.architecture.vocab_size)
        columns.append(_timed(runtimes, [[EncodeItem(ids, Selection())] * batch], rounds))
    rows = [
        (
            name,
            *(
                f"{column[name]:.2f} ms ({column[name] / column['fp32']:.2f}x)"
                for column in columns
            ),
        )
        for name in runtimes
    ]
    return table(("", *(f"{batch} x {length}" for batch, length in SHAPES)), rows)


def throughput_line(checkpoint: Path, path: Path, rounds: int) -> str:
    """Return texts per second over the quality texts, in batches of near lengths."""
    runtimes = opened(path)
    texts = passages(load_checkpoint(checkpoint).config, path / "tokenizer.json", None).items
    batches = [
        [EncodeItem(texts[i].ids, Selection()) for i in rows]
        for rows in plan([len(t.ids) for t in texts], squared=False)
    ]
    milliseconds = _timed(runtimes, batches, max(3, rounds // 4))
    rates = ", ".join(f"{name} {1000 * len(texts) / ms:.0f}" for name, ms in milliseconds.items())
    return f"Those texts in batches of near lengths, texts/s: {rates}."


def run_all(runtime: Runtime, batches: list[list[EncodeItem]]) -> None:
    """Run one batch after another."""
    for batch in batches:
        runtime.engine.run(batch)


def _timed(
    runtimes: Mapping[str, Runtime], batches: list[list[EncodeItem]], rounds: int
) -> dict[str, float]:
    """Return the median milliseconds in which each encodes all batches."""
    return medians(
        {name: functools.partial(run_all, each, batches) for name, each in runtimes.items()}, rounds
    )


def tables(path: Path, rounds: int) -> list[str]:
    """Return quality, size and speed of a bundle's precisions."""
    return [*quality_table(path), "", *size_table(path), "", *speed_table(path, rounds)]


def main() -> None:
    made_parser = parser("bench.precision", __doc__, "precision.md", rounds=15)
    made_parser.add_argument(
        "--checkpoint", type=Path, default=Path("model/headlight_model/checkpoints/docs-rope")
    )
    made_parser.add_argument(
        "--build", type=Path, default=Path("build/bench"), help="folder for the bundles"
    )
    options = made_parser.parse_args()
    random.seed(0)
    shipped = made(options.checkpoint, options.build / f"{options.checkpoint.name}-precisions")
    bundle(options.build)  # writes the checkpoint of the larger model
    larger = made(options.build / "checkpoint", options.build / "six-layers-precisions")
    report = [
        "# Precisions",
        "",
        (
            f"`nox -s bench` on {machine(['onnxruntime', 'openvino', 'onnx', 'torch', 'numpy'])}; "
            "ONNX Runtime's provider for CPUs unless another is named, one stream of all cores, "
            f"medians of {options.rounds} interleaved rounds, in brackets the ratio to fp32. "
            "Quality is what the exporter measured, against fp32 on that provider. "
            "Memory is what a bundle takes beyond the bare runtime."
        ),
        "",
        f"## {options.checkpoint.name}, trained",
        "",
        *tables(shipped, options.rounds),
        "",
        throughput_line(options.checkpoint, shipped, options.rounds),
        "",
        "## 6 layers, 12 heads, d=384, random weights",
        "",
        "For time and memory; its vectors mean nothing.",
        "",
        *tables(larger, options.rounds),
    ]
    publish(options.out, report)


if __name__ == "__main__":
    main()
