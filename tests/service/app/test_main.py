"""The process: its output and exit codes."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import termios
import threading
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from headlight import Client, InvalidInput
from headlight.cli.main import main
from headlight.pb import headlight_pb2 as pb
from headlight.pb import headlight_pb2_grpc as pb_grpc

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def bundle(make_bundle: Callable[[str], Path]) -> Path:
    return make_bundle("rope")


def command(bundle: Path, *options: str) -> list[str]:
    ports = ("--grpc", "127.0.0.1:0", "--metrics", "127.0.0.1:0", "--api", "127.0.0.1:0")
    return [sys.executable, "-m", "headlight", "serve", "--bundle", str(bundle), *ports, *options]


def run(bundle: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(bundle, *options), cwd=ROOT, capture_output=True, text=True, timeout=50, check=False
    )


class Process:
    """Running service and its log."""

    def __init__(self, bundle: Path, *options: str) -> None:
        self.process = subprocess.Popen(
            command(bundle, *options), cwd=ROOT, stderr=subprocess.PIPE, text=True
        )
        listening = self.event("listening")
        self.grpc_port, self.metrics_port = listening["grpc_port"], listening["metrics_port"]
        self.channel = grpc.insecure_channel(f"127.0.0.1:{self.grpc_port}")
        self.stub = pb_grpc.HeadlightServiceStub(self.channel)

    def event(self, name: str) -> dict[str, Any]:
        """Read the log up to an event."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            entry: dict[str, Any] = json.loads(line)
            if entry["event"] == name:
                return entry
        raise AssertionError(f"the log ended without {name}; exit code {self.process.wait(10)}")

    def metric(self, line: str) -> float:
        with urllib.request.urlopen(
            f"http://127.0.0.1:{self.metrics_port}/metrics", timeout=10
        ) as response:
            found = [
                text
                for text in response.read().decode().splitlines()
                if text.startswith(line + " ")
            ]
        return float(found[0].rpartition(" ")[2]) if found else 0.0

    def end(self) -> int:
        return self.process.wait(30)


@contextlib.contextmanager
def serving(bundle: Path, *options: str) -> Iterator[Process]:
    process = Process(bundle, *options)
    try:
        process.event("serving")
        yield process
    finally:
        process.process.kill()
        process.channel.close()
        process.process.wait(10)
        assert process.process.stderr is not None
        process.process.stderr.close()


def test_check_prints_the_model_that_would_be_served(bundle: Path) -> None:
    done = run(bundle, "--check")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("ok: ")
    assert done.stdout.count("\n") == 1
    assert done.stdout.endswith("on cpu/fp32\n")


@pytest.mark.parametrize("options", [("--check",), ()])
def test_an_altered_bundle_is_refused_with_the_file_named(
    bundle: Path, tmp_path: Path, options: tuple[str]
) -> None:
    copy = tmp_path / "bundle"
    shutil.copytree(bundle, copy)
    weights = next(copy.glob("*.bin"))
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(data)
    done = run(copy, *options)
    assert done.returncode == 3
    last = done.stderr.strip().splitlines()[-1]
    assert weights.name in last
    assert "Traceback" not in done.stderr


class Terminal:
    """A terminal of 80 columns, and the service on it."""

    def __init__(self, bundle: Path, *options: str) -> None:
        self._master, slave = os.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("4H", 24, 80, 0, 0))
        self.process = subprocess.Popen(command(bundle, *options), cwd=ROOT, stderr=slave)
        os.close(slave)
        self.shown = ""

    def read(self, until: str = "") -> list[str]:
        """Return its rows so far, read up to a text, or to the end of the process."""
        while not until or until not in self.shown:
            try:
                self.shown += os.read(self._master, 4096).decode()
            except OSError:  # no process has it any more
                assert not until, self.shown
                break
        rows = self.shown.replace("\r\n", "\n").split("\n")
        return [row.removeprefix("\r\x1b[K") for row in rows if row]

    def end(self) -> int:
        os.close(self._master)
        return self.process.wait(30)


def test_on_a_terminal_it_shows_a_table_and_ends_with_one_line(bundle: Path) -> None:
    terminal = Terminal(bundle)
    rows = terminal.read("headlight info --target 127.0.0.1:")
    terminal.process.send_signal(signal.SIGINT)
    end = terminal.read()[len(rows) :]
    assert max(map(len, rows)) <= 80, rows
    assert [row.split(None, 1)[1] for row in rows[:3]] == [
        "step 1 of 3: opening the bundle",
        "step 2 of 3: running the self-test",
        "step 3 of 3: warming up",
    ]
    table = {row.split()[0]: row.split(None, 1)[1] for row in rows[3:] if row.startswith("  ")}
    assert table["model"].startswith("small-rope, version ")
    assert table["provider"] == "cpu"
    assert " from PyTorch, limit 1.0e-05" in table["proof"]
    assert [row.split()[1:] for row in end] == [["stopped"]]
    assert terminal.end() == 0


def test_json_can_be_asked_for_on_a_terminal_too(bundle: Path) -> None:
    terminal = Terminal(bundle, "--log-format", "json")
    terminal.read('"serving"')
    terminal.process.send_signal(signal.SIGINT)
    events = [json.loads(row)["event"] for row in terminal.read()]
    assert events[0] == "listening"
    assert events[-2:] == ["draining", "stopped"]
    assert terminal.end() == 0


