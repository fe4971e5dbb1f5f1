"""The engine alone on the texts of a table: the rate that a job can at most have.

    python -m bench.bulk.engine BUNDLE IN OUT

Texts are read and tokenised before the clock starts. It prints the seconds of computing.
"""

from __future__ import annotations

import json
import sys
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from headlight.bulk.table_columns import vector_column
from headlight.runtime import Runtime


def main() -> None:
    bundle, source, out = sys.argv[1:]
    table = pq.read_table(source)
    with Runtime(bundle, streams=None, attend=False) as runtime:
        selection = runtime.select()
        texts = table.column("body").to_pylist()
        prepared = runtime.prepare(texts, selection, truncation="cut_end")
        begun = time.perf_counter()
        results = runtime.engine.run_in_batches([each.item for each in prepared])
        seconds = time.perf_counter() - begun
    vectors = np.array([each.pooled for each in results], np.float32)
    column = vector_column(vectors, range(len(texts)), len(texts))
    pq.write_table(pa.table({"id": table.column("id"), "embedding": column}), out)
    print(json.dumps({"seconds": seconds}))


if __name__ == "__main__":
    main()
