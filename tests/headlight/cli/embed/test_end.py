"""The end of a `headlight embed` job.

After failures of the service, the disk or the command itself, and its output.
"""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import grpc
import numpy as np
import pytest

from headlight import Client
from headlight.bulk.row_blocks import JobRetries
from headlight.cli.commands import main
from headlight.client.call_flow import Retries
from headlight.errors import HeadlightError
from headlight.pb import headlight_pb2 as pb
from tests.headlight.cli.embed.failing import KEPT, TEXTS, Embed, Failing, names, vectors
from tests.headlight.fake_model import DIM, OTHER_REF
from tests.headlight.fake_server import Refusal, default_limits, serving


def test_weights_replaced_during_a_job_end_it(embed: Embed, servicer: Failing) -> None:
    servicer.do = lambda: setattr(servicer, "ref", lambda call: OTHER_REF)
    code, err = embed("--retry-for", "50")
    assert code == 1
    assert (
        "; the same command goes on from there, once the weights before answer again; "
        "else remove it\n"
    ) in err
    assert (
        "headlight: the service's weights were replaced meanwhile (fake 1 fp32, now fake 2 fp32)"
        in err
    )


def test_mixed_weights_within_one_block_end_a_job(
    embed: Embed, servicer: Failing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As during a rollout.

    A job with vectors of the old weights cannot continue with the new ones.
    """
    # Requests of several blocks may be interleaved, so that each block has answers of one version.
    monkeypatch.setattr("headlight.bulk.row_blocks.BLOCKS_AT_ONCE", 1)
    servicer.limits.max_request_tokens = 40  # several requests per block
    first = servicer.ref
    servicer.ref = lambda call: OTHER_REF if call % 2 else first(call)
    code, err = embed()
    assert code == 1
    assert (
        "headlight: replicas answered one call with different weights (fake 1 fp32, fake 2 fp32)\n"
        in err
    )


def test_a_job_waits_for_an_unavailable_service(
    embed: Embed, servicer: Failing, path: Path, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []

    def sleep(seconds: float) -> None:
        if seconds:  # the client's own delay between attempts is 0 before the first
            pauses.append(seconds)
        if len(pauses) == 3:
            servicer.do = lambda: None

    monkeypatch.setattr("headlight.bulk.row_blocks.time.sleep", sleep)
    servicer.fail(grpc.StatusCode.UNAVAILABLE)
    assert embed("--retry-for", "0")[0] == 1
    assert pauses == []
    code, err = embed("--retry-for", "50")
    assert (code, err.splitlines()[1:-1]) == (
        0,
        [
            f"headlight: no answer from {client._target} (error 4f2a); start a service there, or "
            "name another by --target or HEADLIGHT_TARGET; waiting for it, for 50 s at most"
        ],
    )
    assert pauses == [0.25, 0.5, 1.0]
    np.testing.assert_array_equal(vectors(path), client.encode(TEXTS))


def test_the_client_leaves_waiting_for_a_service_to_the_command(
    embed: Embed, servicer: Failing, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client itself waits only in the middle of a list, without a message."""
    waits: list[object] = []
    delay = Retries.delay

    def noted(self: Retries, error: HeadlightError) -> float | None:
        if isinstance(self, JobRetries):  # the wait of the command
            return delay(self, error)
        waits.append(error)
        return 1e-9

    monkeypatch.setattr(Retries, "delay", noted)
    monkeypatch.setattr("headlight.bulk.row_blocks.BLOCKS_AT_ONCE", 1)
    servicer.limits.max_request_tokens = 12  # a block has several requests
    servicer.fail(grpc.StatusCode.UNAVAILABLE)
    assert embed("--retry-for", "0")[0] == 1
    assert waits == []


def test_connection_errors_after_the_first_answer_are_retried(
    embed: Embed, servicer: Failing, path: Path, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error is that of the last address tried,
    for example a proxy without a backend for a while.
    """
    monkeypatch.setattr(
        "headlight.bulk.row_blocks.time.sleep",
        lambda seconds: setattr(servicer, "do", lambda: None),
    )

    def fail() -> None:
        raise Refusal(grpc.StatusCode.UNAVAILABLE, "last error: Failed parsing HTTP/2")

    servicer.do = fail
    assert embed()[0] == 0
    np.testing.assert_array_equal(vectors(path), client.encode(TEXTS))


@pytest.mark.parametrize("seconds", ["nan", "-1", "soon"])
def test_an_invalid_duration_is_refused(seconds: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["embed", "a", "--retry-for", seconds])
    assert ended.value.code == 2
    assert "headlight embed: --retry-for: " in capsys.readouterr().err


def test_a_job_gives_up_on_a_service_that_stays_unavailable(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--target", "127.0.0.1:1", "--retry-for", "0.01", "--out", str(path.with_name("v"))]
    assert main(["embed", "--file", str(path), *options]) == 1
    waiting, gone = capsys.readouterr().err.splitlines()
    assert waiting.endswith("; waiting for it, for 0.01 s at most")
    assert gone.startswith("headlight: no answer from 127.0.0.1:1 (")
    assert names(path) == ["texts.txt"]


def test_a_full_disk_is_reported_and_received_rows_are_kept(
    target: str, embed: Embed, path: Path, client: Client
) -> None:
    """Simulated by a file size limit, in blocks of 512 or 1024 bytes."""
    command = [sys.executable, "-m", "headlight", "embed", "--file", str(path), "--target", target]
    script = 'ulimit -f 2; exec "$0" "$@"'
    shell = ["sh", "-c", script, *command, "--format", "npz", "--out", str(path.with_name("v"))]
    done = subprocess.run(shell, stderr=subprocess.PIPE, text=True, check=False, timeout=50)
    folder = f"{path.with_name('v')}.partial"
    kept, said = done.stderr.splitlines()
    assert (done.returncode, said) == (1, f"headlight: {folder}: cannot write it: File too large")
    assert kept.endswith(f"of 80 texts are kept in {folder}; the same command goes on from there")
    ended, resumed = embed()
    assert ended == 0
    assert "of 80 texts" in resumed
    np.testing.assert_array_equal(vectors(path), client.encode(TEXTS))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_and_sigterm_keep_received_rows(path: Path, number: int) -> None:
    reached, free = threading.Event(), threading.Event()

    class Held(Failing):
        """Fake that holds the sixth request; the ninth arrives once the fifth is among the rows."""

        def serve(self, request: pb.EncodeRequest) -> pb.EncodeResponse:
            if any(item.text == TEXTS[64] for item in request.inputs):
                reached.set()
            return super().serve(request)

    def hold() -> None:
        free.wait(50)

    with serving(Held(default_limits(), do=hold)) as target:
        command = [sys.executable, "-m", "headlight", "embed", "--file", str(path)]
        command += ["--target", target]
        process = subprocess.Popen(
            [*command, "--out", str(path.with_name("v"))], stderr=subprocess.PIPE, text=True
        )
        try:
            assert reached.wait(50)
            process.send_signal(number)
            _, err = process.communicate(timeout=50)
        finally:
            free.set()
            process.kill()
            process.wait()
    assert process.returncode == 128 + number
    folder = path.with_name("v.partial")
    assert err == (
        f"headlight: {KEPT} of 80 texts are kept in {folder}; the same command goes on from there\n"
    )
    # Digests, counts, vectors, checksums.
    assert (folder / "rows").stat().st_size == KEPT * (16 + 3 * 8 + DIM * 4 + 4)


def test_output_through_a_link_keeps_the_link_and_the_file_mode(embed: Embed, path: Path) -> None:
    elsewhere = path.with_name("elsewhere")
    elsewhere.touch(mode=0o600)
    path.with_name("v").symlink_to(elsewhere)
    assert embed()[0] == 0
    assert path.with_name("v").is_symlink()
    assert elsewhere.stat().st_mode & 0o777 == 0o600
    assert names(path) == ["elsewhere", "texts.txt", "v"]


@pytest.mark.skipif(not Path("/dev/fd").exists(), reason="names for open files")
@pytest.mark.parametrize("form", ["text", "npz"])
def test_an_open_pipe_is_accepted_as_output(embed: Embed, path: Path, form: str) -> None:
    """For example `--out /dev/stdout` or `--out >(command)`."""
    assert embed(form=form)[0] == 0
    expected = path.with_name("v").read_bytes()
    reader, writer = os.pipe()
    with open(reader, "rb") as pipe:
        code, err = embed("--out", f"/dev/fd/{writer}", form=form)
        os.close(writer)
        answer = pipe.read()
    assert (code, err, len(answer) > 0) == (0, "", True)
    if form == "text":
        assert answer == expected
    assert names(path) == ["texts.txt", "v"]


def test_the_timeout_applies_to_the_whole_job(
    embed: Embed, servicer: Failing, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0.0]
    monkeypatch.setattr("headlight.bulk.row_blocks.time.monotonic", lambda: clock[0])
    given_up = threading.Event()

    def late() -> None:
        clock[0] = 1e9
        given_up.wait(30)

    servicer.do = late
    code, err = embed("--timeout", "1e8")
    given_up.set()
    assert (code, err.splitlines()[-1]) == (
        1,
        "headlight: the client's timeout passed; give more time by --timeout",
    )


def test_progress_is_reported_if_requested(embed: Embed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headlight.cli.embed.progress.LOG_SECONDS", math.inf)
    written = "headlight: wrote "
    code, err = embed()
    assert (code, err.count("\n"), err.startswith(written)) == (0, 1, True)
    code, err = embed("--progress")
    assert (code, err.count("\n")) == (0, 3)
    assert err.startswith("headlight: 0 of 80 texts\nheadlight: 80 of 80 texts, ")
    monkeypatch.setattr("headlight.cli.embed.progress.LOG_SECONDS", 0)
    assert embed("--progress")[1].count("\n") == 12
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setattr("headlight.cli.embed.progress.TERMINAL_SECONDS", 0)
    err, _, last = embed()[1].rpartition(written)
    assert (err.count("\r"), err.count("\n"), err[-4:]) == (12, 0, "\r\x1b[K")
    assert last.endswith(" kB\n")
    assert embed("--no-progress")[1].startswith(written)