def test_a_failed_start_on_a_terminal_is_one_line_with_the_remedy(bundle: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        terminal = Terminal(bundle, "--metrics", address)
        rows = terminal.read()
    said = " ".join(" ".join(rows).split())
    assert (
        f" error: --metrics {address} is in use; stop the process that listens there, or choose"
        in said
    )
    assert said.count("error") == 1
    assert terminal.end() == 1


def test_text_can_be_asked_for_without_a_terminal(bundle: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        done = run(bundle, "--grpc", address, "--log-format", "text")
    assert done.returncode == 1
    [line] = done.stderr.splitlines()
    assert f"  error: --grpc {address} is in use; " in line


def test_long_texts_are_cut_for_callers_that_do_not_say_it(
    bundle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    long = "join two paths " * 50
    with serving(bundle, "--truncation", "start") as service:
        target = f"127.0.0.1:{service.grpc_port}"
        with Client(target) as client:
            assert client.model().truncation == "start"
            found = client.encode_with_info([long, "short"])
            assert found.truncated.tolist() == [True, False]
            same = client.encode([long], truncate="start")
            other = client.encode([long], truncate="end")
            with pytest.raises(InvalidInput, match=r"has \d+ tokens, the model takes") as refused:
                client.encode([long], truncate="refuse")
        assert 'truncate="end"' in refused.value.problem
        assert "headlight serve --truncation end" in refused.value.problem
        assert main(["embed", long, "--target", target]) == 0
        assert main(["embed", long, "--target", target, "--truncate", "refuse"]) == 2
    assert np.array_equal(same, found.vectors[:1])
    assert not np.array_equal(same, other)
    assert "the model takes" in capsys.readouterr().err


def long_request() -> pb.EncodeRequest:
    """Return a request that stays in flight for a while."""
    inputs = [pb.Input(ids=pb.TokenIds(ids=[5] * 60)) for _ in range(60)]
    return pb.EncodeRequest(inputs=inputs, outputs=pb.Outputs(pooled=pb.PooledOutput()))


def test_a_signal_ends_the_process_after_admitted_calls_are_answered(bundle: Path) -> None:
    with serving(bundle) as service:
        watch = health_pb2_grpc.HealthStub(service.channel).Watch(health_pb2.HealthCheckRequest())
        assert next(watch).status == health_pb2.HealthCheckResponse.SERVING
        idle_stream = service.stub.EncodeStream(iter(threading.Event().wait, None))
        calls = [service.stub.Encode.future(long_request()) for _ in range(20)]
        labels = (
            'grpc_code="OK",grpc_method="Encode",grpc_service="headlight.v1.HeadlightService",'
            'grpc_type="unary"'
        )
        admitted, size = 0.0, 8 * sum(len(each.ids.ids) for each in long_request().inputs)
        while admitted < len(calls):  # a call without its message may still be refused
            answered = service.metric(f"grpc_server_handled_total{{{labels}}}")
            admitted = (
                answered + service.metric('headlight_held_request_bytes{model="small-rope"}') / size
            )
        service.process.send_signal(signal.SIGTERM)
        assert next(watch).status == health_pb2.HealthCheckResponse.NOT_SERVING
        assert all(len(call.result(30).items) == 60 for call in calls)
        with pytest.raises(grpc.RpcError) as ended:
            next(idle_stream)
        assert ended.value.code() is grpc.StatusCode.UNAVAILABLE
        assert service.event("stopped")
        assert service.end() == 0


def test_a_call_that_outlasts_the_grace_time_makes_the_exit_code_1(bundle: Path) -> None:
    with serving(bundle, "--grace-seconds", "0") as service:
        longest = service.stub.GetModel(pb.GetModelRequest()).info.max_length
        everything = pb.Outputs(attention=pb.AttentionOutput(), hidden=pb.HiddenOutput())
        large = pb.EncodeRequest(
            inputs=[pb.Input(ids=pb.TokenIds(ids=[5] * longest))] * 8, outputs=everything
        )
        requests = [pb.EncodeStreamRequest(id=str(place), encode=large) for place in range(100)]
        call = service.stub.EncodeStream(iter(requests))
        next(call)  # stop reading, so that answers stay unsent
        service.process.send_signal(signal.SIGINT)
        assert service.event("grace_exceeded")["calls"] == 1
        assert service.end() == 1
        with pytest.raises(grpc.RpcError) as ended:
            list(call)
        assert ended.value.code() is grpc.StatusCode.UNAVAILABLE


def test_a_second_signal_ends_the_process_at_once(bundle: Path) -> None:
    with serving(bundle, "--drain-delay-seconds", "3600") as service:
        service.process.send_signal(signal.SIGTERM)
        service.event("draining")
        assert len(service.stub.Encode(long_request()).items) == 60, (
            "until the delay is over it serves"
        )
        service.process.send_signal(signal.SIGTERM)
        assert service.end() == 1


def test_serving_loads_no_training_or_export_libraries() -> None:
    code = (
        "import sys, headlight_service.__main__\n"
        "found = {'torch', 'onnx', 'onnxscript', 'transformers', 'safetensors'} & "
        "set(sys.modules)\n"
        "sys.exit(str(found) if found else 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=os.environ, check=False, timeout=50
    )
    assert done.returncode == 0
