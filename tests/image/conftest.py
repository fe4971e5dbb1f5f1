"""The installation by deploy/image/install.sh in a folder of its own.

The service is started from it as the image would start it.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from deploy.image.locked import IMAGE, ROOT
from tests import dockerfile

START_SECONDS = 60
BUNDLE = ROOT / "build" / "bundles" / "docs-rope"
USER = 10001
# Another user without capabilities, as in a pod of the restricted security standard.
AS_NOBODY = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", "--no-new-privs"]
AS_NOBODY += ["--inh-caps=-all", "--bounding-set=-all"]


@dataclass(frozen=True)
class Tree:
    """An installation: `root` stands for the image's /opt and holds a bundle besides."""

    root: Path

    @property
    def python(self) -> Path:
        return self.root / "venv" / "bin" / "python"

    @property
    def site(self) -> Path:
        (found,) = (self.root / "venv" / "lib").glob("python*/site-packages")
        return found

    def environment(self) -> dict[str, str]:
        """Return the image's environment, moved to this tree.

        Nothing of this process: no HOME, no PYTHONPATH.
        """
        final = dockerfile.stages(IMAGE / "Dockerfile")[-1]
        found: dict[str, str] = {}
        for instruction in dockerfile.of(final, "ENV"):
            found |= instruction.settings()
        moved = {name: value.replace("/opt/", f"{self.root}/") for name, value in found.items()}
        return moved | {"HEADLIGHT_BUNDLE": str(self.root / "bundle")}

    def run(self, *arguments: str) -> str:
        """Run the tree's Python as nobody, from /; return its standard output."""
        done = self.end(*arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def end(
        self, *arguments: str, environment: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run the tree's Python as nobody, from /, to its end; `environment`: variables to add."""
        return subprocess.run(
            [*as_nobody(), str(self.python), *arguments],
            cwd="/",
            env={**self.environment(), **(environment or {})},
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )

    @contextlib.contextmanager
    def served(
        self, *options: str, environment: Mapping[str, str] | None = None
    ) -> Iterator[tuple[str, int]]:
        """Run the image's ENTRYPOINT; yield target and process id. `environment`: to be added.

        Ends by the image's STOPSIGNAL, and must end cleanly.
        """
        final = dockerfile.stages(IMAGE / "Dockerfile")[-1]
        entry = dockerfile.of(final, "ENTRYPOINT")[0].words()
        command = [
            *as_nobody(),
            *entry,
            "--grpc",
            "127.0.0.1:0",
            "--metrics",
            "127.0.0.1:0",
            "--api",
            "127.0.0.1:0",
            *options,
        ]
        process = subprocess.Popen(
            command,
            cwd="/",
            env={**self.environment(), **(environment or {})},
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stderr is not None
        log: list[str] = []
        ports: queue.Queue[int | None] = queue.Queue()
        reader = threading.Thread(target=read_log, args=(process.stderr, log, ports), daemon=True)
        reader.start()
        try:
            port = ports.get(timeout=START_SECONDS)
            assert port, f"the service ended before it listened: {log[-5:]}"
            wait_until_serving(f"127.0.0.1:{port}")
            yield f"127.0.0.1:{port}", process.pid
        finally:
            process.terminate()
            process.wait(timeout=START_SECONDS)
            reader.join()
            process.stderr.close()
        assert process.returncode == 0, log[-5:]


def read_log(lines: IO[str], log: list[str], ports: queue.Queue[int | None]) -> None:
    """Keep every line; put the gRPC port when it is logged, and None at the end."""
    for line in lines:
        log.append(line)
        if '"listening"' in line:
            ports.put(json.loads(line)["grpc_port"])
    ports.put(None)


def as_nobody() -> list[str]:
    """Return the prefix that changes the user. Only root can become another user.

    Other users cannot write to the tree once its write bits are removed.
    """
    return AS_NOBODY if os.geteuid() == 0 else []


def wait_until_serving(target: str) -> None:
    with grpc.insecure_channel(target) as channel:
        watch = health_pb2_grpc.HealthStub(channel).Watch(
            health_pb2.HealthCheckRequest(), timeout=START_SECONDS, wait_for_ready=True
        )
        for answer in watch:
            if answer.status == health_pb2.HealthCheckResponse.SERVING:
                watch.cancel()
                return
    raise AssertionError("never became ready")


def interpreter() -> str:
    """Return Debian's Python, which the image has.

    Else the base of this environment, which another user may not be able to reach.
    """
    return shutil.which("python3", path="/usr/bin") or str(Path(sys.executable).resolve())


@pytest.fixture(scope="session")
def tree() -> Iterator[Tree]:
    with installed_tree("cpu") as made:
        yield made


@pytest.fixture(scope="session")
def bulk_tree() -> Iterator[Tree]:
    with installed_tree("bulk") as made:
        yield made


@pytest.fixture(scope="session")
def export_tree() -> Iterator[Tree]:
    with installed_tree("export") as made:
        yield made


@contextlib.contextmanager
def installed_tree(variant: str) -> Iterator[Tree]:
    """Install by the image's own script, with its digests.

    Outside the repository, where another user can read.
    """
    folder = Path(tempfile.mkdtemp(prefix="headlight-image-"))
    try:
        folder.chmod(0o755)
        environment = os.environ | {"PYTHON": interpreter(), "PIP": f"{sys.executable} -m pip"}
        done = subprocess.run(
            [IMAGE / "install.sh", variant, folder],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        shutil.copytree(BUNDLE, folder / "bundle")
        subprocess.run(
            ["chmod", "-R", "a+rX,a-w", folder / "bundle", folder / "venv", folder / "headlight"],
            check=True,
        )
        yield Tree(folder)
    finally:
        subprocess.run(["chmod", "-R", "u+w", folder], check=True)
        shutil.rmtree(folder)
