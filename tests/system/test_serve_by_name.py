"""`headlight serve org/name` against a Hub on loopback: download, export, cache, answers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from headlight import Client
from headlight.cli.commands import main
from headlight.cli.doctor import default_ports
from tests.bert_folder import write_bert
from tests.export.hub.hub_server import Hub, Repository
from tests.ports import free_address
from tests.system.processes import ROOT, Service

TINY = "org/tiny"
TEXTS = ["a b c", "x"]
OPTIONS = ("--pooling", "mean", "--warm-up-lengths", "4")
Variables = dict[str, str]


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    hub = Hub()
    hub.repositories[TINY] = Repository(write_bert(tmp_path / "tiny"))
    with hub.running():
        yield hub


@pytest.fixture
def variables(hub: Hub, tmp_path: Path) -> Variables:
    """Caches of this test's own, and the Hub on loopback."""
    return {
        "HEADLIGHT_CACHE": str(tmp_path / "cache"),
        "HF_HOME": str(tmp_path / "hf"),
        "HF_ENDPOINT": hub.address,
    }


def vectors(service: Service) -> np.ndarray:
    with Client(service.target) as client:
        return client.encode(TEXTS)


def steps(service: Service) -> list[str]:
    return [entry["message"] for entry in service.log if entry.get("event") == "export_step"]


def leftovers(tmp_path: Path) -> list[Path]:
    """What is in the cache beside whole bundles."""
    return [path for path in (tmp_path / "cache").glob("*/*") if path.name != "bundle"]


def test_of_two_processes_that_want_one_model_one_exports_and_the_other_waits(
    hub: Hub, variables: Variables, tmp_path: Path
) -> None:
    """A third, later one serves it without the Hub."""
    with ThreadPoolExecutor(2) as pool:
        started = [pool.submit(Service, TINY, *OPTIONS, environment=variables) for _ in range(2)]
        with started[0].result() as one, started[1].result() as other:
            first = vectors(one)
            assert np.array_equal(first, vectors(other))
            said = [steps(one), steps(other)]
    assert sum(any("tracing" in step for step in each) for each in said) == 1
    assert any(step.startswith("downloading org/tiny") for each in said for step in each)
    weights = (hub.repositories[TINY].folder / "model.safetensors").stat().st_size
    assert hub.sent["model.safetensors"] == weights
    requests = len(hub.requests)
    with Service(TINY, *OPTIONS, environment=variables) as service:
        assert steps(service) == []
        assert np.array_equal(vectors(service), first)
        with Client(service.target) as client:
            assert client.model().name == "tiny"
    assert len(hub.requests) == requests
    assert leftovers(tmp_path) == []


def starting(variables: Variables) -> subprocess.Popen[str]:
    """A service whose export has begun, in a process group of its own."""
    ports = ("--grpc", "127.0.0.1:0", "--metrics", "127.0.0.1:0", "--api", "off")
    process = subprocess.Popen(
        [sys.executable, "-m", "headlight", "serve", TINY, *OPTIONS, *ports],
        cwd=ROOT,
        env={**os.environ, **variables},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stderr is not None
    assert any("tracing" in line for line in process.stderr)
    return process


def test_an_export_that_is_killed_leaves_nothing_that_would_be_served(
    variables: Variables,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A command waits while the next service exports, and shows its steps."""
    process = starting(variables)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=60)
    assert leftovers(tmp_path), "the draft"
    target, metrics = free_address(), free_address()
    # The command looks at the default port of metrics.
    monkeypatch.setattr(default_ports, "METRICS_PORT", int(metrics.rpartition(":")[2]))
    options = (*OPTIONS, "--metrics", metrics)
    with ThreadPoolExecutor(1) as pool:
        start = pool.submit(Service, TINY, *options, grpc_at=target, environment=variables)
        while default_ports.step_of_start(int(target.rpartition(":")[2])) is None:
            assert not start.done()
        code = main(["embed", "a b c", "--target", target])
        with start.result() as service:
            assert code == 0
            assert vectors(service).shape[0] == len(TEXTS)
    assert leftovers(tmp_path) == []
    out, err = capsys.readouterr()
    assert len(out.split()) > 1
    assert f"waiting for the service at {target}, which starts: step " in err
    assert "tracing" in err


def test_sigterm_ends_the_export_too(variables: Variables, tmp_path: Path) -> None:
    process = starting(variables)
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=60)  # at the end of all that hold the pipe
    assert process.returncode == 0
    assert '"event": "stopped"' in errors
    assert not list((tmp_path / "cache").glob("*/bundle"))
