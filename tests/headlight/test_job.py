"""`headlight embed` of many texts: what came stays, the same command goes on from there, and a service that is away is waited for."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import grpc
import numpy as np
import pytest

from headlight import Client
from headlight.cli import main
from headlight.pb import headlight_pb2 as pb
from tests.headlight.fake_server import FakeServicer, Refusal, default_limits, serving

TEXTS = [f"text {number}" for number in range(80)]  # ten requests of the fake
BAD = 45  # in the sixth
KEPT = 40  # in the five before it


@dataclasses.dataclass
class Failing(FakeServicer):
    """Does something before it serves a request with a certain text."""

    at: str = TEXTS[BAD]
    do: Callable[[], None] = lambda: None

    def serve(self, request: pb.EncodeRequest) -> pb.EncodeResponse:
        if any(item.text == self.at for item in request.inputs):
            self.do()
        return super().serve(request)

    def fail(self, code: grpc.StatusCode = grpc.StatusCode.INTERNAL) -> None:
        """From now on."""

        def do() -> None:
            raise Refusal(code, "error 4f2a")

        self.do = do

    def texts(self) -> list[str]:
        """Those served since this was asked last."""
        seen = [item.text for request in self.encoded for item in request.inputs]
        self.encoded.clear()
        return seen


@pytest.fixture
def servicer() -> Failing:
    return Failing(default_limits())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "texts.txt"
    path.write_text("\n".join(TEXTS), encoding="utf-8")
    return path


@pytest.fixture
def embed(target: str, path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    """Options -> exit code, errors."""

    def embed(*options: str, form: str = "npz") -> tuple[int, str]:
        arguments = ["embed", "--file", str(path), "--format", form, "--out", str(path.with_name("v")), *options]
        return main([*arguments, "--target", target]), capsys.readouterr().err

    return embed


Embed = Callable[..., tuple[int, str]]


def vectors(path: Path) -> np.ndarray:
    with np.load(path.with_name("v"), allow_pickle=False) as archive:
        return np.array(archive["embeddings"])


def names(path: Path) -> list[str]:
    return sorted(each.name for each in path.parent.iterdir())


@pytest.mark.parametrize("form", ["npz", "json", "text"])
def test_what_came_stays_and_the_same_command_goes_on_from_there(
    embed: Embed, servicer: Failing, path: Path, client: Client, form: str
) -> None:
    assert embed(form=form)[0] == 0
    expected = path.with_name("v").read_bytes()
    path.with_name("v").write_bytes(b"as it was")
    servicer.fail()
    code, err = embed(form=form)
    kept = (
        f"headlight: {KEPT} of 80 texts are kept in {path.with_name('v')}.partial; the same command goes on from there"
    )
    assert (code, err.splitlines()) == (1, [kept, "headlight: error 4f2a"])
    assert path.with_name("v").read_bytes() == b"as it was"
    servicer.do = lambda: None
    servicer.texts()
    code, err = embed(form=form)
    assert (code, err) == (0, f"headlight: going on from {path.with_name('v')}.partial, which has {KEPT} of 80 texts\n")
    assert sorted(servicer.texts()) == sorted(TEXTS[KEPT:])
    assert names(path) == ["texts.txt", "v"]
    if form == "npz":  # which has the time of its parts
        np.testing.assert_array_equal(vectors(path), client.encode(TEXTS))
    else:
        assert path.with_name("v").read_bytes() == expected


def test_texts_that_are_not_done_may_be_mended_and_added(
    embed: Embed, servicer: Failing, path: Path, client: Client
) -> None:
    texts = [*TEXTS[:BAD], "word " * 50, *TEXTS[BAD + 1 :]]
    path.write_text("\n".join(texts), encoding="utf-8")
    code, err = embed()
    assert (code, err.splitlines()[1][: len(f"headlight: {path}: line 46: has 52 tokens")]) == (
        2,
        f"headlight: {path}: line 46: has 52 tokens",
    )
    texts[BAD:] = ["mended", "and", *TEXTS]
    path.write_text("\n".join(texts), encoding="utf-8")
    servicer.texts()
    assert embed()[0] == 0
    assert sorted(servicer.texts()) == sorted(texts[KEPT:])
    np.testing.assert_array_equal(vectors(path), client.encode(texts))


@pytest.mark.parametrize(
    "options", [["--dimensions", "4"], ["--truncate", "end"], ["--prompt", "x"], ["--no-normalize"]]
)
def test_vectors_made_otherwise_are_refused(embed: Embed, servicer: Failing, path: Path, options: list[str]) -> None:
    servicer.fail()
    embed()
    code, err = embed(*options)
    folder = path.with_name("v.partial")
    assert code == 2
    assert err.startswith(f"headlight: {folder}: holds vectors made with another --")
    assert options[0].replace("no-", "") in err
    assert err.endswith("; remove it to begin anew, or name another --out\n")
    servicer.do = lambda: None
    assert embed()[0] == 0  # nothing is lost


def test_types_in_another_order_are_others(embed: Embed, servicer: Failing) -> None:
    """A record has the vectors of each type in the order that they were asked in."""
    servicer.fail()
    embed("--dtype", "int8", "--dtype", "binary")
    code, err = embed("--dtype", "binary", "--dtype", "int8")
    assert (code, "made with another --dtype or --dimensions;" in err) == (2, True)
    servicer.do = lambda: None
    assert embed("--dtype", "int8", "--dtype", "binary")[0] == 0


@pytest.mark.parametrize("option", ["--text-field", "--id-field"])
def test_so_are_those_of_other_fields(embed: Embed, servicer: Failing, path: Path, option: str) -> None:
    """With other fields, lines that were encoded might be bad ones."""
    texts = [{"text": text} if at == 1 else {"text": text, "name": text} for at, text in enumerate(TEXTS)]
    lines = path.with_name("t.jsonl")
    lines.write_text("\n".join(map(json.dumps, texts)), encoding="utf-8")
    servicer.fail()
    options = ("--file", str(lines), "--skip-bad")
    assert embed(*options)[0] == 1
    code, err = embed(*options, option, "name")
    assert (code, f"made with another {option};" in err) == (2, True)
    servicer.do = lambda: None
    assert embed(*options)[0] == 0


def test_so_are_those_of_other_weights_and_of_other_texts(embed: Embed, servicer: Failing, path: Path) -> None:
    servicer.fail()
    embed()
    folder = path.with_name("v.partial")
    path.write_text("\n".join([*TEXTS[:3], "another", *TEXTS[4:]]), encoding="utf-8")
    said = f"headlight: {folder}: was made of another text 4; remove it to begin anew, or name another --out\n"
    assert embed() == (2, said)
    path.write_text("\n".join(TEXTS[:7]), encoding="utf-8")
    assert embed() == (2, said.replace("text 4", "text 8"))
    job = folder / "job.json"
    job.write_text(job.read_text().replace("abab", "cdcd"), encoding="utf-8")
    assert "made with another model or precision;" in embed()[1]
    job.write_text("{", encoding="utf-8")
    assert "made with another version of this command" in embed()[1]


def test_weights_that_are_replaced_meanwhile_end_it(embed: Embed, servicer: Failing) -> None:
    other = pb.ModelRef(name="fake", version="2", bundle_sha256="cd" * 32, provider="cpu", precision="fp32")
    servicer.do = lambda: setattr(servicer, "ref", lambda call: other)
    code, err = embed("--retry-for", "50")
    assert code == 1
    assert "headlight: the service's weights were replaced meanwhile (fake 1 fp32, now fake 2 fp32)" in err


def test_a_service_that_is_away_is_waited_for(
    embed: Embed, servicer: Failing, path: Path, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []

    def sleep(seconds: float) -> None:
        if seconds:  # the client's own, between tries, is 0 before the first
            pauses.append(seconds)
        if len(pauses) == 3:
            servicer.do = lambda: None

    monkeypatch.setattr("headlight.job.time.sleep", sleep)
    servicer.fail(grpc.StatusCode.UNAVAILABLE)
    assert embed("--retry-for", "0")[0] == 1
    assert pauses == []
    code, err = embed("--retry-for", "50")
    assert (code, err.splitlines()[1:]) == (0, ["headlight: error 4f2a; waiting for it, for 50 s at most"])
    assert pauses == [0.25, 0.5, 1.0]
    np.testing.assert_array_equal(vectors(path), client.encode(TEXTS))


def test_one_that_stays_away_is_given_up(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--target", "127.0.0.1:1", "--retry-for", "0.01", "--out", str(path.with_name("v"))]
    assert main(["embed", "--file", str(path), *options]) == 1
    waiting, gone = capsys.readouterr().err.splitlines()
    assert waiting.endswith("; waiting for it, for 0.01 s at most")
    assert gone.startswith("headlight: no answer from 127.0.0.1:1 (")
    assert names(path) == ["texts.txt"]


def test_a_folder_is_of_one_process(embed: Embed, servicer: Failing, path: Path) -> None:
    def another() -> None:
        assert embed()[1].startswith(f"headlight: {path.with_name('v')}.partial: another process is at work in it")
        servicer.fail()
        servicer.do()

    servicer.do = another
    assert embed()[0] == 1


def test_a_folder_with_something_else_is_left_alone(embed: Embed, servicer: Failing, path: Path) -> None:
    folder = path.with_name("v.partial")
    folder.mkdir()
    (folder / "mine").touch()
    assert embed() == (2, f"headlight: {folder}: holds mine, which is not of a job; name another --out\n")
    assert servicer.texts() == []


def test_a_record_that_was_cut_off_is_made_again(embed: Embed, servicer: Failing, path: Path, client: Client) -> None:
    servicer.fail()
    embed()
    servicer.do = lambda: None
    rows = path.with_name("v.partial") / "rows"
    os.truncate(rows, rows.stat().st_size - 1)
    assert f"which has {KEPT - 1} of 80 texts" in embed()[1]
    np.testing.assert_array_equal(vectors(path), client.encode(TEXTS))


def test_a_disk_that_fills_meanwhile_is_said_and_what_came_stays(
    target: str, embed: Embed, path: Path, client: Client
) -> None:
    """Stood in for by the largest size that a file may have: blocks of 512 bytes, or of 1024."""
    command = [sys.executable, "-m", "headlight", "embed", "--file", str(path), "--target", target]
    script = 'ulimit -f 2; exec "$0" "$@"'
    shell = ["sh", "-c", script, *command, "--format", "npz", "--out", str(path.with_name("v"))]
    done = subprocess.run(shell, stderr=subprocess.PIPE, text=True, check=False, timeout=50)
    folder = f"{path.with_name('v')}.partial"
    kept, said = done.stderr.splitlines()
    assert (done.returncode, said) == (1, f"headlight: {folder}: cannot write it: File too large")
    assert kept.endswith(f"of 80 texts are kept in {folder}; the same command goes on from there")
    assert embed()[0] == 0
    np.testing.assert_array_equal(vectors(path), client.encode(TEXTS))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_and_sigterm_keep_what_came(path: Path, number: int) -> None:
    servicer, reached, free = Failing(default_limits()), threading.Event(), threading.Event()

    def block() -> None:
        reached.set()
        free.wait(50)

    servicer.do = block
    with serving(servicer) as target:
        command = [sys.executable, "-m", "headlight", "embed", "--file", str(path), "--target", target]
        process = subprocess.Popen([*command, "--out", str(path.with_name("v"))], stderr=subprocess.PIPE, text=True)
        try:
            assert reached.wait(50)  # by the sixth request, so the second was written
            process.send_signal(number)
            _, err = process.communicate(timeout=50)
        finally:
            free.set()
            process.kill()
            process.wait()
    assert process.returncode == 128 + number
    assert err.count("\n") == 1
    kept = int(err.split()[1])
    assert kept >= 16
    assert (
        err
        == f"headlight: {kept} of 80 texts are kept in {path.with_name('v')}.partial; the same command goes on from there\n"
    )
    assert (path.with_name("v.partial") / "rows").stat().st_size % kept == 0


def test_a_link_stays_one_and_a_file_keeps_its_mode(embed: Embed, path: Path) -> None:
    elsewhere = path.with_name("elsewhere")
    elsewhere.touch(mode=0o600)
    path.with_name("v").symlink_to(elsewhere)
    assert embed()[0] == 0
    assert path.with_name("v").is_symlink()
    assert elsewhere.stat().st_mode & 0o777 == 0o600
    assert names(path) == ["elsewhere", "texts.txt", "v"]


@pytest.mark.skipif(not Path("/dev/fd").exists(), reason="names for open files")
@pytest.mark.parametrize("form", ["text", "npz"])
def test_an_open_pipe_may_be_named(embed: Embed, path: Path, form: str) -> None:
    """As `--out /dev/stdout` or `--out >(command)` do."""
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


def test_the_timeout_is_of_the_whole_job(embed: Embed, servicer: Failing, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr("headlight.job.time.monotonic", lambda: clock[0])
    servicer.do = lambda: clock.__setitem__(0, 1e9)
    code, err = embed("--timeout", "1e8")
    assert (code, err.splitlines()[-1]) == (1, "headlight: the client's timeout passed; give more time by --timeout")


def test_progress_is_told_where_it_is_wanted(embed: Embed, monkeypatch: pytest.MonkeyPatch) -> None:
    assert embed() == (0, "")
    code, err = embed("--progress")
    assert (code, err.count("\n")) == (0, 1)
    assert err.startswith("headlight: 80 of 80 texts, ")
    monkeypatch.setattr("headlight.progress.LOG_SECONDS", 0)
    assert embed("--progress")[1].count("\n") == 10
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setattr("headlight.progress.TERMINAL_SECONDS", 0)
    err = embed()[1]
    assert (err.count("\r"), err.count("\n"), err[-4:]) == (11, 0, "\r\x1b[K")
    assert embed("--no-progress") == (0, "")
