"""Contestants behind a socket: Headlight over gRPC, infinity over HTTP."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench.serving.contestants import Contestant, Setting
from bench.serving.http import MODEL, embeddings_body, vectors_of
from bench.serving.processes import QUIET, ROOT, Failed, Process, wait_for
from bench.serving.workloads import BATCHES, BULK, LIST, ONE, SINGLES, Workload

START_SECONDS = 180
CHECK_SECONDS = 300
ONNX_FILE = "model.onnx"


class Headlight(Contestant):
    """`headlight serve` in its own process, as a user starts it."""

    kind = "served"
    workloads = (ONE, SINGLES, BATCHES, BULK, LIST)
    ports: tuple[str, ...] = (
        "--grpc",
        "127.0.0.1:0",
        "--http",
        "127.0.0.1:0",
        "--rest",
        "127.0.0.1:0",
    )

    def __init__(self, name: str, precision: str, setting: Setting, flags: Sequence[str]) -> None:
        super().__init__(name, precision, setting)
        self._flags = tuple(flags)
        self._command = [
            setting.python,
            "-m",
            "headlight",
            "serve",
            "--bundle",
            str(setting.bundle),
            *flags,
        ]

    def with_flags(self, name: str, *flags: str) -> Headlight:
        """Return another one of the same bundle, not yet started."""
        return Headlight(
            f"{self.name}, {name}", self.precision, self._setting, (*self._flags, *flags)
        )

    def start(self) -> None:
        checked = subprocess.run(
            [*self._command, "--check"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=CHECK_SECONDS,
            check=False,
        )
        if checked.returncode != 0:
            raise Failed(" ".join(checked.stderr.split())[:300])
        self.checked = checked.stdout.strip()
        self.serve(START_SECONDS)

    def serve(self, seconds: float) -> None:
        """Start it, without --check before. Raises Failed if it is not ready in that time."""
        until = time.monotonic() + seconds
        self.process = Process([*self._command, *self.ports], self.log)
        listening = wait_for(lambda: self._logged("listening"), self.process, seconds)
        self.target, self._http, self.rest = (
            f"127.0.0.1:{listening[key]}" for key in ("grpc_port", "http_port", "rest_port")
        )
        wait_for(lambda: self._logged("serving"), self.process, until - time.monotonic())

    def _logged(self, event: str) -> dict[str, Any] | None:
        """Return its log entry of this event, if there is one yet."""
        for line in self.log.read_text(encoding="utf-8").splitlines():
            if f'"{event}"' in line and line.endswith("}"):
                entry: dict[str, Any] = json.loads(line)
                if entry.get("event") == event:
                    return entry
        return None

    def describe(self) -> dict[str, Any]:
        return {"versions": {}, "precision_told": self.checked.rpartition(" on ")[2]}

    def _run(self, workload: Workload, order: Sequence[int]) -> dict[str, Any]:
        told: dict[str, Any] = {"target": self.target, "order": list(order)}
        before, cpu = self._padding(), self.process.cpu_seconds
        if workload.name == BULK:
            found = self._setting.load.ask("stream", group=workload.group, **told)
        elif workload.name == LIST:
            found = self._setting.load.ask("listed", **told)
        else:
            found = self._setting.load.ask(
                "closed", callers=workload.callers, group=workload.group, **told
            )
        used, after = self.process.cpu_seconds - cpu, self._padding()
        batches = after[1] - before[1]
        padding = (after[0] - before[0]) / batches if batches else None
        return found | {"cpu": used, "load_cpu": found["cpu"], "padding": padding}

    def _padding(self) -> tuple[float, float]:
        """Return sum and count of the service's own histogram."""
        with urllib.request.urlopen(f"http://{self._http}/metrics", timeout=30) as response:
            lines = response.read().decode().splitlines()
        values = dict(
            line.rsplit(" ", 1) for line in lines if line.startswith("headlight_padding_ratio_")
        )
        return tuple(  # type: ignore[return-value]  # two of them
            sum(
                float(value)
                for name, value in values.items()
                if name.startswith(f"headlight_padding_ratio_{part}")
            )
            for part in ("sum", "count")
        )

    def _save_vectors(self, path: Path) -> None:
        self._setting.load.ask("vectors", target=self.target, path=str(path))


