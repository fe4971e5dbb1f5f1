"""Corpus: source code and documentation of the running Python's own standard library.

Needs no torch.

It is on every machine that can train, has a permissive licence, and depends on order: brackets,
repeated names. headlight_model.train.data.packages adds the pinned packages to it.
"""

from __future__ import annotations

import ast
import dataclasses
import enum
import functools
import hashlib
import sysconfig
from collections.abc import Sequence
from pathlib import Path

# Folders that are not the library itself, and `encodings`, which is almost wholly tables of
# characters.
LEFT_OUT = frozenset(
    {
        "test",
        "tests",
        "idlelib",
        "turtledemo",
        "ensurepip",
        "site-packages",
        "dist-packages",
        "encodings",
    }
)
ONE_PLATFORM = ("_sysconfigdata", "_osx_support")  # prefixes: facts about one build or one system
PROSE_MODULE = "pydoc_data"  # its one table holds the language reference as plain text
SPLIT_SALT = "headlight"  # changes which module belongs where
TEST_SHARE, VALIDATION_SHARE = 0.20, 0.08  # of the top-level modules, approximately
STDLIB = "python"  # package name of the standard library
# Whole packages, of many kinds and sizes, chosen before any training.
TEST_PACKAGES = frozenset(
    (
        "anyio",
        "click",
        "fsspec",
        "hypothesis",
        "jinja2",
        "networkx",
        "packaging",
        "pillow",
        "prometheus-client",
        "pyparsing",
        "python-dateutil",
        "sortedcontainers",
        "tqdm",
    )
)
VALIDATION_PACKAGES = frozenset(
    ("distlib", "execnet", "httpx2", "platformdirs", "pluggy", "virtualenv")
)


class Part(enum.Enum):
    """Split of the corpus."""

    TRAINING = "training"  # weights, vocabulary and word frequencies come from here alone
    VALIDATION = "validation"  # choices are made here: the weight of a fusion
    TEST = "test"  # figures are measured here


@dataclasses.dataclass(frozen=True)
class Source:
    """One text of the corpus: a file, or one topic of the language reference."""

    module: str  # dotted
    text: str
    package: str = STDLIB  # the distribution, in its normal form

    @property
    def part(self) -> Part:
        """The part that the text belongs to."""
        return part_of(self.module) if self.package == STDLIB else part_of_package(self.package)


def top_level(module: str) -> str:
    """Return the first part of a dotted name, which the split is made by."""
    return module.partition(".")[0]


def part_of(module: str) -> Part:
    """Return the part of a module. The same on every machine; a package is never divided."""
    digest = hashlib.sha256(f"{SPLIT_SALT}:{top_level(module)}".encode()).digest()
    place = int.from_bytes(digest[:8], "big") / 2**64
    if place < TEST_SHARE:
        return Part.TEST
    return Part.VALIDATION if place < TEST_SHARE + VALIDATION_SHARE else Part.TRAINING


def part_of_package(package: str) -> Part:
    """Return the part of a package, which is never divided."""
    if package in TEST_PACKAGES:
        return Part.TEST
    return Part.VALIDATION if package in VALIDATION_PACKAGES else Part.TRAINING


def stdlib_files(root: Path | None = None) -> list[tuple[str, Path]]:
    """Return (dotted module, file) of each library file, sorted by module.

    `root`: None for the running Python's library.
    """
    root = root or Path(sysconfig.get_path("stdlib"))
    modules = []
    for path in root.rglob("*.py"):
        parts = path.relative_to(root).with_suffix("").parts
        if LEFT_OUT.isdisjoint(parts) and not parts[0].startswith(ONE_PLATFORM):
            modules.append((".".join(part for part in parts if part != "__init__"), path))
    return sorted(modules)


@functools.cache
def files() -> tuple[Source, ...]:
    """Return the library's files, sorted by module."""
    return tuple(
        Source(module, path.read_text(encoding="utf-8")) for module, path in stdlib_files()
    )


@functools.cache
def sources() -> tuple[Source, ...]:
    """Return the texts for masked-token prediction.

    Each file as it stands, and the language reference topic by topic.
    """
    code = [source for source in files() if top_level(source.module) != PROSE_MODULE]
    return (*code, *topics())


def topics() -> list[Source]:
    """Return the language reference that `help()` shows, one text per topic."""
    sources = []
    for source in files():
        if top_level(source.module) == PROSE_MODULE:
            for node in ast.walk(ast.parse(source.text)):
                if (
                    isinstance(node, ast.Constant)
                    and isinstance(node.value, str)
                    and "\n" in node.value
                ):
                    sources.append(Source(source.module, node.value))
    return sources


def corpus_sha256() -> str:
    """Return a digest that identifies the corpus: lower-case hex over every text, in order."""
    digest = hashlib.sha256()
    for source in sources():
        digest.update(f"{source.module}\0{source.text}\0".encode())
    return digest.hexdigest()


def select(modules: Sequence[str]) -> list[Source]:
    """Return the files of the named modules and packages. Raise ValueError for an unknown name."""
    chosen: dict[str, Source] = {}
    for name in modules:
        held = {
            source.module: source
            for source in files()
            if f"{source.module}.".startswith(f"{name}.")
        }
        if not held:
            raise ValueError(
                f"module {name!r} is not in the corpus; name one of the library, written in Python"
            )
        chosen |= held
    return [chosen[module] for module in sorted(chosen)]
