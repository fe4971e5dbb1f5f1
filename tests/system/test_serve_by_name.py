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


def test_a_model_of_the_hub_is_exported_once_and_served_without_the_hub_after_that(
    hub: Hub, variables: Variables, tmp_path: Path
) -> None:
    with Service(TINY, *OPTIONS, environment=variables) as service:
        first = vectors(service)
        with Client(service.target) as client:
            assert client.model().name == "tiny"
        assert any(step.startswith("downloading org/tiny") for step in steps(service))
        assert any("tracing" in step for step in steps(service))
    asked = len(hub.requests)
    with Service(TINY, *OPTIONS, environment=variables) as service:
        assert steps(service) == []
        assert np.array_equal(vectors(service), first)
    assert len(hub.requests) == asked
    assert leftovers(tmp_path) == []


def test_of_two_processes_that_want_one_model_one_exports_and_the_other_waits(
    hub: Hub, variables: Variables
) -> None:
    with ThreadPoolExecutor(2) as pool:
        started = [pool.submit(Service, TINY, *OPTIONS, environment=variables) for _ in range(2)]
        with started[0].result() as one, started[1].result() as other:
            assert np.array_equal(vectors(one), vectors(other))
            said = [steps(one), steps(other)]
    assert sum(any("tracing" in step for step in each) for each in said) == 1
    weights = (hub.repositories[TINY].folder / "model.safetensors").stat().st_size
    assert hub.sent["model.safetensors"] == weights


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
    variables: Variables, tmp_path: Path
) -> None:
    process = starting(variables)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=60)
    assert leftovers(tmp_path), "the draft"
    with Service(TINY, *OPTIONS, environment=variables) as service:
        assert vectors(service).shape[0] == len(TEXTS)
    assert leftovers(tmp_path) == []


def test_sigterm_ends_the_export_too(variables: Variables, tmp_path: Path) -> None:
    process = starting(variables)
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=60)  # at the end of all that hold the pipe
    assert process.returncode == 0
    assert '"event": "stopped"' in errors
    assert not list((tmp_path / "cache").glob("*/bundle"))


def test_a_command_waits_while_the_service_exports_and_shows_its_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, target, metrics = write_bert(tmp_path / "tiny"), free_address(), free_address()
    # The command looks at the default port of metrics.
    monkeypatch.setattr(default_ports, "METRICS_PORT", int(metrics.rpartition(":")[2]))
    served = ("serve", str(folder), *OPTIONS, "--grpc", target, "--metrics", metrics)
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "headlight", *served],
            cwd=ROOT,
            env={**os.environ, "HEADLIGHT_CACHE": str(tmp_path / "cache")},
            stderr=log,
        )
    try:
        port = int(target.rpartition(":")[2])
        while default_ports.step_of_start(port) is None:
            assert process.poll() is None, (tmp_path / "log").read_text()
        assert main(["embed", "a b c", "--target", target]) == 0
    finally:
        process.terminate()
        process.wait(60)
    out, err = capsys.readouterr()
    assert len(out.split()) > 1
    assert f"waiting for the service at {target}, which starts: step " in err
    assert "tracing" in err
