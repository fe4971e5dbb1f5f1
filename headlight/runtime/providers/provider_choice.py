"""Providers: the libraries that can open a graph, by the names that operators use."""

from __future__ import annotations

import dataclasses

from headlight.errors import BundleError
from headlight.runtime.bundle.bundle import Bundle
from headlight.runtime.bundle.file_contents import OnnxGraph
from headlight.runtime.bundle.manifest import Graph
from headlight.runtime.providers.cuda_session import CudaSession, Gpu, check_cuda, device_exists
from headlight.runtime.providers.onnx_session import OnnxSession
from headlight.runtime.providers.openvino_session import (
    LANES,
    OpenVinoSession,
    check_precision,
)
from headlight.runtime.providers.session import Session, check_interface
from headlight.runtime.providers.worker_layout import Workers

PRECISIONS = ("fp32", "bf16", "fp16", "int8")
PROVIDERS = ("cpu", "openvino", "cuda")
ANY_GPU = Gpu()


def choose_provider(name: str, precision: str, gpu: Gpu = ANY_GPU) -> str:
    """Return the provider for an operator's name.

    Args:
        name: one of PROVIDERS, or "auto". "auto" is "cuda" with onnxruntime-gpu and a CUDA device,
            else "cpu", which is always available. For another, name it or run `make tune`.
        precision: precision of the computation.
        gpu: for "cuda".

    Raises:
        BundleError: the provider does not exist here or lacks the precision. There is no silent
            fallback: a driver that fails is an error for "auto", too.
    """
    if name == "auto":
        name = "cuda" if device_exists() else "cpu"
    if name not in PROVIDERS:
        raise BundleError(
            f"provider {name!r} is not available; available are auto, {', '.join(PROVIDERS)}"
        )
    if name == "openvino":
        check_precision(precision)
    if name == "cuda":
        check_cuda(precision, gpu)
    return name


def least_rounding(provider: str, precision: str) -> int:
    """Return the tokens that a batch's length must be a multiple of.

    With another length, a text's vector would depend on the batch.
    """
    return LANES if (provider, precision) == ("openvino", "int8") else 1


def open_graph(
    bundle: Bundle,
    graph: Graph,
    provider: str,
    precision: str,
    workers: Workers,
    gpu: Gpu = ANY_GPU,
) -> Session:
    """Open a graph of a bundle and check its interface; arguments as `open_session`.

    Raises:
        BundleError: it cannot be opened, or is not what the manifest says.
    """
    gpu = dataclasses.replace(gpu, record=gpu.record and graph.role == "embed")
    try:
        session = open_session(bundle.graphs[graph.file], provider, precision, workers, gpu)
    except BundleError:
        raise
    except Exception as error:  # libraries raise many types; only operators see the message
        words = " ".join(str(error).split())
        raise BundleError(
            f"cannot be opened on provider {provider}: {words:.300}", graph.file
        ) from error
    check_interface(session, graph, bundle.manifest)
    return session


def open_session(
    graph: OnnxGraph, provider: str, precision: str, workers: Workers, gpu: Gpu = ANY_GPU
) -> Session:
    """Open a graph.

    Args:
        graph: the graph in memory.
        provider: one of PROVIDERS.
        precision: precision of the graph on this provider.
        workers: threads that run batches.
        gpu: for "cuda".

    Raises:
        Exception: an error of the library, of many types.
    """
    if provider == "openvino":
        return OpenVinoSession(graph, workers, precision)
    if provider == "cuda":
        return CudaSession(graph, workers, gpu)
    return OnnxSession(graph, workers)
