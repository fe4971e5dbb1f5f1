"""Engine alone: gain over a naive plan, share of the machine's peak, and the rest of the time.

    python -m bench.engine --bundle build/serving/bundle --texts build/serving/docstrings-1000.json

`nox -s serving` makes both files and runs this after it; it writes bench/results/engine.md. Naive:
one batch at a time on all cores, texts sorted by length, up to 2,048 tokens. Ours: one worker for
each core, batches of 512. Each first pass meets shapes that were not compiled before; later passes
meet them again.
"""

from __future__ import annotations

import collections
import json
import random
import statistics
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bench.frame.machine import flops, machine
from bench.frame.processes import run
from bench.frame.report import parser, publish, table
from bench.frame.rounds import turns
from headlight.errors import BundleError
from headlight.runtime import EncodeItem, Runtime, Selection, Tokenizer
from headlight.runtime.engine.batches import plan as batches_of
from headlight.runtime.providers.worker_layout import usable_cpus

VARIANTS = [("cpu", "fp32"), ("openvino", "fp32"), ("openvino", "bf16")]
PROFILED = ((1, 16), (16, 32), (4, 128), (2, 256))  # texts x tokens
ALONE = 64  # texts that are encoded alone too


class Plan(NamedTuple):
    """Batching plan of a list of texts, and its threads."""

    name: str
    streams: int
    budget: int  # padded tokens
    multiple: int  # lengths are rounded up to it


PLANS = [
    Plan("naive", 1, 2048, 1),
    Plan("ours", usable_cpus(), 512, 1),
    Plan("ours, batches of 128", usable_cpus(), 128, 1),
    Plan("ours, batches of 1,024", usable_cpus(), 1024, 1),
    Plan("ours, lengths rounded to 8", usable_cpus(), 512, 8),
]


class Contestant:
    """Provider in a precision, with a plan."""

    def __init__(
        self, bundle: Path, variant: tuple[str, str], plan: Plan, items: Sequence[EncodeItem]
    ) -> None:
        self.plan, self.variant = plan, variant
        self.runtime = Runtime(
            bundle,
            provider=variant[0],
            precision=variant[1],
            streams=plan.streams,
            attend=False,
            batch_tokens=plan.budget,
            round_lengths=plan.multiple,
        )
        self.batches = sorted_batches(items, plan)
        self.padding = 1 - sum(len(item.ids) for item in items) / sum(
            len(batch) * rounded(max(len(item.ids) for item in batch), plan.multiple)
            for batch in self.batches
        )
        self.seconds: list[float] = []

    def run(self) -> None:
        """Run one pass over all texts."""
        begin = time.perf_counter()
        with ThreadPoolExecutor(self.plan.streams) as streams:
            collections.deque(streams.map(self.runtime.engine.run, self.batches), maxlen=0)
        self.seconds.append(time.perf_counter() - begin)


