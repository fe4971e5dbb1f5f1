"""fastembed's sparse and late-interaction models in process, with a graph of the same model.

    python -m bench.peers.fast_vectors KIND FOLDER TEXTS

KIND is sparse or multi_vector; FOLDER is onnx of `bench.peers.vectors graph`.
"""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

from fastembed import LateInteractionTextEmbedding, SparseTextEmbedding

from bench.peers.fast import PACKAGES
from bench.peers.worker import answer, described, read_texts, timed

BATCH_SIZES = (32, 8, 1)
# Its names of models with these steps behind the graph.
NAMES = {"sparse": "prithivida/Splade_PP_en_v1", "multi_vector": "colbert-ir/colbertv2.0"}
KINDS = {"sparse": SparseTextEmbedding, "multi_vector": LateInteractionTextEmbedding}


def main() -> None:
    kind, folder, file = sys.argv[1:]
    texts = read_texts(file)
    model: Any = KINDS[kind](
        NAMES[kind],
        providers=["CPUExecutionProvider"],
        specific_model_path=folder,
        local_files_only=True,
    )

    def vectors(batch_size: int) -> Any:
        return [*model.embed(texts, batch_size=batch_size)]

    def tune() -> dict[str, Any]:
        tried = {
            size: min(timed([partial(vectors, size)] * 2)["latencies"]) for size in BATCH_SIZES
        }
        chosen.append(min(tried, key=lambda size: tried[size]))
        return {"batch_size": chosen[-1]}

    def sums() -> dict[str, Any]:
        rows = [each.values if kind == "sparse" else each for each in vectors(chosen[-1])]
        return {"sums": [float(abs(row).sum(dtype="float64")) for row in rows]}

    chosen: list[int] = []
    answer(
        {
            "describe": lambda: described(PACKAGES, "fp32"),
            "tune": tune,
            "run": lambda: timed([partial(vectors, chosen[-1])]),
            "sums": sums,
        }
    )


if __name__ == "__main__":
    main()
