"""Peak of the machine's matrix products: several sizes, the best of many tries.

    python -m bench.serving.peak SECONDS

SECONDS is the time of tries at each size. Prints one line of JSON: GFLOP/s by library and
precision. It needs PyTorch, and OpenVINO for its numbers.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import time
from collections.abc import Callable, Iterator

import numpy as np
import torch

SIZES = (
    (1024, 1024, 1024),
    (2048, 2048, 2048),
    (2048, 384, 1536),
    (2048, 1536, 384),
)  # the last two: the encoder's own
Product = Callable[[], object]


def products() -> Iterator[tuple[str, int, Product]]:
    """Yield library and precision, operations, and the product itself."""
    for m, k, n in SIZES:
        operations = 2 * m * k * n
        a, b = (
            np.random.default_rng(0).standard_normal(shape, dtype=np.float32)
            for shape in ((m, k), (k, n))
        )
        out = np.empty((m, n), np.float32)
        yield "numpy fp32", operations, lambda a=a, b=b, out=out: np.matmul(a, b, out=out)  # type: ignore[misc]
        for precision, dtype in (("fp32", torch.float32), ("bf16", torch.bfloat16)):
            left, right = torch.from_numpy(a).to(dtype), torch.from_numpy(b).to(dtype)
            into = torch.empty((m, n), dtype=dtype)
            yield (
                f"torch {precision}",
                operations,
                lambda left=left, right=right, into=into: torch.mm(left, right, out=into),  # type: ignore[misc]
            )
        if importlib.util.find_spec("openvino"):
            yield from by_openvino(a, b, operations)


def by_openvino(
    a: np.ndarray, b: np.ndarray, operations: int
) -> Iterator[tuple[str, int, Product]]:
    """Yield the same as a graph, with the right matrix constant, as weights are."""
    import openvino  # noqa: PLC0415  (not everywhere)
    from openvino import opset13  # noqa: PLC0415

    left = opset13.parameter(list(a.shape), np.float32)
    model = openvino.Model([opset13.matmul(left, opset13.constant(b), False, False)], [left])
    for precision, hint in (("fp32", "f32"), ("bf16", "bf16")):
        hints = {
            "INFERENCE_PRECISION_HINT": hint,
            "NUM_STREAMS": 1,
            "INFERENCE_NUM_THREADS": cores(),
        }
        request = openvino.Core().compile_model(model, "CPU", hints).create_infer_request()
        yield (
            f"openvino {precision}",
            operations,
            lambda request=request: request.infer([a], share_inputs=True),  # type: ignore[misc]
        )


def cores() -> int:
    return len(os.sched_getaffinity(0))


def best(product: Product, seconds: float) -> float:
    """Return the seconds of the fastest try."""
    product()
    end, fastest = time.perf_counter() + seconds, float("inf")
    while (begin := time.perf_counter()) < end:
        product()
        fastest = min(fastest, time.perf_counter() - begin)
    return fastest


def main() -> None:
    torch.set_num_threads(cores())
    gflops: dict[str, float] = {}
    for name, operations, product in products():
        gflops[name] = max(
            gflops.get(name, 0.0), operations / best(product, float(sys.argv[1])) / 1e9
        )
    print(json.dumps(gflops))


if __name__ == "__main__":
    main()
