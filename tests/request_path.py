"""Files and calls of project Python that a unary call enters in the serving process.

    python -m tests.request_path BUNDLE

A profiler in the service records between two signals. Periodic work of the service may fall
between them too, so each request is sent several times: the sample with the fewest calls counts.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import NamedTuple, NoReturn

import grpc

from headlight.pb import headlight_pb2 as pb
from headlight.pb import headlight_pb2_grpc as pb_grpc
from headlight_service.__main__ import main as serve
from tests.system.processes import ROOT, Service

BEGIN, END = signal.SIGUSR1, signal.SIGUSR2
BEGUN, ENDED = "recording", "recorded"  # log events
WARM_UP_CALLS = 20  # fill caches and make lazy imports
SAMPLES = 7  # most are free of the liveness watch, which runs each second
SETTLE_SECONDS = 0.2  # for work after the answer: metrics, budgets, the end of the call

INPUTS = [pb.Input(text="parse a date from a string")]
POOLED = pb.PooledOutput()
LAST_LAYER = pb.AttentionOutput(layers=[-1])  # all heads
TEXT = pb.EncodeRequest(inputs=INPUTS, outputs=pb.Outputs(pooled=POOLED))
ATTENTION = pb.EncodeRequest(inputs=INPUTS, outputs=pb.Outputs(attention=LAST_LAYER))
REQUESTS = {"text": TEXT, "attention": ATTENTION}


class RequestPath(NamedTuple):
    """Files and calls of one request in the service.

    Attributes:
        files: relative to the repository root, in the order of first entry.
        calls: of functions in these files, by name; comprehensions are none, and to resume a
            generator or a coroutine is no call.
    """

    files: list[str]
    calls: dict[str, int]


class Recorder:
    """Profiler that notes the file of each call of project Python between two signals."""

    def __init__(self) -> None:
        """Record nothing yet."""
        self._recording = False
        self._entered: list[str] = []  # files
        self._called: list[str] = []  # functions
        self._roots = (f"{ROOT}/service/", f"{ROOT}/headlight/")
        self._stubs = f"{ROOT}/headlight/pb/"

    def install(self) -> None:
        """Profile this thread and those started from now on, and listen to the signals."""
        signal.signal(BEGIN, self._begin)
        signal.signal(END, self._end)
        threading.setprofile(self._note)
        sys.setprofile(self._note)

    def _note(self, frame: FrameType, event: str, argument: object) -> None:
        if not self._recording or event != "call":
            return
        code = frame.f_code
        name = code.co_filename
        if not name.startswith(self._roots) or name.startswith(self._stubs):
            return
        self._entered.append(name)
        fresh = frame.f_lasti < 0 or code.co_code[frame.f_lasti + 1] == 0  # argument of RESUME
        if fresh and not code.co_name.endswith("comp>") and code.co_name != "<genexpr>":
            self._called.append(f"{Path(name).stem}.{code.co_qualname}")

    def _begin(self, number: int, frame: FrameType | None) -> None:
        self._entered.clear()
        self._called.clear()
        self._recording = True
        report({"event": BEGUN})

    def _end(self, number: int, frame: FrameType | None) -> None:
        self._recording = False
        files = [os.path.relpath(name, ROOT) for name in dict.fromkeys(self._entered)]
        report({"event": ENDED, "files": files, "calls": dict(Counter(self._called))})


def report(entry: dict[str, object]) -> None:
    """Write a whole line to the log."""
    os.write(2, f"{json.dumps(entry)}\n".encode())  # the service replaces sys.stderr


def serve_profiled(arguments: list[str]) -> NoReturn:
    """Run the service in this process; its threads start after the profiler is installed."""
    Recorder().install()
    serve(arguments)


def request_path(service: Service, request: pb.EncodeRequest) -> RequestPath:
    """Return the shortest of several samples of a request.

    Args:
        service: started by `profiled_service`.
        request: unary; it must succeed.
    """
    with grpc.insecure_channel(service.target) as channel:
        stub = pb_grpc.HeadlightServiceStub(channel)
        for _ in range(WARM_UP_CALLS):
            stub.Encode(request)
        samples = [_sample(service, stub, request) for _ in range(SAMPLES)]
    return min(samples, key=lambda path: sum(path.calls.values()))


def _sample(
    service: Service,
    stub: pb_grpc.HeadlightServiceStub,
    request: pb.EncodeRequest,
) -> RequestPath:
    time.sleep(SETTLE_SECONDS)  # the previous call is over
    service.process.send_signal(BEGIN)
    service.wait_for(BEGUN)
    stub.Encode(request)
    time.sleep(SETTLE_SECONDS)
    service.process.send_signal(END)
    entry = service.wait_for(ENDED)
    return RequestPath(entry["files"], entry["calls"])


def profiled_service(bundle: Path) -> Service:
    """A service that records on request; a context manager."""
    return Service(bundle, module=("tests.request_path", "--serve"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bundle", type=Path)
    options = parser.parse_args()
    with profiled_service(options.bundle) as service:
        for name, request in REQUESTS.items():
            path = request_path(service, request)
            print(
                f"{name}: {len(path.files)} files, {sum(path.calls.values())} calls",
                *path.files,
                sep="\n  ",
            )
            print(*(f"  {count:3} {called}" for called, count in path.calls.items()), sep="\n")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve_profiled(sys.argv[2:])
    main()