def rounded(length: int, multiple: int) -> int:
    return -(-length // multiple) * multiple


def sorted_batches(items: Sequence[EncodeItem], plan: Plan) -> list[list[EncodeItem]]:
    """Return batches from the longest text, each as many as the budget takes."""
    lengths = [rounded(len(item.ids), plan.multiple) for item in items]
    return [
        [items[row] for row in rows]
        for rows in batches_of(lengths, squared=False, tokens=plan.budget)
    ]


def speed_table(
    contestants: Sequence[Contestant], operations: float, texts: int, peaks: dict[str, float]
) -> list[str]:
    """Return texts per second, the ratio to the naive plan, and the share of the peak."""
    naive = {
        each.variant: statistics.median(each.seconds[1:])
        for each in contestants
        if each.plan.name == "naive"
    }
    rows = []
    for each in contestants:
        first, later = each.seconds[0], statistics.median(each.seconds[1:])
        peak = 1e9 * peaks[each.variant[1]]
        cells = [f"{each.padding:.0%}", f"{texts / first:.0f}", f"{texts / later:.0f}"]
        cells += [f"{naive[each.variant] / later:.2f}"]
        cells += [f"{operations / seconds / peak:.0%}" for seconds in (first, later)]
        rows.append((f"{label(each)}, {each.plan.name}", *cells))
    heading = ("", "padding", "first pass, texts/s", "later, texts/s", "over naive")
    return table((*heading, "of the peak, first", "later"), rows)


def label(each: Contestant) -> str:
    provider, precision = each.variant
    return f"{precision} on {provider}"


def drift_lines(contestants: Sequence[Contestant], items: Sequence[EncodeItem]) -> list[str]:
    """Return the distance between vectors of a text alone and among others."""
    rows = []
    for each in contestants:
        if each.plan.name != "ours":
            continue
        engine, some = each.runtime.engine, items[:: max(1, len(items) // ALONE)]
        batched = {
            id(item): result
            for batch in sorted_batches(some, each.plan)
            for item, result in zip(batch, engine.run(batch), strict=True)
        }
        pairs = [(engine.run([item])[0].pooled, batched[id(item)].pooled) for item in some]
        apart = max(float(np.abs(a - b).max()) for a, b in pairs if a is not None and b is not None)
        cosine = min(float(a @ b) for a, b in pairs if a is not None and b is not None)
        rows.append((label(each), f"{apart:.1e}", f"{cosine:.6f}"))
    return table(("", "largest difference of a number", "smallest cosine"), rows)


def profile_table(bundle: Path, precision: str) -> list[str]:
    """Return OpenVINO's time for a batch by kind of node, on one thread."""
    import openvino  # noqa: PLC0415  (an extra)

    hints = {
        "INFERENCE_PRECISION_HINT": precision,
        "NUM_STREAMS": 1,
        "INFERENCE_NUM_THREADS": 1,
        "PERF_COUNT": True,
    }
    compiled = openvino.Core().compile_model(str(bundle / "embed.onnx"), "CPU", hints)
    request, columns = compiled.create_infer_request(), []
    for shape in PROFILED:
        feeds = {value.get_any_name(): np.ones(shape, dtype=np.int64) for value in compiled.inputs}
        spent: collections.Counter[str] = collections.Counter()
        for repeat in range(12):
            request.infer(feeds, share_inputs=True)
            for node in request.profiling_info if repeat >= 2 else ():
                if node.status == node.status.EXECUTED:
                    spent[node.node_type] += node.real_time.total_seconds()
        columns.append({kind: seconds / sum(spent.values()) for kind, seconds in spent.items()})
    kinds = sorted(set().union(*columns), key=lambda kind: -columns[1].get(kind, 0))
    rows = [
        (kind, *(f"{column.get(kind, 0):.1%}" for column in columns))
        for kind in kinds
        if any(column.get(kind, 0) >= 0.005 for column in columns)
    ]
    return table((precision, *(f"{count} x {length}" for count, length in PROFILED)), rows)


def machine_peaks(seconds: float) -> dict[str, float]:
    """Return GFLOP/s by precision: the best of any library's matrix products."""
    gflops = json.loads(run([sys.executable, "-m", "bench.serving.peak", str(seconds)]))
    return {
        precision: max(v for k, v in gflops.items() if k.endswith(precision))
        for precision in ("fp32", "bf16")
    }


def opened(bundle: Path, items: Sequence[EncodeItem]) -> list[Contestant]:
    """Return all contestants that this machine can run."""
    contestants = []
    for variant in VARIANTS:
        try:
            contestants += [Contestant(bundle, variant, plan, items) for plan in PLANS]
        except BundleError as error:
            print(f"without {variant}: {error}")
    return contestants


def read(tokenizer: Tokenizer, texts: Sequence[str]) -> list[EncodeItem]:
    """Return items that share one Selection, as in the service: the engine checks for that."""
    vectors = Selection()
    return [EncodeItem(tokenizer.encode(text, truncation="cut_end").ids, vectors) for text in texts]


def main() -> None:
    made = parser("bench.engine", __doc__, "engine.md", rounds=5)
    made.add_argument("--bundle", type=Path, default=Path("build/serving/bundle"))
    made.add_argument("--texts", type=Path, default=Path("build/serving/docstrings-1000.json"))
    options = made.parse_args()
    random.seed(0)
    tokenizer = Tokenizer(options.bundle / "tokenizer.json", 256)
    texts = json.loads(options.texts.read_text(encoding="utf-8"))["texts"]
    items = read(tokenizer, texts)
    contestants = opened(options.bundle, items)
    operations = sum(
        flops(contestants[0].runtime.bundle.manifest, [len(item.ids) for item in items])
    )
    peaks = machine_peaks(1.0)
    for _, each in turns(contestants, options.rounds):
        each.run()
    best = ", ".join(f"{precision} {value:.0f}" for precision, value in peaks.items())
    report = [
        "# The engine alone",
        "",
        (
            f"`python -m bench.engine` on {machine(['onnxruntime', 'openvino', 'numpy'])}; "
            f"{len(texts)} texts, all-MiniLM-L6-v2. Medians of {options.rounds} "
            "interleaved passes after the first. The machine's best products of matrices, all "
            f"cores, GFLOP/s: {best}. A share of it counts the encoder's operations on real "
            "tokens, so padding is loss."
        ),
        "",
        *speed_table(contestants, operations, len(texts), peaks),
        "",
        "A text alone and among others:",
        "",
        *drift_lines(contestants, items),
        "",
        "Where OpenVINO spends a batch, one thread:",
        "",
        *profile_table(options.bundle, "bf16"),
        "",
        *profile_table(options.bundle, "f32"),
    ]
    publish(options.out, report)


if __name__ == "__main__":
    main()
