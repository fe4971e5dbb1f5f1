"""Contestants as tables: one line for each."""

from __future__ import annotations

import argparse
from pathlib import Path

from bench.serving.contestants import Contestant, InProcess, Library, Setting
from bench.serving.served import Headlight, Infinity

OPENVINO = ("--provider", "openvino")
# Name, precision, flags of the service. One that this machine cannot serve is left out, with the
# service's reason.
HEADLIGHT = (
    ("fp32", "fp32", ("--provider", "cpu")),
    ("openvino fp32", "fp32", (*OPENVINO, "--precision", "fp32")),
    ("openvino bf16", "bf16", (*OPENVINO, "--precision", "bf16")),
)
# Backend, precision, environment. The three need separate ones: the ONNX backend's converter needs
# an earlier year's transformers, and the last sentence-transformers for these.
SENTENCE_TRANSFORMERS = (
    ("torch", "fp32", ".venv-families"),
    ("torch", "bf16", ".venv-families"),
    ("onnx", "fp32", ".venv-peers-onnx"),
    ("openvino", "fp32", ".venv-peers"),
    ("openvino", "bf16", ".venv-peers"),
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
    found: list[Contestant] = []
    for name, precision, flags in (*HEADLIGHT, *map(tuned, options.tuned)):
        found.append(Headlight(f"Headlight {name}", precision, setting, flags))
        found.append(InProcess(f"engine {name}", precision, setting, flags))
    if not options.no_peers:
        for backend, precision, environment in SENTENCE_TRANSFORMERS:
            python = (
                Path(environment).absolute()
                if environment != ".venv-families"
                else options.families.absolute()
            )
            name = f"sentence-transformers {backend} {precision}"
            found.append(Library(name, precision, setting, python / "bin/python", backend))
        python = Path(".venv-infinity/bin/python").absolute()
        found += [Infinity(f"infinity {engine}", setting, python, engine) for engine in INFINITY]
    wanted = options.only or [""]
    return [one for one in found if any(text in one.name for text in wanted)]
