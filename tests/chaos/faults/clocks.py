"""Wall clocks that jump by an hour, of the service and of the clients: F13b and F13c.

clock.c is loaded into the process whose clock jumps. libfaketime 0.9.10 would do the same, but
breaks CPython's time.sleep, which waits on CLOCK_MONOTONIC until an absolute time.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import grpc

from headlight import Client
from headlight.pb import headlight_pb2 as pb
from headlight.pb import headlight_pb2_grpc as pb_grpc
from tests.certificates import Authority
from tests.chaos.record import NotPossible, Outcome
from tests.chaos.traffic.background import Traffic, said
from tests.chaos.traffic.reference import reference
from tests.ports import free_port
from tests.service.calls import NARROW
from tests.system.conftest import bundle_of
from tests.system.processes import ROOT, Service

HOUR = 3600
CLIENT_AHEAD = 2 * HOUR  # so that its clock, jumped back, is still within a certificate made today
JUMPS = (HOUR, 0, -HOUR, 0)  # shifts, one after the other: forward, back, back, forward
BETWEEN_SECONDS = 4.0
STALL_SECONDS = 2.0
QUOTA = 200  # tokens a second; a client may save up those of BURST_SECONDS
BURST_SECONDS = 2
TOKEN = "correct-horse-battery"


class Shift:
    """File from which a process under clock.c reads its clock shift."""

    def __init__(self, folder: Path, name: str) -> None:
        self._path = folder / name
        self._path.write_bytes(struct.pack("q", 0))
        self.variables = {"LD_PRELOAD": str(library(folder)), "CLOCK_SHIFT_FILE": str(self._path)}

    def set(self, seconds: int) -> None:
        """Set the shift. The file is memory-mapped by the process, so it is written in place."""
        with self._path.open("r+b", buffering=0) as file:
            file.write(struct.pack("q", seconds))


def library(folder: Path) -> Path:
    """Compile clock.c, once per folder."""
    out, compiler = folder / "clock.so", shutil.which("cc") or shutil.which("gcc")
    if compiler is None or sys.platform != "linux":
        raise NotPossible("needs Linux and a C compiler (cc), for tests/chaos/faults/clock.c")
    if not out.exists():
        source = Path(__file__).with_name("clock.c")
        subprocess.run([compiler, "-O2", "-shared", "-fPIC", "-o", out, source], check=True)
    return out


@contextlib.contextmanager
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


async def server() -> Outcome:
    """Shift the service's clock under load, with TLS, a quota and callers that do not read."""
    bundle = bundle_of("docs-rope")
    known = await asyncio.to_thread(reference, bundle)
    with folder() as place:
        shift, authority = Shift(place, "server"), Authority(place / "authority")
        pair = authority.sign("service")
        tls = (
            "--tls-cert",
            str(pair.cert),
            "--tls-key",
            str(pair.key),
            "--stall-seconds",
            str(STALL_SECONDS),
        )
        with Service(bundle, *tls, environment=shift.variables) as service:
            async with Traffic(service.target, known, tls_ca=authority.cert) as traffic:
                await traffic.run(1)
                shakes, problems = [], list[str]()
                for seconds in JUMPS:
                    shift.set(seconds)
                    shakes.append(handshake(service.target, authority.cert))
                    await traffic.run(BETWEEN_SECONDS)
                    if service.counted("headlight_stuck"):
                        problems.append(f"called itself dead at {seconds:+d} s")
        problems += [str(entry) for entry in service.failures()]
        cut = await stalled(bundle, place)
        quota = await asyncio.to_thread(quotas, bundle, place)
    problems += [*traffic.problems(), *cut.problems, *quota.problems]
    problems += [
        f"no new connection at {at:+d} s"
        for at, fine in zip(JUMPS, shakes, strict=True)
        if not fine
    ]
    seen = (
        f"{said(traffic.outcomes())}, none wrong; new TLS connections at each jump {sum(shakes)} "
        f"of {len(shakes)}; {cut.seen}; {quota.seen}"
    )
    figures = {"outcomes": dict(traffic.outcomes()), **cut.figures, **quota.figures}
    return Outcome(seen, figures, problems)


