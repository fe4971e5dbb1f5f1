"""Report of the lines that ran in the empty environment: bench/results/install.md."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterable
from pathlib import Path

from bench.frame.machine import processor
from tests.install.shell import Row
from tests.system.processes import ROOT

PACKAGES = ("torch", "onnx", "onnxruntime", "huggingface_hub", "tokenizers", "grpcio", "numpy")
TEXT = """# The wheel in an empty environment

{about}

`nox -s install-check` builds the wheel and installs it into an empty environment. It runs
these lines there, outside of the clone: the quick start, and each example of each `--help`.

- The Hub is a server on loopback with the Hub's API. Its model is a BERT of three small layers with
  random weights. [first-answer.md](first-answer.md) has the times of a model of 91 MB.
- Services listened on free ports. Files that an example names were made before.
- A service was ready after the seconds given. It then answered `headlight info`.

| line | last line of its output | seconds |
|---|---|---|
"""


def report(rows: Iterable[Row], commit: str, python: Path) -> str:
    """Return the page.

    Args:
        rows: the lines that ran.
        commit: that the wheel was built from.
        python: of the environment.
    """
    lines = (
        f"| `` {_cell(row.line)} `` | {_cell(row.seen)} | {row.seconds:.1f} |\n" for row in rows
    )
    return TEXT.format(about=_about(commit, python)) + "".join(lines)


def head_commit() -> str:
    """Return the commit of this clone."""
    return _output("git", "-C", ROOT, "rev-parse", "--short", "HEAD").strip()


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


def _about(commit: str, python: Path) -> str:
    """Return commit, machine and versions."""
    listed = json.loads(_output(str(python), "-m", "pip", "list", "--format=json"))
    versions = {each["name"]: each["version"] for each in listed}
    named = ", ".join(f"{name} {versions[name]}" for name in PACKAGES)
    cores = len(os.sched_getaffinity(0))
    version = _output(python, "--version").strip()
    busy = f"load average of 15 minutes {os.getloadavg()[2]:.1f}"
    return f"Commit {commit}; {cores} cores of {processor()}, {busy}; {named}, {version}"


def _output(*command: str | Path) -> str:
    words = [str(word) for word in command]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout
