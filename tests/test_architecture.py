"""The arrows of the design: who may import whom, and what a serving process never loads."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("headlight", "service", "model", "export", "bench", "deploy")
TRAINING_LIBRARIES = {"torch", "onnx", "onnxscript", "transformers", "safetensors"}

# Which modules of this repository a module may import; the longest matching prefix decides.
ALLOWED = {
    "headlight": ("headlight",),
    # Inference without a server: plain values, and nothing of the client, the wire or the command line.
    "headlight.runtime": ("headlight.runtime", "headlight.errors", "headlight.results", "headlight.spec"),
    "service": (
        "service",
        "headlight.runtime",
        "headlight.pb",
        "headlight.errors",
        "headlight.results",
        "headlight.pem",
        "headlight.watched",
        "headlight.priority",
        "headlight.spec",
        "headlight.wire",
        "headlight.wire_vectors",
    ),
    "model": ("model",),
    "model.demo": ("model", "headlight"),  # shows the running service, so it calls it as a client
    "export": ("export", "model", "headlight.runtime", "headlight.errors", "headlight.spec"),
    "bench": PACKAGES,
    "deploy": (
        "deploy",
        "service",
        "headlight.runtime",
    ),  # manifests are compared with what the service takes and tells
}

# Imports every module of a package except entry points, which would run; prints those and all that is loaded then.
WALK = """
import importlib, json, pkgutil, sys
package = importlib.import_module(sys.argv[1])
names = [sys.argv[1]]
names += [m.name for m in pkgutil.walk_packages(package.__path__, sys.argv[1] + ".") if not m.name.endswith("__main__")]
for name in names:
    importlib.import_module(name)
print(json.dumps([names, sorted(sys.modules)]))
"""
IMPORT = (
    "import json, sys, importlib; importlib.import_module(sys.argv[1]); print(json.dumps([[], sorted(sys.modules)]))"
)


def loaded_by(program: str, package: str) -> tuple[list[str], set[str]]:
    """Run `program` in a fresh interpreter -> the modules it walked, and every module it loaded."""
    done = subprocess.run(
        [sys.executable, "-c", program, package], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    walked, loaded = json.loads(done.stdout)
    return walked, set(loaded)


def python_files(package: str) -> list[Path]:
    files = sorted((ROOT / package).rglob("*.py"))
    assert files, f"no Python under {package}/: the architecture has lost a room"
    return files


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def own_imports(path: Path) -> set[str]:
    """The modules of this repository that a file imports, at any depth of its code."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return {name for name in found if name.split(".")[0] in (*PACKAGES, "tests")}


def under(name: str, prefix: str) -> bool:
    return name == prefix or name.startswith(prefix + ".")


def allowed_for(module: str) -> tuple[str, ...]:
    return ALLOWED[max((prefix for prefix in ALLOWED if under(module, prefix)), key=len)]


def test_importing_the_client_is_light() -> None:
    _, loaded = loaded_by(IMPORT, "headlight")
    assert (
        loaded & (TRAINING_LIBRARIES | {"onnxruntime", "tokenizers", "matplotlib", "service", "model", "export"})
        == set()
    )


@pytest.mark.parametrize("package", ["headlight", "service"])
def test_no_serving_module_loads_a_training_library(package: str) -> None:
    walked, loaded = loaded_by(WALK, package)
    expected = {module_name(path) for path in python_files(package) if path.name != "__main__.py"}
    assert set(walked) == expected, "a folder without __init__.py hides its modules from the installed package"
    assert loaded & TRAINING_LIBRARIES == set()
    assert "onnxruntime" in loaded  # else the walk has not been where it matters


@pytest.mark.parametrize("package", PACKAGES)
def test_imports_follow_the_arrows(package: str) -> None:
    wrong = {
        f"{module_name(path)} -> {name}"
        for path in python_files(package)
        for name in own_imports(path)
        if not any(under(name, prefix) for prefix in allowed_for(module_name(path)))
    }
    assert wrong == set()


def test_the_contract_holds_no_python() -> None:
    """An importable `proto` would shadow the library of that name."""
    assert (ROOT / "proto/headlight/v1/headlight.proto").is_file()
    assert list((ROOT / "proto").rglob("*.py*")) == []


def test_there_is_one_copy_of_the_stubs() -> None:
    """Two in one process clash."""
    copies = {path.parent for package in PACKAGES for path in (ROOT / package).rglob("*_pb2*.py")}
    assert copies == {ROOT / "headlight/pb"}