def handshake(target: str, authority: Path) -> bool:
    """Return whether a new client gets an answer."""
    with Client(target, tls_ca=authority, timeout=10) as client:
        return len(client.encode(["open a file"])) == 1


async def tight(service: Service, shift: Shift, seconds: int) -> float:
    """Return the duration of a one-second call with a deadline of 0.3 s during a clock jump.

    The service is idle, so that the call is admitted and not refused as too late.
    """
    request = pb.EncodeRequest(inputs=[pb.Input(ids=pb.TokenIds(ids=[5] * 2000))] * 4)
    async with grpc.aio.insecure_channel(service.target) as channel:
        stub: Any = pb_grpc.HeadlightServiceStub(channel)
        await stub.GetModel(pb.GetModelRequest(), timeout=20)
        begun = time.monotonic()
        call = stub.Encode(request, timeout=0.3)
        await asyncio.sleep(0.1)
        shift.set(seconds)
        code = await call.code()
        took = time.monotonic() - begun
    assert code is grpc.StatusCode.DEADLINE_EXCEEDED, (
        f"a call with too short a deadline ended as {code.name}"
    )
    while await asyncio.to_thread(service.counted, "headlight_queue_tokens"):
        await asyncio.sleep(0.05)
    return took


async def stalled(bundle: Path, place: Path) -> Outcome:
    """Check deadlines, and callers that read nothing.

    Both end by the monotonic clock, whichever way the wall clock jumps.
    """
    took, late = list[float](), list[float]()
    shift = Shift(place, "stalled")
    with Service(
        bundle, "--stall-seconds", str(STALL_SECONDS), environment=shift.variables
    ) as service:
        for seconds in JUMPS:
            late.append(await tight(service, shift, seconds))
        for seconds in (HOUR, -HOUR):
            shift.set(0)
            async with unread(service.target) as call:
                begun = time.monotonic()
                shift.set(seconds)
                before = service.counted("headlight_held_output_bytes")
                while (
                    await asyncio.to_thread(service.counted, "headlight_held_output_bytes")
                    >= before
                    > 0
                ):
                    if time.monotonic() - begun > 20:
                        break
                    await asyncio.sleep(0.05)
                took.append(time.monotonic() - begun)
                call.cancel()
    problems = [
        f"a stalled reader was disconnected after {each:.1f} s"
        for each in took
        if not 1.0 < each < 8.0
    ]
    problems += [
        f"a deadline of 0.3 s ended after {each:.2f} s" for each in late if not 0.2 < each < 1.3
    ]
    seen = (
        f"deadlines of 0.3 s across a jump ended after {min(late):.2f}–{max(late):.2f} s; with "
        f"--stall-seconds {STALL_SECONDS:.0f}, stalled readers were disconnected after "
        f"{' and '.join(f'{each:.1f} s' for each in took)}"
    )
    return Outcome(seen, {"deadline_seconds": late, "stalled_seconds": took}, problems)


@contextlib.asynccontextmanager
async def unread(target: str) -> AsyncIterator[Any]:
    """Return a stream with megabytes of answers, of which only one frame was read."""
    wanted = pb.Outputs(attention=pb.AttentionOutput(layers=[0]))
    encode = pb.EncodeRequest(inputs=[pb.Input(ids=pb.TokenIds(ids=[5] * 1500))], outputs=wanted)
    async with grpc.aio.insecure_channel(target, options=NARROW) as channel:
        stub: Any = pb_grpc.HeadlightServiceStub(channel)
        call = stub.EncodeStream(iter([pb.EncodeStreamRequest(id="1", encode=encode)]), timeout=60)
        await call.read()
        yield call


