"""Sources of the packages that constraints.txt pins, as they are installed. Needs no torch.

`python -m headlight_model.train.data.packages` writes the manifest of the corpus: names, versions,
licences, digests and counts. None of the text is in the repository.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import platform
import re
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

from headlight_model.texts import corpus
from headlight_model.texts.corpus import STDLIB, Source

CONSTRAINTS = Path(__file__).parents[4] / "constraints.txt"
MANIFEST = Path(__file__).with_name("corpus.json")
# Folders of tests, or of copies of other packages.
LEFT_OUT = frozenset(
    (
        "test",
        "tests",
        "testing",
        "vendor",
        "_vendor",
        "vendored",
        "_vendored",
        "third_party",
        "_thirdparty",
    )
)
LONGEST = 400_000  # characters; longer files are tables


@dataclasses.dataclass(frozen=True)
class Package:
    """One installed distribution."""

    name: str  # in its normal form: lower case, dashes
    version: str
    licence: str
    files: tuple[tuple[str, Path], ...]  # (dotted module, file), sorted


def pinned(constraints: Path = CONSTRAINTS) -> list[str]:
    """Return the names in a constraints file, in their normal form, sorted."""
    lines = constraints.read_text(encoding="utf-8").splitlines()
    names = (line.partition("==")[0].strip() for line in lines if "==" in line and line[0] != "#")
    return sorted(re.sub(r"[-_.]+", "-", name).lower() for name in names)


def package(name: str) -> Package | None:
    """Return the installed distribution of that name.

    None if there is none, or it holds no source.
    """
    try:
        distribution = metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return None
    files = []
    for file in distribution.files or ():
        if file.suffix == ".py" and ".." not in file.parts and LEFT_OUT.isdisjoint(file.parts):
            parts = file.with_suffix("").parts
            module = ".".join(part for part in parts if part != "__init__")
            files.append((module, Path(str(file.locate()))))
    if not files:
        return None
    return Package(name, distribution.version, licence(distribution), tuple(sorted(files)))


def licence(distribution: metadata.Distribution) -> str:
    """Return the licence as the distribution's metadata names it."""
    about = distribution.metadata.json
    stated = str(about.get("license_expression") or about.get("license") or "").strip()
    if stated and "\n" not in stated:
        return stated
    kinds = (str(line) for line in about.get("classifier", ()))
    return ", ".join(kind.rpartition(" :: ")[2] for kind in kinds if kind.startswith("License"))


def read(chosen: Package) -> list[Source]:
    """Return the texts of a package, without files that are not UTF-8 or too long."""
    sources = []
    for module, path in chosen.files:
        try:
            text = path.read_text(encoding="utf-8")
        except (UnicodeDecodeError, FileNotFoundError):
            continue
        if 0 < len(text) <= LONGEST:
            sources.append(Source(module, text, chosen.name))
    return sources


@functools.cache
def packages() -> tuple[Package, ...]:
    """Return the pinned packages that are installed here."""
    return tuple(found for found in map(package, pinned()) if found)


@functools.cache
def sources() -> tuple[Source, ...]:
    """Return the packages' texts, each once.

    Of equal texts the first is kept. Test packages come first, so no test text is trained on.
    """
    parts = {part: place for place, part in enumerate(reversed(corpus.Part))}
    ordered = sorted(packages(), key=lambda each: parts[corpus.part_of_package(each.name)])
    distinct: dict[str, Source] = {}
    for source in (source for each in ordered for source in read(each)):
        distinct.setdefault(hashlib.sha256(source.text.encode()).hexdigest(), source)
    return tuple(distinct.values())


def everything(with_packages: bool) -> tuple[Source, ...]:
    """Return the standard library, followed by the packages if `with_packages`."""
    return (*corpus.sources(), *(sources() if with_packages else ()))


def digest(texts: Iterable[Source]) -> str:
    """Return lower-case hex that identifies some texts in their order."""
    sha256 = hashlib.sha256()
    for source in texts:
        sha256.update(f"{source.module}\0{source.text}\0".encode())
    return sha256.hexdigest()


def manifest() -> dict[str, object]:
    """Return the manifest of the corpus, by package."""
    licences = {each.name: (each.version, each.licence) for each in packages()}
    licences[STDLIB] = (platform.python_version(), "PSF-2.0")
    held: dict[str, list[Source]] = {}
    for source in everything(with_packages=True):
        held.setdefault(source.package, []).append(source)
    listed = []
    for name in sorted(held):
        split = "by module" if name == STDLIB else corpus.part_of_package(name).value
        entry = {
            "name": name,
            "version": licences[name][0],
            "licence": licences[name][1],
            "part": split,
        }
        counts = {"files": len(held[name]), "characters": sum(len(s.text) for s in held[name])}
        listed.append({**entry, **counts, "sha256": digest(held[name])})
    return {"sha256": digest(everything(with_packages=True)), "packages": listed}


if __name__ == "__main__":
    MANIFEST.write_text(json.dumps(manifest(), indent=1) + "\n", encoding="utf-8")