class Front(Headlight):
    """Headlight with an engine that answers at once: all that is not the model's computation."""

    ports = ()  # bench.front_server takes free ones

    def __init__(self, setting: Setting) -> None:
        super().__init__("the front", "fp32", setting, ())
        module = ("-m", "bench.front_server", "front", "--truncation", "end")
        self._command = [setting.python, *module, "--bundle", str(setting.bundle)]

    def start(self) -> None:
        self.serve(START_SECONDS)


class Infinity(Contestant):
    """infinity-emb over HTTP, with persistent connections."""

    kind = "served"
    workloads = (ONE, SINGLES, BATCHES, BULK)

    def __init__(
        self, name: str, setting: Setting, python: Path, engine: str, dtype: str = "float32"
    ) -> None:
        super().__init__(name, "fp32", setting)
        self._python, self._engine, self._dtype = python, engine, dtype

    def start(self) -> None:
        if not self._python.exists():
            raise Failed(f"{self._python.parent.parent.name} is not installed; see the Makefile")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.target = f"127.0.0.1:{port}"
        # From within the folder, under the name ".": its ONNX engine joins the names of the model
        # and the file. That works for a name on a hub, and for no other folder.
        command = [
            str(self._python.parent / "infinity_emb"),
            "v2",
            "--model-id",
            ".",
            "--served-model-name",
            MODEL,
        ]
        command += ["--engine", self._engine, "--device", "cpu", "--dtype", self._dtype]
        # its ONNX engine ignores the folder's pooling and takes the first token
        command += ["--pooling-method", "mean"]
        command += ["--host", "127.0.0.1", "--port", str(port), "--log-level", "warning"]
        cache = {"HF_HOME": str(self._setting.work / "hub"), "INFINITY_ANONYMOUS_USAGE_STATS": "0"}
        self.process = Process(command, self.log, cache, self._folder())
        wait_for(self._ready, self.process, START_SECONDS)

    def _folder(self) -> Path:
        """Return the model; for the ONNX engine a copy and its graph, converted as documented."""
        if self._engine == "torch":
            return self._setting.model
        folder = self._setting.work / "infinity"
        if not (folder / ONNX_FILE).is_file():
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(self._setting.model, folder)
            command = [
                str(self._python.parent / "optimum-cli"),
                "export",
                "onnx",
                "--task",
                "feature-extraction",
            ]
            command += [
                "--library",
                "transformers",
                "--model",
                str(self._setting.model),
                str(folder / "converted"),
            ]
            done = subprocess.run(
                command, env=os.environ | QUIET, capture_output=True, text=True, check=False
            )
            if done.returncode != 0:
                raise Failed(" ".join(done.stderr.split())[-300:])
            (folder / "converted" / ONNX_FILE).rename(folder / ONNX_FILE)
            shutil.rmtree(folder / "converted")
        return folder

    def _ready(self) -> bool:
        try:
            self._post(["one text"])
        except (urllib.error.URLError, ConnectionError):
            return False
        return True

    def _post(self, texts: Sequence[str]) -> bytes:
        asked = urllib.request.Request(
            f"http://{self.target}/embeddings",
            embeddings_body(texts),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(asked, timeout=300) as response:
            body: bytes = response.read()
        return body

    def describe(self) -> dict[str, Any]:
        packages = ("infinity_emb", "transformers", "sentence-transformers", "optimum-onnx")
        program = (
            f"import json; from importlib.metadata import version; print(json.dumps({{p: "
            f"version(p) for p in {packages}}}))"
        )
        told = subprocess.run(
            [str(self._python), "-c", program],
            capture_output=True,
            text=True,
            check=True,
            env=QUIET,
        )
        return {
            "versions": json.loads(told.stdout),
            "precision_told": f"{self._engine}, {self._dtype}",
        }

    def _run(self, workload: Workload, order: Sequence[int]) -> dict[str, Any]:
        group = 0 if workload.name == BULK else workload.group
        cpu = self.process.cpu_seconds
        told = {
            "target": self.target,
            "order": list(order),
            "callers": workload.callers,
            "group": group,
        }
        found = self._setting.load.ask("posted", **told)
        return found | {"cpu": self.process.cpu_seconds - cpu, "load_cpu": found["cpu"]}

    def _save_vectors(self, path: Path) -> None:
        texts = json.loads(self._setting.texts.read_text(encoding="utf-8"))["texts"]
        np.save(path, vectors_of(self._post(texts)))
