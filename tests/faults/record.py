"""Results of faults: one JSON file for each row of the matrix."""

from __future__ import annotations

import dataclasses
import json
import platform
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

from tests.system.processes import ROOT

State = Literal["measured", "injected", "not possible here"]

FOLDER = ROOT / "build" / "faults"
PACKAGES = ("grpcio", "protobuf", "numpy", "onnxruntime")


class NotPossible(Exception):
    """The fault cannot be made on this machine; the text is the reason."""


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """Result of one fault.

    Attributes:
        seen: the figures in a sentence, for the page.
        figures: the same for machines.
        problems: what breaks the promise; empty if it was kept.
        note: what the reader of the page has to know besides.
    """

    seen: str
    figures: dict[str, Any] = dataclasses.field(default_factory=dict)
    problems: list[str] = dataclasses.field(default_factory=list)
    note: str = ""


def command_of(fault: str) -> str:
    """Return the command that makes one fault."""
    return f"python -m tests.faults --only {fault}"


def write(folder: Path, fault: str, **fields: Any) -> None:
    """Write the record of a fault, with the common fields."""
    folder.mkdir(parents=True, exist_ok=True)
    whole = {
        "fault": fault,
        **fields,
        "command": command_of(fault),
        "commit": commit(),
        "versions": versions(),
    }
    (folder / f"{fault}.json").write_text(
        json.dumps(whole, indent=2, ensure_ascii=False) + "\n", encoding="utf-8"
    )


def read(folder: Path, fault: str) -> dict[str, Any] | None:
    """Return the record of a fault; None if it was not run."""
    path = folder / f"{fault}.json"
    if not path.exists():
        return None
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def commit() -> str:
    """Return the commit of the working tree, marked if files differ from it."""
    head = _git("rev-parse", "--short=12", "HEAD")
    changed = _git(
        "status", "--porcelain", "--untracked-files=no", "--", ".", ":!docs/reliability.md"
    )
    return f"{head} with changes" if changed else head


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def versions() -> dict[str, str]:
    """Return the software and kernel versions of this run."""
    installed = {name: version(name) for name in PACKAGES}
    return {
        "python": ".".join(map(str, sys.version_info[:3])),
        **installed,
        "kernel": platform.release(),
    }
