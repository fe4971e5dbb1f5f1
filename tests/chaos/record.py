"""Results of faults: one JSON file for each row of the matrix."""

from __future__ import annotations

import dataclasses
import json
import platform
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tests.system.processes import ROOT

if TYPE_CHECKING:
    from tests.chaos.matrix import Row

State = Literal["measured", "injected", "not possible here"]

FOLDER, LONG_FOLDER = ROOT / "build/faults", ROOT / "build/soak"
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

    def joined(self, other: Outcome) -> Outcome:
        """Return both as one."""
        return Outcome(
            f"{self.seen}. {other.seen}",
            self.figures | other.figures,
            self.problems + other.problems,
            " ".join(filter(None, (self.note, other.note))),
        )


def processor() -> str:
    """Return the kernel's name of this machine's CPU."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    return next(
        (line.split(":")[1].strip() for line in lines if line.startswith("model name")),
        platform.machine(),
    )


def write(folder: Path, row: Row, *, size: Sequence[float] = (), **fields: Any) -> None:
    """Write the record of a row, with the common fields; `size` is that of its long form."""
    folder.mkdir(parents=True, exist_ok=True)
    long = f" --long --times {size[0] / row.times:g} --seed {size[1]}" if size else ""
    whole = {
        "fault": row.fault,
        "title": row.title,
        "made": row.made,
        "promise": row.promise,
        **fields,
        "command": f"python -m tests.chaos --only {row.fault}{long}",
        "commit": commit(),
        "versions": versions(),
    }
    (folder / f"{row.fault}.json").write_text(
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
