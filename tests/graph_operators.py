"""PyTorch's table of ONNX operators: `torch.onnx.export` builds it anew for each graph.

That takes a second, as long as a layer of a small model does.
"""

from __future__ import annotations

import functools
from typing import Any

import torch


def build_once() -> None:
    """Keep the table of each opset in this process."""
    export = torch.onnx.export

    @functools.wraps(export)
    def with_kept_table(*arguments: Any, **options: Any) -> Any:
        _keep_table()
        return export(*arguments, **options)

    torch.onnx.export = with_kept_table


@functools.cache
def _keep_table() -> None:
    # Imported by the first export, because that takes seconds.
    from torch.onnx._internal.exporter._registration import ONNXRegistry

    build = functools.cache(ONNXRegistry.from_torchlib)
    ONNXRegistry.from_torchlib = staticmethod(build)  # type: ignore[method-assign]
