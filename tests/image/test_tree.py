"""The installation that becomes the image.

It serves as nobody from files that nobody can write, and contains the locked packages and no more.
"""

from __future__ import annotations

import json
import os
import subprocess
import sysconfig
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest
from packaging.requirements import Requirement

import headlight
from deploy.image.locked import IMAGE, ROOT, canonical, read_lock, read_names, requirements_file
from headlight import Client
from headlight.runtime import Runtime
from tests.image.conftest import BUNDLE, USER, Tree

TEXTS = ["join two paths", "parse a date"]
UNWANTED = (
    "pip",
    "setuptools",
    "wheel",
    "torch",
    "onnx",
    "transformers",
    "huggingface_hub",
    "openvino_telemetry",
)
CYCLONEDX = ROOT / ".nox/release-tools" / "bin" / "cyclonedx-py"

# Modules of extras that the image does not have.
OTHERS = "__main__ .plot .adapters .archive .table_columns .text_column .cli.tables. headlight.ray"
# Imports every other module of the service; prints the unwanted modules found and where every
# loaded module comes from.
IMPORTS = """
import importlib, importlib.util, json, pkgutil, sys, headlight, openvino, headlight_service
for package in (headlight, headlight_service):
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if not any(part in module.name for part in sys.argv[1].split()):
            importlib.import_module(module.name)
files = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
unwanted = [name for name in sys.argv[2:] if importlib.util.find_spec(name)]
print(json.dumps([unwanted, [file for file in files if file], sys.path]))
"""


def pooled_here() -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    """What this environment's own engine makes of the texts: float32 [2, D]."""
    return Runtime(BUNDLE, threads=1, attend=False).encode(TEXTS)


def installed(tree: Tree) -> dict[str, metadata.Distribution]:
    return {canonical(found.name): found for found in metadata.distributions(path=[str(tree.site)])}


def files_of(tree: Tree) -> dict[str, tuple[int, int]]:
    """Return every file with its size and date."""
    found = ((path, path.lstat()) for path in tree.root.rglob("*"))
    return {str(path): (status.st_size, status.st_mtime_ns) for path, status in found}


def test_the_image_serves_as_nobody_and_changes_no_file(tree: Tree) -> None:
    before = files_of(tree)
    expected = pooled_here()
    with tree.served() as (target, process), Client(target) as client:
        np.testing.assert_allclose(client.encode(TEXTS), expected, atol=1e-6)
        assert client.attend("three words here").weights.ndim == 4
        status = Path(f"/proc/{process}/status").read_text(encoding="ascii")
        environment = (
            Path(f"/proc/{process}/environ").read_bytes().decode().rstrip("\0").split("\0")
        )
        mapped = {
            line.split(maxsplit=5)[5] for line in maps(process) if len(line.split(maxsplit=5)) == 6
        }
    assert "ORT_DISABLE_TELEMETRY=1" in environment
    assert not any(entry.startswith(("HOME=", "PYTHONPATH=")) for entry in environment)
    if os.geteuid() == 0:
        lines = dict(line.split(":\t", 1) for line in status.splitlines())
        assert lines["Uid"].split() == [str(USER)] * 4
        assert lines["Gid"].split() == [str(USER)] * 4
        assert int(lines["CapEff"], 16) == int(lines["CapBnd"], 16) == 0
        assert lines["NoNewPrivs"] == "1"
    libraries = {path for path in mapped if path.startswith("/") and ".so" in path}
    assert any("onnxruntime" in path for path in libraries)
    assert {
        path for path in libraries if not path.startswith((f"{tree.root}/", "/usr/lib", "/lib"))
    } <= of_python()
    assert files_of(tree) == before


def maps(process: int) -> list[str]:
    return Path(f"/proc/{process}/maps").read_text(encoding="utf-8").splitlines()


def of_python() -> set[str]:
    """Return the shared library of Python, if it is not Debian's."""
    library = Path(str(sysconfig.get_config_var("LIBDIR"))) / str(
        sysconfig.get_config_var("INSTSONAME")
    )
    return {str(library)}


def test_openvino_is_installed(tree: Tree) -> None:
    expected = pooled_here()
    with tree.served("--provider", "openvino") as (target, _), Client(target) as client:
        np.testing.assert_allclose(client.encode(TEXTS), expected, atol=1e-5)


def test_tracing_is_installed_and_a_missing_collector_is_harmless(
    tree: Tree,
) -> None:
    with (
        tree.served("--otlp-endpoint", "http://127.0.0.1:1") as (target, _),
        Client(target) as client,
    ):
        assert client.encode(TEXTS).shape == pooled_here().shape


