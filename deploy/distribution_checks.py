"""Checks of the source archive and the wheel: their contents, and their installation."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tempfile
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
PINS = Path(__file__).resolve().parents[1] / "constraints.txt"


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


def installs(archive: Path, version: str, extra: str = "") -> list[str]:
    """Install an archive into an empty environment and run it there; return what is wrong."""
    with tempfile.TemporaryDirectory() as folder:
        environment = Path(folder)
        _run(sys.executable, "-m", "venv", "--without-pip", environment)
        pip = (sys.executable, "-m", "pip", "--python", environment / "bin/python")
        wanted = f"{archive.absolute()}[{extra}]" if extra else archive.absolute()
        done = _run(*pip, "install", "--quiet", "--constraint", PINS, wanted)
        if done.returncode:
            return [f"{archive.name}: pip install failed: {done.stderr.strip()[-500:]}"]
        commands: dict[tuple[str, ...], str] = {("--version",): f"headlight {version}\n"}
        if extra == "serve":
            commands["serve", "--help"] = "usage: headlight serve "
        problems = []
        for command, expected in commands.items():
            done = _run(environment / "bin/headlight", *command)
            if done.returncode or done.stderr or not done.stdout.startswith(expected):
                said = (done.stdout + done.stderr).strip()[-500:]
                problems.append(f"{archive.name}: headlight {' '.join(command)}: {said}")
        return problems


def _run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a command outside of the repository, whose folders must not help."""
    words = [str(word) for word in command]
    return subprocess.run(words, cwd="/", capture_output=True, text=True, check=False)
