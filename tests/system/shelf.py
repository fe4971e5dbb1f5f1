"""Versions of a model, and a link to one of them that is swapped as Kubernetes does it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from headlight.runtime import Runtime
from headlight.runtime.values import Floats
from tests.system.conftest import bundle_of
from tests.versions import version_of

TEXTS = ["abc", "the reverse", "of a short text", "another", "five", "six of them"]
TOLERANCE = 1e-5  # two versions are 1e-2 apart
FACTORS = (0.9, 1.1)
MODELS = """
[[model]]
source = "{source}"
name = "search"
max_items = 2
"""


def vectors_of(versions: Iterable[Path]) -> dict[str, Floats]:
    """Return the vectors of TEXTS by each version."""
    vectors = {}
    for version in versions:
        with Runtime(version, provider="cpu", threads=1) as runtime:
            vectors[runtime.model().version] = runtime.encode(TEXTS)
    return vectors


class Shelf:
    """Two versions, and the link."""

    def __init__(self, folder: Path) -> None:
        bundle = bundle_of("reverse-learned")
        self.versions = [version_of(bundle, folder / f"v{each}", each) for each in FACTORS]
        self.link = folder / "current"
        self.show(self.versions[0])

    def show(self, version: Path) -> None:
        """Let the link lead to a version, in one step."""
        new = self.link.with_name("..data")
        new.symlink_to(version)
        new.replace(self.link)

    def file(self) -> Path:
        """Write a file of models with the link as the only source."""
        file = self.link.with_name("models.toml")
        file.write_text(MODELS.format(source=self.link), encoding="utf-8")
        return file
