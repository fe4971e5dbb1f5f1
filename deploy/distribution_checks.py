"""Checks of the contents of the source archive and the wheel."""

from __future__ import annotations

import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

SHIPPED = "docs-rope"
IMPORTED = ("headlight", "headlight_service", "headlight_export", "headlight_model")
EXPECTED = (
    *(f"{package}/{name}" for package in IMPORTED for name in ("__init__.py", "py.typed")),
    "headlight/pb/headlight_pb2.pyi",
    "headlight/proto/headlight/v1/headlight.proto",
    "headlight/web/page.html",
    "headlight_model/texts/corpus.py",
    "headlight/web/live/page.html",
    "headlight_service/frontends/oip/inference_messages.binpb",
    f"headlight_model/checkpoints/{SHIPPED}/model.safetensors",
    f"headlight_model/bundles/{SHIPPED}/manifest.json",
    "LICENSE",
    "NOTICE",
)
SOURCES = ("service", "export", "model")  # folders of the source archive that hold a package
# Files beside the packages.
METADATA = {"LICENSE", "NOTICE", "PKG-INFO", "README.md", "pyproject.toml", "setup.cfg"}
MOST_BYTES = 30 << 20


def contents(archive: Path) -> Iterator[str]:
    """Yield what an archive lacks, and what it must not hold."""
    if archive.suffix == ".whl":
        found = zipfile.ZipFile(archive).namelist()
    else:
        with tarfile.open(archive) as opened:
            found = [each.name.partition("/")[2] for each in opened if each.isfile()]
    names = {_place(name) for name in found}
    yield from (f"{archive.name}: {name} is missing" for name in EXPECTED if name not in names)
    for name in sorted(names):
        first, *rest = name.split("/")
        stranger = first not in IMPORTED if rest else first not in METADATA
        if stranger or name.endswith(".pyc") or "__pycache__" in rest:
            yield f"{archive.name}: {name} does not belong there"
        if first == "headlight_model" and rest[:1] in (["train"], ["evaluate"]):
            yield f"{archive.name}: {name} is for work in a checkout"
        if rest[:1] in (["checkpoints"], ["bundles"]) and rest[1] != SHIPPED:
            yield f"{archive.name}: {name} is of a model that is not shipped"
    if (size := archive.stat().st_size) > MOST_BYTES:
        yield f"{archive.name}: {size} bytes; at most {MOST_BYTES} are expected"


def _place(name: str) -> str:
    """Return the place of a file in an installation: the archives differ in their folders."""
    first, _, rest = name.partition("/")
    if first in SOURCES:
        return _place(rest)
    if first.endswith((".dist-info", ".egg-info")):
        licence = name.rpartition("/licenses/")[2]
        return licence if licence != name else "PKG-INFO"
    return name
