"""What each form of attention costs in bfloat16, and how far its numbers then are from those of float32.

`make bench` runs it and writes bench/results/attention_bf16.md. OpenVINO reads the very `attend` graph that is served; it is called
itself, because ONNX Runtime's plug-in of it offers no device on processors of other makers than its own.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import openvino
from numpy.typing import NDArray

from bench.attention import SHAPES, contestants, random_ids
from bench.encoder import bundle
from bench.measuring import machine, medians, publish
from headlight.runtime import ItemResult, Runtime, engine
from headlight.runtime.values import Tokenized
from headlight.spec import AttentionSpec

Arrays = Mapping[str, NDArray[Any]]
ALONE = "vectors alone"


class Session:
    """A graph compiled by OpenVINO, called as the engine calls ONNX Runtime's."""

    def __init__(self, path: str, precision: str, threads: int) -> None:
        hints = {"INFERENCE_PRECISION_HINT": precision, "INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1}
        self._request = openvino.compile_model(path, "CPU", hints).create_infer_request()

    def run(self, names: Sequence[str], feeds: Arrays, buffers: Arrays) -> dict[str, NDArray[Any]]:
        """The outputs named; those that have a buffer are written into it."""
        # Its TopK takes no k of 0: a layer of which nothing is wanted gives its largest entry of each row, which is not read.
        fed = {name: np.maximum(value, 1) if name.startswith("top_") else value for name, value in feeds.items()}
        self._request.infer(fed, share_inputs=True)
        found = {}
        for name in names:
            given = self._request.get_tensor(name).data
            found[name] = buffers.get(name, np.empty_like(given))
            found[name][...] = given
        return found


def opened(path: Path, precision: str) -> Runtime:
    """The bundle with OpenVINO in the place of ONNX Runtime."""

    def session(graph: str, threads: int, _spin: bool) -> Session:
        return Session(graph, precision, threads)

    # Bound for as long as the process lives: `_run` is looked up at each batch.
    mock.patch.object(engine, "_run", _by_session(engine._run)).start()
    with mock.patch.multiple(engine, _open_session=session, check_interface=lambda *_: None):
        return Runtime(path)


def _by_session(native: Any) -> Any:
    def run(session: Any, names: Sequence[str], feeds: Arrays, buffers: Arrays) -> Any:
        return (
            session.run(names, feeds, buffers)
            if isinstance(session, Session)
            else native(session, names, feeds, buffers)
        )

    return run


def cost_table(plain: Runtime, fast: Runtime, rounds: int) -> list[str]:
    """Milliseconds of each form in bf16 and its ratio to vectors alone, and what vectors alone take in fp32."""
    heading = [f"{batch} x {length}" for batch, length in SHAPES]
    lines = ["| | " + " | ".join(heading) + " |", "|---" * (len(heading) + 1) + "|"]
    columns = []
    for batch, length in SHAPES:
        fp32 = contestants(plain, batch, length)[ALONE]
        columns.append(medians({"fp32, cpu": fp32} | contestants(fast, batch, length), rounds))
    for name in columns[0]:
        cells = [f"{column[name]:.1f} ms ({column[name] / column[ALONE]:.2f}x)" for column in columns]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return lines


def error_lines(plain: Runtime, fast: Runtime) -> list[str]:
    """How far bf16 is from fp32, on random ids of 128 and of 512."""
    lines = [
        "| tokens | smallest cosine of vectors | largest difference of a weight | of the mean of heads |",
        "|---" * 4 + "|",
    ]
    for length in (128, 512):
        exact, rough = (_results(runtime, length) for runtime in (plain, fast))
        cosine = min(_cosine(a.pooled, b.pooled) for a, b in zip(exact, rough, strict=True))
        apart = [np.abs(_maps(a) - _maps(b)).max() for a, b in zip(exact, rough, strict=True)]
        lines.append(f"| {length} | {cosine:.5f} | {apart[0]:.1e} | {apart[1]:.1e} |")
    return lines


def _results(runtime: Runtime, length: int) -> list[ItemResult]:
    tokenized = Tokenized(random_ids(length), length, None)
    specs = (AttentionSpec(), AttentionSpec(reduce=("head_mean",)))
    return [runtime.engine.run([runtime.item(tokenized, runtime.select(attention=spec))])[0] for spec in specs]


def _maps(result: ItemResult) -> NDArray[Any]:
    assert result.attention is not None
    return result.attention


def _cosine(a: Any, b: Any) -> float:
    return float(a @ b / np.sqrt((a @ a) * (b @ b)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--out", type=Path, default=Path("bench/results/attention_bf16.md"))
    options = parser.parse_args()
    random.seed(0)
    capabilities = openvino.Core().get_property("CPU", "OPTIMIZATION_CAPABILITIES")
    if "BF16" not in capabilities:
        raise SystemExit("This processor has no bfloat16: nothing is measured.")
    path = bundle(Path("build/bench"))
    plain, fast = Runtime(path), opened(path, "bf16")
    report = [
        "# What each form of attention costs in bfloat16",
        "",
        f"`make bench` on {machine(['openvino', 'onnxruntime', 'numpy'])}; 6 layers, 12 heads, d=384, random weights. OpenVINO, "
        f"bf16, over the graph that is served in fp32. All layers in each form. Medians of {options.rounds} interleaved rounds; in "
        "brackets the ratio to vectors alone in bf16. Reported beside attention.md, not held to its limits: products take less time in "
        "bf16, and what is done once per map does not.",
        "",
        *cost_table(plain, fast, options.rounds),
        "",
        "Against fp32:",
        "",
        *error_lines(plain, fast),
    ]
    publish(options.out, report)


if __name__ == "__main__":
    main()