def quotas(bundle: Path, place: Path) -> Outcome:
    """Check that a jump forward fills no bucket and a jump back blocks no client."""
    (place / "tokens").write_text(f"metered {TOKEN}\n", encoding="ascii")
    shift = Shift(place, "quota")
    quota = ("--quota-tokens-per-second", str(QUOTA), "--quota-burst-seconds", str(BURST_SECONDS))
    options = ("--auth-tokens", str(place / "tokens"), *quota)
    got, ids = dict[int, float](), [5] * 100
    with Service(bundle, *options, environment=shift.variables) as service:
        token = (("authorization", f"Bearer {TOKEN}"),)
        with grpc.insecure_channel(service.target) as channel:
            stub: Any = pb_grpc.HeadlightServiceStub(channel)
            request = pb.EncodeRequest(inputs=[pb.Input(ids=pb.TokenIds(ids=ids))])
            for seconds in (0, *JUMPS):
                shift.set(seconds)
                begun, tokens = time.monotonic(), 0
                while time.monotonic() - begun < BETWEEN_SECONDS:
                    try:
                        stub.Encode(request, metadata=token, timeout=5)
                        tokens += len(ids)
                    except grpc.RpcError as error:
                        left = begun + BETWEEN_SECONDS - time.monotonic()
                        time.sleep(max(0.0, min(pushback_seconds(error), left)))
                got[len(got)] = tokens / (time.monotonic() - begun)
    most, least = QUOTA * (1 + BURST_SECONDS / BETWEEN_SECONDS), QUOTA * 0.7
    rates = list(got.values())
    problems = [
        f"a quota of {QUOTA} tokens/s let through {rate:.0f}"
        for rate in rates
        if not least < rate < 1.1 * most
    ]
    seen = (
        f"a quota of {QUOTA} tokens/s let through {min(rates[1:]):.0f}–{max(rates[1:]):.0f} "
        "tokens/s after each jump"
    )
    return Outcome(seen, {"quota_rates": rates}, problems)


def pushback_seconds(error: Any) -> float:
    """Return the retry delay of a refusal."""
    return int(dict(error.trailing_metadata())["grpc-retry-pushback-ms"]) / 1000


async def client() -> Outcome:
    """Shift the clients' clock.

    During calls, during retry waits, and with a certificate in use.
    """
    bundle = bundle_of("docs-rope")
    with folder() as place:
        shift, authority, port = Shift(place, "client"), Authority(place / "authority"), free_port()
        shift.set(CLIENT_AHEAD)
        pair = authority.sign("service")
        tls = ("--tls-cert", str(pair.cert), "--tls-key", str(pair.key))
        at = f"127.0.0.1:{port}"
        command = [
            sys.executable,
            "-m",
            "tests.chaos.faults.client_process",
            at,
            str(authority.cert),
        ]
        process = await asyncio.create_subprocess_exec(
            *command,
            cwd=ROOT,
            env={**os.environ, **shift.variables},
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            assert await asyncio.wait_for(process.stdout.readline(), 120) == b"waiting\n"
            # The client calls a service that has not started, and waits to retry.
            shift.set(CLIENT_AHEAD + HOUR)
            await asyncio.sleep(1)
            shift.set(CLIENT_AHEAD - HOUR)
            service = await asyncio.to_thread(Service, bundle, *tls, grpc_at=at)
            with service:
                assert await asyncio.wait_for(process.stdout.readline(), 120) == b"answered\n"
                for seconds in JUMPS:
                    shift.set(CLIENT_AHEAD + seconds)
                    await asyncio.sleep(BETWEEN_SECONDS)
                process.stdin.write(b"end\n")
                whole, _ = await asyncio.wait_for(process.communicate(), 60)
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    found = json.loads(whole)
    seen = (
        f"a call that waited for the service to start was answered; {found['said']}, none wrong; "
        f"deadlines of 0.3 s ended after {min(found['tight']):.2f}–{max(found['tight']):.2f} s"
    )
    problems = found["problems"]
    problems += [
        f"a timeout of 0.3 s ended after {took:.2f} s"
        for took in found["tight"]
        if not 0.2 < took < 1.3
    ]
    return Outcome(seen, found, problems)
