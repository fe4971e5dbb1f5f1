"""Who computes: the libraries that can open a graph, by the names that operators give them."""

from __future__ import annotations

from headlight.errors import BundleError
from headlight.runtime.bundle.file_contents import OnnxGraph
from headlight.runtime.providers.cuda_session import CudaSession, Gpu, check_cuda, device_exists
from headlight.runtime.providers.onnx_session import OnnxSession
from headlight.runtime.providers.openvino_session import OpenVinoSession, check_precision
from headlight.runtime.providers.session import Session
from headlight.runtime.providers.worker_layout import Workers

PRECISIONS = ("fp32", "bf16", "fp16", "int8")
PROVIDERS = ("cpu", "openvino", "cuda")
ANY_GPU = Gpu()


def choose_provider(name: str, precision: str, gpu: Gpu = ANY_GPU) -> str:
    """The provider for a name that an operator gave.

    Args:
        name: one of PROVIDERS; "auto" is "cuda" where onnxruntime-gpu is installed and there is a CUDA device, else "cpu", which is
            everywhere: who wants another says so, or has `make tune` find out.
        precision: that it is to compute in.
        gpu: for "cuda".

    Raises:
        BundleError: there is no such provider here, or it has not the precision; never a silent fallback: a device that is there and
            cannot be used is an error for "auto", too.
    """
    if name == "auto":
        name = "cuda" if device_exists() else "cpu"
    if name not in PROVIDERS:
        raise BundleError(f"provider {name!r} is not available; available are auto, {', '.join(PROVIDERS)}")
    if name == "openvino":
        check_precision(precision)
    if name == "cuda":
        check_cuda(precision, gpu)
    return name


def open_session(graph: OnnxGraph, provider: str, precision: str, workers: Workers, gpu: Gpu = ANY_GPU) -> Session:
    """Open a graph.

    Args:
        graph: in memory.
        provider: of PROVIDERS.
        precision: of the graph on this provider.
        workers: see there.
        gpu: for "cuda".

    Raises:
        Exception: of many types, the library's own.
    """
    if provider == "openvino":
        return OpenVinoSession(graph, workers, precision)
    if provider == "cuda":
        return CudaSession(graph, workers, gpu)
    return OnnxSession(graph, workers)
