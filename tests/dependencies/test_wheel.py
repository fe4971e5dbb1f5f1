"""The wheel in an environment of its own, away from the repository.

The client alone, the service, the exporter.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from deploy.distribution import Archives, absolute, build, contents
from headlight.extras import remedy
from tests.shipped import DIM
from tests.system.conftest import bundle_of
from tests.system.processes import ROOT, Service, by_hand

pytestmark = pytest.mark.xdist_group("wheel")  # which one process builds
# Dependencies of a client: the three it declares, and those of grpcio.
CLIENT_ONLY = {"headlight-serving", "grpcio", "protobuf", "numpy", "typing-extensions"}
CALL = """
import sys, headlight
assert not {"onnxruntime", "tokenizers", "torch", "matplotlib"} & set(sys.modules)
with headlight.Client(sys.argv[1]) as client:
    print(client.encode(["one", "two words"]).shape, client.attend("three").weights.ndim)
"""
CONSTRAINED = ("--constraint", str(ROOT / "constraints.txt"))
ENDS = {"lowest": ("grpcio==1.76.0", "protobuf==6.31.1"), "pinned": CONSTRAINED}
# Without variables that would make a checkout visible.
CLEAN = {
    name: value
    for name, value in os.environ.items()
    if not name.startswith(("HEADLIGHT_", "PYTHON"))
}


def call(*command: str | Path) -> str:
    """Run a command to its end, outside the repository; return standard output."""
    done = subprocess.run(
        [str(word) for word in command], cwd="/", capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def refused(*command: str | Path, environment: dict[str, str] | None = None) -> str:
    """Run a command that must end with wrong usage; return its one line on standard error."""
    done = subprocess.run(
        [str(word) for word in command],
        cwd="/",
        env=environment or CLEAN,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr
    return done.stderr


class Environment:
    """Virtual environment with the wheel and some of its extras."""

    def __init__(self, folder: Path, wheel: Path, extras: str, *more: str) -> None:
        call(sys.executable, "-m", "venv", "--without-pip", folder)
        self.python, self.command = folder / "bin" / "python", folder / "bin" / "headlight"
        # Installing pip would take longer than all the rest.
        self.pip = (sys.executable, "-m", "pip", "--python", str(self.python))
        call(*self.pip, "install", "--quiet", f"{wheel}{extras}", *more)

    def package(self, name: str) -> Path:
        """Return the folder of an import package."""
        found = f"import importlib.util; print(importlib.util.find_spec({name!r}).origin)"
        return Path(call(self.python, "-I", "-c", found).strip()).parent


@pytest.fixture(scope="module")
def rope() -> Iterator[Service]:
    with Service(bundle_of("docs-rope")) as service:
        yield service


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> Archives:
    return build(tmp_path_factory.mktemp("wheel"), bundle_of("docs-rope"))


@pytest.fixture(scope="module")
def wheel(archives: Archives) -> Path:
    return archives.wheel


@pytest.fixture(scope="module")
def install(tmp_path_factory: pytest.TempPathFactory, wheel: Path) -> Callable[..., Environment]:
    def made(extras: str, *more: str) -> Environment:
        return Environment(tmp_path_factory.mktemp("environment"), wheel, extras, *more)

    return made


def test_wheel_and_source_archive_hold_four_packages_and_one_model(archives: Archives) -> None:
    for archive in archives:
        assert list(contents(archive)) == []
    names = set(zipfile.ZipFile(archives.wheel).namelist())
    web = [path for path in (ROOT / "headlight/web").rglob("*.*") if path.suffix != ".pyc"]
    assert {path.relative_to(ROOT).as_posix() for path in web} <= names
    bundle = {path.name for path in bundle_of("docs-rope").iterdir()}
    assert {f"headlight_model/bundles/docs-rope/{name}" for name in bundle} <= names


def test_relative_links_become_absolute_if_an_address_is_known() -> None:
    text = "[a](docs/a.md) ![b](docs/b.png) [c](https://c.example/d) [d](#there)"
    assert absolute(text, "") == text
    assert absolute(text, "https://e.example/x/") == (
        "[a](https://e.example/x/docs/a.md) ![b](https://e.example/x/docs/b.png) "
        "[c](https://c.example/d) [d](#there)"
    )


@pytest.mark.parametrize("end", sorted(ENDS))
def test_a_bare_install_is_light_and_gets_answers_without_a_warning(
    end: str, install: Callable[..., Environment], tmp_path: Path, rope: Service
) -> None:
    bare = install("", *ENDS[end])
    listed = json.loads(call(*bare.pip, "list", "--format=json"))
    assert {entry["name"].lower().replace("_", "-") for entry in listed} == CLIENT_ONLY
    assert call(bare.python, "-W", "error", "-c", CALL, rope.target).strip() == f"(2, {DIM}) 4"
    assert "embed" in call(bare.command, "--help")
    page = tmp_path / "page.html"
    call(bare.command, "attend", "three words here", "--target", rope.target, "--html", page)
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    for part, extra in (("serve", "serve"), ("export", "export")):
        assert remedy(extra) in refused(bare.command, part, "--bundle", "x")
    runtime = subprocess.run(
        [bare.python, "-c", "import headlight.runtime"],
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )
    assert runtime.stderr.splitlines()[-1].endswith(remedy("runtime"))


def serves_correctly(environment: Environment, variables: dict[str, str] | None = None) -> None:
    """Serve the shipped model and check an answer."""
    program = (str(environment.command),)
    serving = by_hand(
        bundle=None,
        stderr=subprocess.DEVNULL,
        program=program,
        cwd=Path("/"),
        environment=variables or CLEAN,
        seconds=300,
    )
    with serving as (_, target, _):
        said = call(environment.python, "-W", "error", "-c", CALL, target)
        assert said.strip() == f"(2, {DIM}) 4"


def test_with_serve_the_shipped_model_is_served_without_torch(
    install: Callable[..., Environment], tmp_path: Path
) -> None:
    serve = install("[serve]", *CONSTRAINED)
    listed = json.loads(call(*serve.pip, "list", "--format=json"))
    names = {entry["name"].lower() for entry in listed}
    assert "onnxruntime" in names
    assert not {"torch", "onnx", "transformers"} & names
    serves_correctly(serve)
    assert remedy("export") in refused(serve.command, "export", "x", "--out", "y")
    shutil.rmtree(serve.package("headlight_model") / "bundles")  # as in a wheel from a bare clone
    empty = CLEAN | {"XDG_CACHE_HOME": str(tmp_path)}
    says = refused(serve.command, "serve", "--check", environment=empty)
    assert remedy("serve,export") in says


def test_with_export_a_wheel_without_a_bundle_exports_its_checkpoint_and_serves_it(
    install: Callable[..., Environment], tmp_path: Path
) -> None:
    both = install("[serve,export]", *CONSTRAINED)
    shutil.rmtree(both.package("headlight_model") / "bundles")
    cached = CLEAN | {"XDG_CACHE_HOME": str(tmp_path)}
    serves_correctly(both, cached)
    (manifest,) = tmp_path.rglob("manifest.json")
    before = manifest.stat().st_mtime_ns
    serves_correctly(both, cached)
    assert manifest.stat().st_mtime_ns == before, "exported once"


def test_serving_and_exporting_on_a_gpu_brings_one_onnxruntime(wheel: Path, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    wanted = (f"{wheel}[serve-gpu,export]", *CONSTRAINED)
    call(
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--dry-run",
        "--ignore-installed",
        "--report",
        report,
        *wanted,
    )
    names = {
        re.sub(r"[-_.]+", "-", each["metadata"]["name"]).lower()
        for each in json.loads(report.read_text())["install"]
    }
    assert {name for name in names if name.startswith("onnxruntime")} == {"onnxruntime-gpu"}
    assert {"torch", "tokenizers", "grpcio-health-checking"} <= names


@pytest.mark.parametrize("version", ["3.12", "3.13", "3.14"])
def test_newer_pythons_have_wheels_for_all_serving_dependencies(
    wheel: Path, tmp_path: Path, version: str
) -> None:
    """Resolved, not run."""
    options = ("--only-binary=:all:", "--python-version", version, "--dest", tmp_path)
    call(
        sys.executable,
        "-m",
        "pip",
        "download",
        "--quiet",
        *options,
        f"{wheel}[serve]",
        *CONSTRAINED,
    )
    assert any(path.name.startswith("onnxruntime-") for path in tmp_path.iterdir())
