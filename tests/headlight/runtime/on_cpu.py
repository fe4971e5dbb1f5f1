"""A CPU session that reports a GPU, and batches for it."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import onnxruntime

from headlight.runtime import EncodeItem, Selection
from headlight.runtime.values import Arrays

CUDA, CPU = "CUDAExecutionProvider", "CPUExecutionProvider"


class OnCpu(onnxruntime.InferenceSession):  # type: ignore[misc]  # ships no types
    """Session that reports a GPU."""

    asked: ClassVar[list[dict[str, Any]]] = []
    providers: ClassVar[list[str]] = [CUDA, CPU]
    shrunk: ClassVar[list[str]] = []
    graphs: ClassVar[list[str]] = []  # the numbers of the CUDA graphs of its runs

    def __init__(self, path: str, options: Any, **rest: Any) -> None:
        self.asked.append(rest)
        super().__init__(path, options, providers=[CPU])

    def get_providers(self) -> list[str]:
        return self.providers

    def get_provider_graph_assignment_info(self) -> Any:
        """Return none: the real ones all name the CPU."""
        return []

    def run(self, names: list[str], feeds: Arrays, options: Any = None) -> Any:
        self.shrunk.append(options.get_run_config_entry("memory.enable_memory_arena_shrinkage"))
        return super().run(names, feeds)

    def run_with_iobinding(self, binding: Any, options: Any = None) -> None:
        if options is not None:
            self.graphs.append(options.get_run_config_entry("gpu_graph_id"))
        super().run_with_iobinding(binding, options)


def items(*lengths: int) -> list[EncodeItem]:
    return [
        EncodeItem(np.arange(1, n + 1, dtype=np.int64), Selection(tokens=True)) for n in lengths
    ]
