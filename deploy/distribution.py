"""python -m deploy.distribution OUT [--bundle FOLDER]: source archive, wheel and release notes.

With `--bundle` both archives hold the shipped model as a bundle, ready to be served. Nothing is
published.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

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
        files = zipfile.ZipFile(archive).namelist()
    else:
        with tarfile.open(archive) as opened:
            files = [each.name.partition("/")[2] for each in opened if each.isfile()]
    names = {_place(name) for name in files}
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


ROOT = Path(__file__).resolve().parent.parent
FILES = ("pyproject.toml", "README.md", "LICENSE", "NOTICE")
PACKAGES = (
    "headlight",
    "service/headlight_service",
    "export/headlight_export",
    "model/headlight_model",
)
# Below model/headlight_model: for work in a checkout. The bundle of the shipped model is put there.
LEFT_OUT = (
    "bundles",
    "checkpoints/docs-rerank",
    "checkpoints/docs-sinusoidal",
    "train",
    "evaluate",
)
RELATIVE_LINK = re.compile(r"\]\((?![a-z]+:|#)([^)]+)\)")
SECTION = re.compile(r"^## \[(.+?)\].*?$(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)


class Archives(NamedTuple):
    """Paths of what `pip install` takes."""

    sdist: Path
    wheel: Path


def absolute(text: str, address: str) -> str:
    """Return Markdown with relative links made absolute by the project's address, if it has one."""
    return RELATIVE_LINK.sub(rf"]({address.rstrip('/')}/\1)", text) if address else text


def build(out: Path, bundle: Path | None = None) -> Archives:
    """Build the source archive, and the wheel from it.

    It is built from a copy, because building leaves files behind in the source tree.

    Args:
        out: folder of both; earlier ones there are removed.
        bundle: of the shipped model; None: the archives have its checkpoint alone.

    Raises:
        RuntimeError: the build failed; the message has its last lines.
    """
    for old in out.glob("headlight_serving-*"):
        old.unlink()
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder)
        for name in FILES:
            shutil.copy(ROOT / name, source)
        for name in PACKAGES:
            shutil.copytree(
                ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__")
            )
        for name in LEFT_OUT:
            shutil.rmtree(source / "model/headlight_model" / name, ignore_errors=True)
        readme = source / "README.md"
        readme.write_text(absolute(readme.read_text(encoding="utf-8"), address()), encoding="utf-8")
        if bundle is not None:
            shutil.copytree(bundle, source / "model/headlight_model/bundles" / SHIPPED)
        command = [sys.executable, "-m", "build", "--outdir", str(out.absolute()), folder]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"the build failed: {(done.stdout + done.stderr)[-2000:]}")
    (sdist,), (wheel,) = out.glob("*.tar.gz"), out.glob("*.whl")
    return Archives(sdist, wheel)


def address() -> str:
    """Return the address of the project; empty: not known yet."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return str(settings["tool"]["headlight"]["address"])


def release_notes(changelog: str, version: str, address: str = "") -> str:
    """Return the newest section of the changelog that says anything, as a page.

    Raises:
        ValueError: no section says anything.
    """
    for name, text in SECTION.findall(changelog):
        if text.strip():
            title = version if name == version else f"{name}, after {version}"
            return f"# Headlight {title}\n\n{absolute(text.strip(), address)}\n"
    raise ValueError("CHANGELOG.md has no section with content")


def main() -> int:
    """Build, check and write the notes; print a line for each. Return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m deploy.distribution", description=__doc__)
    parser.add_argument("out", type=Path, help="folder of the archives and of NOTES.md")
    parser.add_argument(
        "--bundle", type=Path, help="of the shipped model, to be put into the archives"
    )
    options = parser.parse_args()
    archives = build(options.out, options.bundle)
    version = archives.wheel.name.split("-")[1]
    notes = options.out / "NOTES.md"
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    notes.write_text(release_notes(changelog, version, address()), encoding="utf-8")
    for path in (*archives, notes):
        sys.stdout.write(f"{path}: {path.stat().st_size / 1e6:.1f} MB\n")
    problems = [line for path in archives for line in contents(path)]
    sys.stdout.write("".join(f"FAILED  {line}\n" for line in problems) or "contents: ok\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
