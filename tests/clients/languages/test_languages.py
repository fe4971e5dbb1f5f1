"""The examples in other languages, compiled and run. By `nox -s clients-languages`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from headlight import Client
from tests.system.processes import ROOT, Service

EXAMPLES = ROOT / "examples/languages"
PROTO = ROOT / "proto/headlight/v1/headlight.proto"
DEBIAN = Path("/usr/share/java")
JARS = "grpc-api grpc-context grpc-core grpc-stub grpc-protobuf grpc-protobuf-lite grpc-netty"
JARS += " protobuf guava perfmark-api geronimo-annotation-1.3-spec"
NEEDS = {
    "go": ("go",),
    "java": ("java", "javac"),
    "node": ("node", "npm"),
    "java-grpc": (
        *("java", "javac", "protoc", "grpc_java_plugin"),
        *("grpc-netty.jar", "netty-common.jar", "perfmark-api.jar"),
    ),
}
TEXT = 'join "two" paths\nof Zürich \N{GRINNING FACE}'
LONG = "word " * 1900  # takes longer than a deadline of a millisecond

Command = tuple[list[str], str]  # words without the last two arguments, and the address


def run(*words: str, cwd: Path) -> None:
    """Run a step of a build."""
    done = subprocess.run(words, cwd=cwd, capture_output=True, text=True, check=False, timeout=250)
    assert done.returncode == 0, done.stdout + done.stderr


def go(folder: Path, service: Service) -> Command:
    shutil.copy(EXAMPLES / "go/embed.go", folder)
    run("go", "vet", "embed.go", cwd=folder)
    run("go", "build", "-o", "embed", "embed.go", cwd=folder)
    return [str(folder / "embed")], f"http://{service.rest}"


def java(folder: Path, service: Service) -> Command:
    run("javac", "-Xlint:all", "-Werror", "-d", ".", str(EXAMPLES / "java/Embed.java"), cwd=folder)
    return ["java", "-cp", str(folder), "Embed"], f"http://{service.rest}"


def java_grpc(folder: Path, service: Service) -> Command:
    plugin = f"--plugin=protoc-gen-grpc-java={shutil.which('grpc_java_plugin')}"
    out = ("--java_out=.", "--grpc-java_out=.", plugin)
    run("protoc", f"-I{PROTO.parent}", *out, PROTO.name, cwd=folder)
    jars = [DEBIAN / f"{each}.jar" for each in JARS.split()]
    path = os.pathsep.join(map(str, [folder, *jars, *sorted(DEBIAN.glob("netty-*.jar"))]))
    sources = [str(each) for each in folder.rglob("*.java")]
    example = str(EXAMPLES / "java/EmbedGrpc.java")
    run("javac", "-nowarn", "-cp", path, "-d", ".", *sources, example, cwd=folder)
    return ["java", "-cp", path, "EmbedGrpc"], service.target


def node(folder: Path, service: Service) -> Command:
    copied = Path(shutil.copytree(EXAMPLES / "node", folder / "node"))
    run("npm", "ci", "--ignore-scripts", "--silent", "--no-audit", "--no-fund", cwd=copied)
    return ["node", str(copied / "embed.js"), str(PROTO)], service.target


BUILDS: dict[str, Callable[[Path, Service], Command]] = {
    "go": go,
    "java": java,
    "java-grpc": java_grpc,
    "node": node,
}


@pytest.fixture(scope="module", params=list(BUILDS))
def command(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, service: Service
) -> list[str]:
    """Return the command of an example, which takes a text and a deadline in seconds."""
    name = request.param
    needs = [str(ROOT / "tests/system/require.sh"), *NEEDS[name]]
    installed = subprocess.run(needs, capture_output=True, text=True, check=False, timeout=280)
    if installed.returncode != 0:
        pytest.skip(f"cannot be had: {name}: {installed.stderr.strip()[-200:]}")
    words, address = BUILDS[name](tmp_path_factory.mktemp(name), service)
    return [*words, address]


def done(command: list[str], text: str, seconds: str) -> subprocess.CompletedProcess[str]:
    words = [*command, text, seconds]
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)


def test_the_numbers_are_those_of_the_python_client(command: list[str], service: Service) -> None:
    answered = done(command, TEXT, "30")
    assert answered.returncode == 0, answered.stderr
    with Client(service.target) as client:
        [expected] = client.encode([TEXT])
    printed = np.array(json.loads(answered.stdout), np.float32)
    np.testing.assert_allclose(printed, expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("text", "seconds", "code"), [("", "30", "INVALID_ARGUMENT"), (LONG, "0.001", "DEADLINE")]
)
def test_an_error_ends_the_program_with_its_code(
    command: list[str], text: str, seconds: str, code: str
) -> None:
    refused = done(command, text, seconds)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr.startswith(code)
