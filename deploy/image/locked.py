"""Readers of the lock files: `requirements-cpu.txt` and its like, which `nox -s lock` writes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

IMAGE = Path(__file__).resolve().parent
ROOT = IMAGE.parents[1]
VARIANTS = ("cpu", "bulk", "gpu", "export")

_PIN = re.compile(r"(?P<name>[A-Za-z0-9._-]+)==(?P<version>[^\s;]+)(?:\s*;\s*(?P<marker>.*))?")
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})\Z")


@dataclass(frozen=True)
class Pin:
    """One package of a lock file.

    Attributes:
        name: as `canonical` writes it.
        marker: environments that need it, or "" for all.
        hashes: the SHA-256 of every file that may be installed, in hexadecimal.
    """

    name: str
    version: str
    marker: str
    hashes: frozenset[str]


def canonical(name: str) -> str:
    """Return a package's name in the spelling by which indexes compare."""
    return re.sub(r"[-_.]+", "-", name).lower()


def requirements_file(variant: str) -> Path:
    """Return the lock file of an image variant."""
    return IMAGE / f"requirements-{variant}.txt"


def read_lock(path: Path) -> dict[str, Pin]:
    """Read every package of a lock file, by its canonical name.

    Raises:
        ValueError: an entry is not pinned to one version and to digests, or occurs twice; the
            message names the file and the entry.
    """
    pins: dict[str, Pin] = {}
    for entry in _entries(path):
        requirement, *options = (part.strip() for part in re.split(r"\s(?=--)", entry))
        match = _PIN.fullmatch(requirement)
        hashes = [_HASH.match(text) for text in options]
        if match is None or not hashes or None in hashes:
            raise ValueError(
                f"{path}: {requirement!r} is not one version with its digests; run `nox -s lock`"
            )
        pin = Pin(
            name=canonical(match["name"]),
            version=match["version"],
            marker=match["marker"] or "",
            hashes=frozenset(match[1] for match in hashes if match),
        )
        if pin.name in pins:
            raise ValueError(f"{path}: {pin.name} is listed twice")
        pins[pin.name] = pin
    return pins


def read_names(path: Path) -> dict[str, str]:
    """Read `constraints.txt` (name: version) or `excluded.txt` (name: ""), by canonical name."""
    split = (entry.partition("==") for entry in _entries(path))
    return {canonical(name): version for name, _, version in split}


def _entries(path: Path) -> list[str]:
    """Return logical lines: comments dropped, continued lines joined."""
    lines = (line.strip() for line in path.read_text(encoding="utf-8").splitlines())
    text = "\n".join(line for line in lines if line and not line.startswith("#"))
    return re.sub(r"\\\n", " ", text).splitlines()
