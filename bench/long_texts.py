"""Memory and time of one long text, with attention in plain operators and in one.

    python -m bench.long_texts

The encoders have random weights and 2 layers: more layers take more time, and no more memory. Each
figure of memory is of a fresh process on one thread, beyond what a text of 16 tokens took. It
writes bench/results/long-texts.md.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from bench.frame.machine import Others, machine
from bench.frame.report import command, parser, publish, table
from bench.loading_memory import CLEAR_PEAK, MIB, status
from headlight.runtime.bundle.file_contents import OnnxGraph
from headlight.runtime.providers.provider_choice import open_session
from headlight.runtime.providers.worker_layout import Workers

FOLDER = Path("build/long-texts")
FORMS = {"plain": "cpu", "fused": "cpu", "OpenVINO, plain": "openvino"}
LENGTHS = (512, 2048, 8192)
LARGEST_MAPS = 8 << 30  # bytes of four maps, beyond which plain operators are not tried
PACKAGES = ("onnxruntime", "openvino", "numpy")
SHORT, VOCABULARY = 16, 1000
# Name: positions, width, heads, width of the feed-forward network.
MODELS = {
    "12 heads of 32, as MiniLM": ("learned", 384, 12, 1536),
    "16 heads of 64, as BERT-large": ("learned", 1024, 16, 4096),
    "16 heads of 64, rotary, gated": ("rope", 1024, 16, 2816),
}
HEADING = ("model", "tokens", "form", "MiB", "seconds", "four maps, MiB")


def write(name: str) -> Path:
    """Write both graphs of a model, and return their folder."""
    import onnx  # noqa: PLC0415 -- a measured process has neither
    import torch  # noqa: PLC0415

    from headlight_export.writer.fused_attention import Form, with_fused_attention  # noqa: PLC0415
    from headlight_export.writer.graphs import trace  # noqa: PLC0415
    from headlight_export.writer.vectors_graph import vectors_alone  # noqa: PLC0415
    from headlight_model.config import EncoderConfig  # noqa: PLC0415
    from headlight_model.encoder import Encoder  # noqa: PLC0415

    positions, width, heads, ffn = MODELS[name]
    folder = FOLDER / name
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    config = EncoderConfig(
        vocab_size=VOCABULARY,
        dim=width,
        heads=heads,
        layers=2,
        ffn_dim=ffn,
        ffn="gated" if positions == "rope" else "plain",
        positions=positions,
        max_length=max(LENGTHS),
    )
    plain = vectors_alone(trace(Encoder(config).eval()))
    onnx.save(plain, folder / "plain.onnx")
    fused = with_fused_attention(plain, config, Form())
    assert fused is not None
    onnx.save(fused, folder / "fused.onnx")
    return folder


def measure(path: Path, provider: str, length: int) -> None:
    """Compute one text, and print the MiB of memory and the seconds that it takes."""
    session = open_session(OnnxGraph(path.read_bytes()), provider, "fp32", Workers(1, 1))

    def run(tokens: int) -> float:
        ids = np.random.default_rng(0).integers(5, VOCABULARY, (1, tokens))
        begun = time.perf_counter()
        with session.run(["pooled"], {"ids": ids, "mask": np.ones_like(ids)}, {}):
            return time.perf_counter() - begun

    run(SHORT)
    before = status("VmRSS")
    Path("/proc/self/clear_refs").write_text(CLEAR_PEAK, encoding="ascii")
    seconds = run(length)
    print((status("VmHWM") - before) / MIB, seconds)


def in_fresh_process(path: Path, provider: str, length: int, rounds: int) -> tuple[float, float]:
    """Return the medians of memory in MiB and of seconds."""
    line = [sys.executable, "-m", "bench.long_texts", "--measure", path, provider, length]
    runs = [
        tuple(map(float, subprocess.check_output([*map(str, line)], text=True).split()))
        for _ in range(rounds)
    ]
    memory, seconds = (statistics.median(each) for each in zip(*runs, strict=True))
    return memory, seconds


def main() -> None:
    """Measure all, and write the report."""
    options = parser("bench.long_texts", __doc__, "long-texts.md", rounds=3)
    options.add_argument("--measure", nargs=3, help=argparse.SUPPRESS)
    arguments = options.parse_args()
    if arguments.measure:
        path, provider, length = arguments.measure
        measure(Path(path), provider, int(length))
        return
    rows, others = [], Others()
    for name in MODELS:
        folder = write(name)
        for length in LENGTHS:
            maps = 4 * 4 * MODELS[name][2] * length**2
            for form, provider in FORMS.items():
                if form == "plain" and maps > LARGEST_MAPS:
                    continue
                path = folder / ("fused.onnx" if form == "fused" else "plain.onnx")
                memory, seconds = in_fresh_process(path, provider, length, arguments.rounds)
                numbers = (f"{memory:.0f}", f"{seconds:.2f}", f"{maps / MIB:,.0f}")
                rows.append((name, f"{length:,}", form, *numbers))
    publish(
        arguments.out,
        [
            "# Memory of long texts",
            "",
            f"`{command('bench.long_texts')}` on {machine(PACKAGES)}.",
            f"One text alone, fp32, one thread, random weights of 2 layers; medians of "
            f"{arguments.rounds} fresh",
            f"processes. Other programs took {others.share():.0%} of the CPUs.",
            "",
            *table(HEADING, rows),
        ],
    )


if __name__ == "__main__":
    main()
