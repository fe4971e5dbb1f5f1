"""What `pip install .` brings to a stranger's environment: the client alone, at both ends of the ranges it declares."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.system.processes import ROOT, Service

# What a client depends on: the three it names, and what grpcio itself asks for.
CLIENT_ONLY = {"headlight-serving", "grpcio", "protobuf", "numpy", "typing-extensions"}
CALL = """
import sys, headlight
assert not {"onnxruntime", "tokenizers", "torch", "matplotlib"} & set(sys.modules)
with headlight.Client(sys.argv[1]) as client:
    print(client.encode(["one", "two words"]).shape, client.attend("three").weights.ndim)
"""
ENDS = {"lowest": ("grpcio==1.76.0", "protobuf==6.31.1"), "pinned": ("--constraint", str(ROOT / "constraints.txt"))}


def call(*command: str | Path) -> str:
    """Run to its end, outside the repository, whose folders must not help -> standard output."""
    done = subprocess.run([str(word) for word in command], cwd="/", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy: building leaves files behind in the source tree."""
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for name in ("pyproject.toml", "README.md", "LICENSE", "NOTICE"):
        shutil.copy(ROOT / name, source)
    for name in ("headlight", "service", "model", "export"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    call(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", out, source)
    (built,) = out.glob("*.whl")
    return built


def test_the_wheel_holds_four_packages_with_their_types_and_one_checkpoint(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    packages = {"headlight", "headlight_service", "headlight_export", "headlight_model"}
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == packages
    assert {f"{package}/py.typed" for package in packages} | {"headlight/pb/headlight_pb2.pyi"} <= set(names)
    assert {name.split("/")[2] for name in names if name.startswith("headlight_model/checkpoints/")} == {"docs-rope"}
    assert {f"headlight/web/{path.name}" for path in (ROOT / "headlight/web").iterdir()} <= set(names)
    assert {Path(name).name for name in names if "/licenses/" in name} == {"LICENSE", "NOTICE"}


@pytest.mark.parametrize("end", sorted(ENDS))
def test_a_bare_install_is_light_and_gets_answers_without_a_warning(
    end: str, wheel: Path, tmp_path: Path, rope: Service
) -> None:
    call(sys.executable, "-m", "venv", "--without-pip", tmp_path)
    python = tmp_path / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--python", python)  # one of its own would take longer than all the rest
    call(*pip, "install", "--quiet", wheel, *ENDS[end])
    listed = json.loads(call(*pip, "list", "--format=json"))
    assert {entry["name"].lower().replace("_", "-") for entry in listed} == CLIENT_ONLY
    assert call(python, "-W", "error", "-c", CALL, rope.target).strip() == "(2, 288) 4"
    assert "embed" in call(tmp_path / "bin" / "headlight", "--help")
    page = tmp_path / "page.html"
    call(tmp_path / "bin" / "headlight", "attend", "three words here", "--target", rope.target, "--html", page)
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
