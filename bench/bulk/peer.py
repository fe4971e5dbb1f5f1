"""A peer on the texts of a table, with a process for each core.

    python -m bench.bulk.peer sentence-transformers|fastembed FOLDER PROCESSES IN OUT

Texts are sorted by length, for less padding. Each process computes on one thread.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

BATCH = 32  # texts, the default of sentence-transformers


def sentence_transformers(folder: str, processes: int, texts: list[str]) -> Any:
    """Encode with the multi-process pool."""
    from bench.peers.sentence import load  # noqa: PLC0415 # of its own environment

    model = load(Path(folder), "torch", "fp32")
    pool = model.start_multi_process_pool(["cpu"] * processes)
    try:
        return model.encode(texts, pool=pool, batch_size=BATCH, convert_to_numpy=True)
    finally:
        model.stop_multi_process_pool(pool)


def fastembed(folder: str, processes: int, texts: list[str]) -> Any:
    """Encode with `parallel`."""
    from bench.peers.fast import load  # noqa: PLC0415 # of its own environment

    model = load(folder, 384, threads=1)
    # as sentence-transformers does by itself: less padding
    order = sorted(range(len(texts)), key=lambda at: len(texts[at]))
    ordered = [texts[at] for at in order]
    rows = np.stack(list(model.embed(ordered, batch_size=BATCH, parallel=processes)))
    vectors = np.empty_like(rows)
    vectors[order] = rows
    return vectors


def main() -> None:
    name, folder, processes, source, out = sys.argv[1:]
    table = pq.read_table(source)
    encode = {"sentence-transformers": sentence_transformers, "fastembed": fastembed}[name]
    vectors = encode(folder, int(processes), table.column("body").to_pylist())
    numbers = pa.array(np.asarray(vectors, np.float32).reshape(-1))
    column = pa.FixedSizeListArray.from_arrays(numbers, vectors.shape[1])
    pq.write_table(pa.table({"id": table.column("id"), "embedding": column}), out)


if __name__ == "__main__":
    main()