def test_the_command_line_is_installed(tree: Tree) -> None:
    with tree.served() as (target, _):
        assert "docs-rope" in tree.run("-m", "headlight", "info", "--target", target)


def test_all_imports_come_from_the_tree_or_the_standard_library(tree: Tree) -> None:
    unwanted, files, path = json.loads(tree.run("-c", IMPORTS, OTHERS, *UNWANTED))
    assert unwanted == []
    standard = json.loads(
        tree.run("-c", 'import json, sysconfig; print(json.dumps(sysconfig.get_path("stdlib")))')
    )
    assert {f"{tree.root}/headlight", str(tree.site)} <= set(path)
    assert not any("dist-packages" in entry for entry in path)
    assert [file for file in files if not file.startswith((f"{tree.root}/", standard))] == []
    assert any(file.startswith(f"{tree.root}/headlight/headlight_service/") for file in files)


def test_the_tree_is_read_only_and_precompiled(tree: Tree) -> None:
    writable = [
        path
        for path in tree.root.rglob("*")
        if not path.is_symlink() and path.stat().st_mode & 0o022
    ]
    assert writable == []
    assert {
        path.name.removeprefix("python").strip("0123456789.")
        for path in (tree.root / "venv/bin").iterdir()
    } == {""}
    sources = [
        path for place in (tree.site, tree.root / "headlight") for path in place.rglob("*.py")
    ]
    assert len(sources) > 500
    tag = json.loads(
        tree.run("-c", "import json, sys; print(json.dumps(sys.implementation.cache_tag))")
    )
    compiled = {path: path.parent / "__pycache__" / f"{path.stem}.{tag}.pyc" for path in sources}
    assert [str(path) for path, cached in compiled.items() if not cached.exists()] == []
    # Flags: hash-based, and not checked at run time.
    unchecked = (1).to_bytes(4, "little")
    assert {cached.read_bytes()[4:8] for cached in compiled.values()} == {unchecked}


def test_installed_packages_are_the_locked_ones(tree: Tree) -> None:
    locked = read_lock(requirements_file("cpu"))
    assert {name: found.version for name, found in installed(tree).items()} == {
        name: pin.version for name, pin in locked.items()
    }
    left_out = set(read_names(IMAGE / "excluded.txt"))
    missing = set()
    for found in installed(tree).values():
        for requirement in map(Requirement, found.requires or ()):
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                missing |= {canonical(requirement.name)} - set(locked)
    assert missing == left_out, (
        "what is asked for and not there is what excluded.txt names, and no more"
    )


def test_a_file_with_another_digest_is_refused(tree: Tree, tmp_path: Path) -> None:
    image = tmp_path / "deploy" / "image"
    image.mkdir(parents=True)
    script = image / "install.sh"
    script.write_bytes((IMAGE / "install.sh").read_bytes())
    script.chmod(0o755)
    version = read_lock(requirements_file("cpu"))["typing-extensions"].version
    pin = f"typing-extensions=={version} --hash=sha256:{'0' * 64}\n"
    (image / "requirements-cpu.txt").write_text(pin, encoding="utf-8")
    done = subprocess.run(
        [script, "cpu", tmp_path / "out"],
        env=os.environ | {"PYTHON": str(tree.python), "PIP": f"{ROOT / '.venv/bin/python'} -m pip"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert "DO NOT MATCH THE HASHES" in done.stderr


def test_the_bill_of_materials_is_complete_and_reproducible(tree: Tree, tmp_path: Path) -> None:
    written = []
    for name in ("once", "twice"):
        subprocess.run(
            [IMAGE / "sbom.sh", CYCLONEDX, tree.python, tmp_path / name],
            check=True,
            capture_output=True,
        )
        written.append((tmp_path / name).read_bytes())
    assert written[0] == written[1]
    bill = json.loads(written[0])
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    component = bill["metadata"]["component"]
    assert (component["name"], component["version"]) == ("headlight-serving", headlight.__version__)
    listed = {canonical(part["name"]): part for part in bill["components"]}
    assert {name: part["version"] for name, part in listed.items()} == {
        name: found.version for name, found in installed(tree).items()
    }
    assert str(tree.root) not in written[0].decode(), "a path of the machine that wrote it"


@pytest.mark.parametrize(
    "file", ["LICENSE", "NOTICE", "headlight/web", "headlight_service/__main__.py"]
)
def test_headlight_files_are_installed(tree: Tree, file: str) -> None:
    assert (tree.root / "headlight" / file).exists()
