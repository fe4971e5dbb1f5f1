"""Contestants as tables: one line for each."""

from __future__ import annotations

import argparse
from pathlib import Path

from bench.serving.contestants import Contestant, Engine, Setting
from bench.serving.libraries import Fastembed, Library, PlainLoop
from bench.serving.served import Headlight, Infinity, OverHttp, Vllm

OPENVINO = ("--provider", "openvino")
# Name, precision, flags of the service. One that this machine cannot serve is left out, with the
# service's reason.
HEADLIGHT = (
    ("fp32", "fp32", ("--provider", "cpu")),
    ("openvino fp32", "fp32", (*OPENVINO, "--precision", "fp32")),
    ("openvino bf16", "bf16", (*OPENVINO, "--precision", "bf16")),
    ("int8", "int8", ("--provider", "cpu", "--precision", "int8")),
    ("openvino int8", "int8", (*OPENVINO, "--precision", "int8")),
)
OVER_HTTP = ("fp32", "openvino bf16")  # of those, asked over HTTP as well
# Backend, precision, processes of the pool, environment. The three need separate ones: the ONNX
# backend's converter needs an earlier year's transformers, and the last sentence-transformers for
# these. A pool takes no sessions of ONNX Runtime or OpenVINO.
REAL, ONNX, PEERS = ".nox/peer-torch", ".nox/peer-onnx", ".nox/peer-openvino"
INFINITY_ENV, FASTEMBED_ENV, VLLM_ENV = (
    ".nox/peer-infinity",
    ".nox/peer-fastembed",
    ".nox/peer-vllm",
)
SENTENCE_TRANSFORMERS = (
    ("torch", "fp32", 1, REAL),
    ("torch", "bf16", 1, REAL),
    ("torch", "fp32", 2, REAL),
    ("torch", "bf16", 2, REAL),
    ("onnx", "fp32", 1, ONNX),
    ("onnx", "int8", 1, ONNX),
    ("openvino", "fp32", 1, PEERS),
    ("openvino", "bf16", 1, PEERS),
    ("openvino", "int8", 1, PEERS),
)
INFINITY = ("torch", "optimum")
REFERENCE = "sentence-transformers torch fp32"  # all vectors are compared with it


def tuned(path: Path) -> tuple[str, str, tuple[str, ...]]:
    """Return name, precision and flags of a file of `make tune`.

    Its lines are NAME=value, as in the service's environment.
    """
    lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    values = dict(
        line.removeprefix("HEADLIGHT_").split("=", 1)
        for line in lines
        if line.startswith("HEADLIGHT_")
    )
    flags = [
        part
        for name, value in values.items()
        for part in (f"--{name.lower().replace('_', '-')}", value)
    ]
    precision = values.get("PRECISION", "fp32")
    return f"tuned {precision}", precision, tuple(flags)


def contestants(setting: Setting, options: argparse.Namespace) -> list[Contestant]:
    """Return the contestants that the options leave, not yet started."""
    result: list[Contestant] = []
    for name, precision, flags in (*HEADLIGHT, *map(tuned, options.tuned)):
        result.append(Headlight(f"Headlight {name}", precision, setting, flags))
        result.append(Engine(f"engine {name}", precision, setting, flags))
        if name in OVER_HTTP:
            result.append(OverHttp(f"Headlight {name}, HTTP", precision, setting, flags))
    result += [PlainLoop(f"plain loop {each}", each, setting) for each in ("fp32", "bf16")]
    if not options.no_peers:
        pythons = {
            environment: Path(environment).absolute() / "bin/python"
            for environment in (REAL, ONNX, PEERS, INFINITY_ENV, FASTEMBED_ENV, VLLM_ENV)
        }
        for backend, precision, processes, environment in SENTENCE_TRANSFORMERS:
            pool = f" pool of {processes}" if processes > 1 else ""
            name = f"sentence-transformers {backend} {precision}{pool}"
            python = pythons[environment]
            result.append(Library(name, precision, setting, python, backend, processes))
        for processes in (1, 2):
            name = "fastembed" if processes == 1 else f"fastembed parallel {processes}"
            python = pythons[FASTEMBED_ENV]
            result.append(Fastembed(name, setting, python, pythons[ONNX], processes))
        python = pythons[INFINITY_ENV]
        result += [Infinity(f"infinity {engine}", setting, python, engine) for engine in INFINITY]
        python = pythons[VLLM_ENV]
        result += [Vllm(f"vLLM {each}", each, setting, python) for each in ("fp32", "bf16")]
    parts = options.only or [""]
    return [one for one in result if any(text in one.name for text in parts)]
