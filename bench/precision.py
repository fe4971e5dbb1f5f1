"""Quality cost of each precision, and its savings of time, memory and bytes, on CPU providers.

`nox -s bench` runs it and writes bench/results/precision.md.
"""

from __future__ import annotations

import argparse
import functools
import importlib.util
import json
import random
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from bench.attention_forms import random_ids
from bench.encoder import bundle
from bench.frame.machine import machine
from bench.frame.report import publish
from bench.frame.rounds import Contestants, medians
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
    lines = [
        (
            "| | cosine, mean | 1st percentile | least | nearest text kept | ten nearest kept | "
            "moved by batch-mates, max Δ | attention weights, mean Δ | max Δ |"
        ),
        "|---" * 9 + "|",
    ]
    report = json.loads((path / "parity.json").read_text(encoding="utf-8"))["quality"]
    for entry, found in zip(manifest.quality, report, strict=True):
        cosines = " | ".join(
            f"{value:.6f}" for value in (entry.cosine_mean, entry.cosine_p1, entry.cosine_min)
        )
        kept = f"{entry.nearest_kept:.1%} | {entry.ten_nearest_kept:.1%}"
        lines.append(
            f"| {label(entry.provider, entry.precision)} | {cosines} | {kept} | "
            f"{entry.batch_drift:.1e} | {found['attention_mean_error']:.1e} | "
            f"{found['max_error']['attention']:.1e} |"
        )
    about = f"{manifest.quality[0].count} texts: {manifest.quality[0].texts}."
    return [about, "", *lines]


def size_table(path: Path) -> list[str]:
    """Return bytes on disk and in memory."""
    lines = [
        "| | weights on disk | resident, vectors alone | resident, with attention |",
        "|---" * 4 + "|",
    ]
    manifest = Runtime(path).bundle.manifest
    for variant in ALL:
        weights = manifest.graph("embed", *variant).weights
        disk = sum((path / file).stat().st_size for file in weights) / 1e6
        held = [_resident(path, *variant, attention) for attention in ("off", "on")]
        lines.append(
            f"| {label(*variant)} | {disk:.1f} MB | "
            + " | ".join(f"{mib:.0f} MiB" for mib in held)
            + " |"
        )
    return lines


def label(provider: str, precision: str) -> str:
    return precision if provider == "cpu" else f"{precision}, {provider}"


def opened(path: Path) -> dict[str, Runtime]:
    """Return all variants, by label, for vectors alone."""
    return {
        label(*variant): Runtime(path, provider=variant[0], precision=variant[1], attend=False)
        for variant in ALL
    }


def _resident(path: Path, provider: str, precision: str, attention: str) -> float:
    command = [sys.executable, "-c", PROBE, str(path), provider, precision, attention]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def speed_table(path: Path, rounds: int) -> list[str]:
    """Return milliseconds of pooled vectors by shape, and the ratio to fp32."""
    runtimes = opened(path)
    columns = []
    for batch, length in SHAPES:
        ids = random_ids(length, runtimes["fp32"].bundle.manifest.architecture.vocab_size)
        columns.append(
            _timed(
                {
                    name: (r, [[EncodeItem(ids, Selection())] * batch])
                    for name, r in runtimes.items()
                },
                rounds,
            )
        )
    heading = [f"{batch} x {length}" for batch, length in SHAPES]
    lines = ["| | " + " | ".join(heading) + " |", "|---" * (len(heading) + 1) + "|"]
    for name in runtimes:
        cells = [f"{found[name]:.2f} ms ({found[name] / found['fp32']:.2f}x)" for found in columns]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return lines


def throughput_line(checkpoint: Path, path: Path, rounds: int) -> str:
    """Return texts per second over the quality texts, in batches of near lengths."""
    runtimes = opened(path)
    texts = passages(load_checkpoint(checkpoint).config, path / "tokenizer.json", None).items
    batches = [
        [EncodeItem(texts[i].ids, Selection()) for i in rows]
        for rows in plan([len(t.ids) for t in texts], squared=False)
    ]
    found = _timed(
        {name: (runtime, batches) for name, runtime in runtimes.items()}, max(3, rounds // 4)
    )
    rates = ", ".join(f"{name} {1000 * len(texts) / ms:.0f}" for name, ms in found.items())
    return f"Those texts in batches of near lengths, texts/s: {rates}."


def run_all(runtime: Runtime, batches: list[list[EncodeItem]]) -> None:
    """Run one batch after another."""
    for batch in batches:
        runtime.engine.run(batch)


def _timed(
    todo: Mapping[str, tuple[Runtime, list[list[EncodeItem]]]], rounds: int
) -> dict[str, float]:
    contestants: Contestants = {
        name: functools.partial(run_all, runtime, batches)
        for name, (runtime, batches) in todo.items()
    }
    return medians(contestants, rounds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--checkpoint", type=Path, default=Path("model/headlight_model/checkpoints/docs-rope")
    )
    parser.add_argument(
        "--build", type=Path, default=Path("build/bench"), help="folder for the bundles"
    )
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--out", type=Path, default=Path("bench/results/precision.md"))
    options = parser.parse_args()
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
        *quality_table(shipped),
        "",
        *size_table(shipped),
        "",
        *speed_table(shipped, options.rounds),
        "",
        throughput_line(options.checkpoint, shipped, options.rounds),
        "",
        "## 6 layers, 12 heads, d=384, random weights",
        "",
        "For time and memory; its vectors mean nothing.",
        "",
        *quality_table(larger),
        "",
        *size_table(larger),
        "",
        *speed_table(larger, options.rounds),
    ]
    publish(options.out, report)


if __name__ == "__main__":
    main()
