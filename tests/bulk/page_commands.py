"""Commands of pages that cannot run as written on one machine without a cluster.

kubectl renders and reads files instead of sending them. ray starts nodes beside each other on
loopback, and stops no others. Run as `python -m tests.bulk.page_commands NAME ARGUMENT...`.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import yaml

from tests.ports import free_port

NODES = Path("ray-nodes")  # process ids, below the folder of the page
RAY = (sys.executable, "-m", "ray.scripts.scripts")
START_SECONDS, STOP_SECONDS = 60.0, 20.0
STARTS = 3  # Ray itself gives up after 30 s, which a busy machine may need


def write_commands(folder: Path, root: Path) -> None:
    """Write the commands of a page into a folder for PATH."""
    folder.mkdir()
    ours = f"{sys.executable} -m tests.bulk.page_commands"
    commands = {
        "python": sys.executable,
        "headlight": f"{sys.executable} -m headlight",
        "kubectl": f"{ours} kubectl",
        "ray": f"{ours} ray",
    }
    for name, command in commands.items():
        path = folder / name
        path.write_text(f'#!/bin/sh\nexec {command} "$@"\n', encoding="utf-8")
        path.chmod(0o755)
    for name in ("build", "deploy", "examples"):
        (folder.parent / name).symlink_to(root / name)


def kubectl(arguments: Sequence[str]) -> int:
    """Render or read what would be sent; refuse commands that are not known to be right."""
    match arguments:
        case ["apply", "-k", folder]:
            return real_kubectl("kustomize", folder)
        case ["apply", "-f", file]:
            manifests = list(yaml.safe_load_all(Path(file).read_text(encoding="utf-8")))
            print(*(f"{each['kind']}/{each['metadata']['name']}" for each in manifests))
            return 0
        case ["create", "configmap", *_]:
            return real_kubectl(*arguments, "--dry-run=client", "-o", "yaml")
        case ["get", _, _, "-w"] | ["-n", _, "get", _, _, "-w"]:
            return 0
    print(f"kubectl {' '.join(arguments)}: is not known here", file=sys.stderr)
    return 2


def real_kubectl(*arguments: str) -> int:
    """Run kubectl, of the next folder of PATH that has it."""
    folders = os.environ["PATH"].partition(":")[2]
    found = shutil.which("kubectl", path=folders)
    assert found is not None, "kubectl is missing"
    return subprocess.run([found, *arguments], check=False).returncode


def ray(arguments: Sequence[str]) -> int:
    """Start a node on loopback, or stop the nodes of this page."""
    match arguments:
        case ["start", *options]:
            start_node(options)
            return 0
        case ["stop"]:
            stop_nodes(Path())
            return 0
    print(f"ray {' '.join(arguments)}: is not known here", file=sys.stderr)
    return 2


def start_node(options: Sequence[str]) -> None:
    """Start a node with the options of the page, and wait for it."""
    command = [*RAY, "start", *options, "--block", "--node-ip-address", "127.0.0.1"]
    for name in ("--metrics-export-port", "--dashboard-agent-listen-port"):
        command += [name, str(free_port())]
    NODES.mkdir(exist_ok=True)
    if "--head" in options:  # paths of Unix sockets must be short
        folder = tempfile.mkdtemp(prefix="hl", dir="/tmp")
        (NODES / "session").symlink_to(folder)
        command += ["--include-dashboard=false", "--temp-dir", folder]
    text = ""
    for _ in range(STARTS):
        log = NODES / f"log-{len(list(NODES.iterdir()))}"
        with log.open("wb") as file:
            node = subprocess.Popen(command, stdout=file, stderr=file, start_new_session=True)
        (NODES / f"{node.pid}.pid").touch()
        end = time.monotonic() + START_SECONDS
        while node.poll() is None and time.monotonic() < end:
            if "Ray runtime started" in (text := log.read_text(errors="replace")):
                return
            time.sleep(0.1)
    raise SystemExit(f"the node did not start: {text[-2000:]}")


def stop_nodes(folder: Path) -> None:
    """Stop all nodes that `start_node` started below a folder."""
    nodes = [int(path.stem) for path in (folder / NODES).glob("*.pid")]
    for node in nodes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(node, signal.SIGTERM)
    end = time.monotonic() + STOP_SECONDS
    while (found := members(nodes)) and time.monotonic() < end:
        time.sleep(0.1)
    for pid in found:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    shutil.rmtree((folder / NODES / "session").resolve(), ignore_errors=True)
    shutil.rmtree(folder / NODES, ignore_errors=True)


def members(sessions: Sequence[int]) -> list[int]:
    """Return the processes of some sessions that have not ended."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = path.read_text(encoding="utf-8").rpartition(")")[2].split()
            if int(fields[3]) in sessions and fields[0] != "Z":
                found.append(int(path.parent.name))
    return found


if __name__ == "__main__":
    sys.exit({"kubectl": kubectl, "ray": ray}[sys.argv[1]](sys.argv[2:]))
