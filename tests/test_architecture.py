"""Modules that an import loads, and circles of imports.

The arrows between packages are contracts in pyproject.toml.
"""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = {
    "headlight": ROOT / "headlight",
    "headlight_service": ROOT / "service/headlight_service",
    "headlight_export": ROOT / "export/headlight_export",
    "headlight_model": ROOT / "model/headlight_model",
}
TRAINING_LIBRARIES = {"torch", "onnx", "onnxscript", "transformers", "safetensors"}
# Imports a package, or all of it except entry points, which would run; prints what is loaded then.
LOAD = """
import importlib, json, pkgutil, sys
package = importlib.import_module(sys.argv[1])
for module in pkgutil.walk_packages(package.__path__, sys.argv[1] + ".") if sys.argv[2:] else ():
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
print(json.dumps(sorted(sys.modules)))
"""


def loaded_by(*arguments: str) -> set[str]:
    command = [sys.executable, "-c", LOAD, *arguments]
    return set(
        json.loads(subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout)
    )


def test_importing_the_client_is_light() -> None:
    heavy = TRAINING_LIBRARIES | {"onnxruntime", "tokenizers", "matplotlib", "grpc"}
    assert loaded_by("headlight") & heavy == set()


@pytest.mark.parametrize("package", ["headlight", "headlight_service"])
def test_no_serving_module_loads_a_training_library(package: str) -> None:
    loaded = loaded_by(package, "all of it")
    assert loaded & TRAINING_LIBRARIES == set()
    assert {module_name(package, path) for path in PACKAGES[package].rglob("*.py")} - loaded <= {
        f"{package}.__main__"
    }, "a folder without __init__.py hides its modules from the installed package"


def test_the_core_of_the_service_loads_no_protocol() -> None:
    protocols = ("grpc", "headlight.pb", "headlight.wire", "headlight_service.frontends", "uvicorn")
    loaded = loaded_by("headlight_service.core", "all of it")
    assert {
        name for name in loaded if f"{name}.".startswith(tuple(f"{p}." for p in protocols))
    } == set()


def test_there_is_one_copy_of_the_stubs_and_no_python_beside_the_contracts() -> None:
    """Two copies clash in one process; `proto` would shadow the library of that name."""
    copies = {path.parent for folder in PACKAGES.values() for path in folder.rglob("*_pb2*.py")}
    assert copies == {ROOT / "headlight/pb"}
    assert list((ROOT / "proto").rglob("*.py")) == []


def module_name(package: str, path: Path) -> str:
    parts = (package, *path.relative_to(PACKAGES[package]).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def running(node: ast.AST) -> Iterator[ast.AST]:
    """Yield all nodes of code that runs: not those for types alone."""
    yield node
    for child in ast.iter_child_nodes(node):
        if not (isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING"):
            yield from running(child)


def imports(path: Path) -> set[str]:
    """Return what a file imports when it runs, at any depth of its code; by name, too."""
    names: set[str] = set()
    for node in running(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            names |= {f"{node.module}.{alias.name}" for alias in node.names} | {str(node.module)}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            names |= {str(each.value) for each in node.args if isinstance(each, ast.Constant)}
    return names


def test_there_are_no_circles_of_imports() -> None:
    """Imports for types alone may lead back: a protocol in their place repeats a class's face."""
    modules = {
        module_name(package, path): path
        for package, folder in PACKAGES.items()
        for path in folder.rglob("*.py")
        if path.name != "__init__.py"
    }
    TopologicalSorter(
        {name: imports(path) & set(modules) for name, path in modules.items()}
    ).prepare()
