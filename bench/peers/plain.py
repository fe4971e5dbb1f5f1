"""A plain loop over OpenVINO: sorted texts, batches of padded tokens, a caller for each core.

    python -m bench.peers.plain BUNDLE TEXTS PRECISION

No queue, no checks, no options: the graph of the bundle and its tokenizer.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import numpy as np
import openvino
from tokenizers import Tokenizer

from bench.peers.worker import answer, described, read_texts, save_vectors, timed

LONGEST = 256
PLANS = tuple(itertools.product((512, 1024), (1, 16)))  # padded tokens, multiple of lengths


class Loop:
    """The loop, and its plan: most padded tokens of a batch, and the multiple of its length."""

    def __init__(self, bundle: Path, precision: str) -> None:
        cores, core = len(os.sched_getaffinity(0)), openvino.Core()
        options = {
            "INFERENCE_PRECISION_HINT": {"fp32": "f32", "bf16": "bf16"}[precision],
            "NUM_STREAMS": cores,
            "INFERENCE_NUM_THREADS": cores,
        }
        manifest = json.loads((bundle / "manifest.json").read_text(encoding="utf-8"))
        [file] = (
            graph["file"]
            for graph in manifest["graphs"]
            if (graph["role"], graph["precision"]) == ("embed", "fp32")
            and "openvino" in graph["providers"]
        )
        compiled = core.compile_model(bundle / file, "CPU", options)
        self.plan = PLANS[0]
        self.tokenizer = Tokenizer.from_file(str(bundle / "tokenizer.json"))
        self.tokenizer.enable_truncation(LONGEST)
        self._requests: SimpleQueue[Any] = SimpleQueue()
        for _ in range(cores):
            self._requests.put(compiled.create_infer_request())
        self._threads = ThreadPoolExecutor(cores)
        self._inputs = {value.get_any_name() for value in compiled.inputs}

    def encode(self, texts: Sequence[str]) -> Any:
        """Return float32 [N, D]."""
        read = [each.ids for each in self.tokenizer.encode_batch(texts)]
        budget, multiple = self.plan
        batches, batch = [], list[int]()
        for at in sorted(range(len(read)), key=lambda at: -len(read[at])):
            longest = -(-len(read[batch[0] if batch else at]) // multiple) * multiple
            if batch and (len(batch) + 1) * longest > budget:
                batches.append(batch)
                batch = []
            batch.append(at)
        batches.append(batch)
        ids = ([read[at] for at in rows] for rows in batches)
        pooled = np.concatenate(list(self._threads.map(self._run, ids)))
        vectors = np.empty_like(pooled)
        vectors[list(itertools.chain(*batches))] = pooled
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    def _run(self, batch: list[list[int]]) -> Any:
        length = -(-max(map(len, batch)) // self.plan[1]) * self.plan[1]
        ids = np.zeros((len(batch), length), np.int64)
        mask = np.zeros_like(ids)
        for row, each in enumerate(batch):
            ids[row, : len(each)], mask[row, : len(each)] = each, 1
        feeds = {"ids": ids, "mask": mask, "segments": np.zeros_like(ids)}
        request = self._requests.get()
        request.infer({name: feeds[name] for name in self._inputs})
        pooled = request.get_tensor("pooled").data.copy()
        self._requests.put(request)
        return pooled


def main() -> None:
    bundle, texts_path, precision = sys.argv[1:]
    texts, loop = read_texts(texts_path), Loop(Path(bundle), precision)

    def describe() -> dict[str, Any]:
        return described(("openvino", "tokenizers", "numpy"), precision)

    def tune(order: list[int]) -> dict[str, Any]:
        """Choose the fastest plan: the second of two runs, which meets known shapes."""
        seconds = {}
        for plan in PLANS:
            loop.plan = plan
            for _ in range(2):
                begun = time.perf_counter()
                loop.encode([texts[at] for at in order])
                seconds[plan] = time.perf_counter() - begun
        loop.plan = min(seconds, key=seconds.__getitem__)
        return {"batch_size": {"tokens, multiple": loop.plan}}

    def run(order: list[int]) -> dict[str, Any]:
        return timed([lambda: loop.encode([texts[at] for at in order])])

    def vectors(path: str) -> dict[str, Any]:
        return save_vectors(path, loop.encode(texts))

    answer({"describe": describe, "tune": tune, "run": run, "vectors": vectors})


if __name__ == "__main__":
    main()
