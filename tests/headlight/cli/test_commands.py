from __future__ import annotations

import dataclasses
import json
import signal
import sys
from pathlib import Path

import grpc
import numpy as np
import pytest

import headlight
from headlight.cli.result_output import info_text
from headlight.client.sync_client import Client
from headlight.extras import remedy
from headlight.spec import VectorType
from tests.headlight.cli.conftest import Run
from tests.headlight.fake_server import FakeServicer, Refusal

BYTES = {"float32": 4, "float16": 2, "ubinary": 1}


def test_embed_writes_npz(run: Run, client: Client, tmp_path: Path) -> None:
    path = tmp_path / "no-suffix"
    code, out, err = run("embed", "one", "two", "--format", "npz", "--out", str(path))
    assert (code, out) == (0, "")
    size = path.stat().st_size
    assert err == f"headlight: wrote {path}: 2 vectors of 8, float32, {size} bytes\n"
    with np.load(path, allow_pickle=False) as archive:
        np.testing.assert_array_equal(archive["embeddings"], client.encode(["one", "two"]))
        assert json.loads(str(archive["model"]))["version"] == "1"


@pytest.mark.parametrize(("dtype", "width"), [("float32", 8), ("float16", 8), ("ubinary", 1)])
def test_embed_writes_npy_as_one_memory_mappable_array(
    run: Run, client: Client, tmp_path: Path, dtype: VectorType, width: int
) -> None:
    path, texts = tmp_path / "v.npy", [f"text {number}" for number in range(20)]
    arguments = ["embed", "--out", str(path), "--dtype", dtype]
    size = 128 + 20 * width * BYTES[dtype]
    said = f"headlight: wrote {path}: 20 vectors of 8, {dtype}, {size} bytes\n"
    assert run(*arguments, stdin="\n".join(texts).encode()) == (0, "", said)
    mapped = np.load(path, mmap_mode="r", allow_pickle=False)
    assert mapped.shape == (20, width)
    np.testing.assert_array_equal(mapped, client.encode(texts, dtype=dtype))
    assert run(*arguments)[:2] == (0, "")
    assert np.load(path).shape == (0, width)


@pytest.mark.parametrize("content", [b"one\ntwo\n", b"one\r\ntwo", b"\xef\xbb\xbfone\ntwo\n"])
def test_files_and_standard_input_are_read_as_lines(
    run: Run, tmp_path: Path, content: bytes
) -> None:
    expected = run("embed", "one", "two")
    assert run("embed", stdin=content) == expected
    (tmp_path / "texts").write_bytes(content)
    assert run("embed", "--file", str(tmp_path / "texts")) == expected


def test_truncation_is_reported(run: Run) -> None:
    code, out, err = run("embed", "short", "word " * 50, "--truncate", "end")
    assert (code, len(out.splitlines()), err) == (0, 2, "headlight: 1 of 2 texts were cut\n")


def test_info_shows_the_model(run: Run) -> None:
    code, out, _ = run("info")
    lines = out.splitlines()
    assert code == 0
    assert "architecture              3 layers of 2 heads, 8 wide, 1000 tokens known" in lines
    assert "max request bytes         1,048,576" in lines
    assert lines[-1] == "pooled     cpu fp32         1.2e-07   1.0e-05"


@pytest.mark.parametrize(
    ("trained", "says"),
    [(16, "24 tokens at most, trained on 16"), (24, "24 tokens at most")],
)
def test_info_shows_the_trained_length_only_if_it_is_known(
    client: Client, trained: int, says: str
) -> None:
    """The manifest of an imported model, of which nobody knows it, has its longest input."""
    model = dataclasses.replace(client.model(), max_length=24, trained_length=trained)
    [line] = [line for line in info_text(model).splitlines() if line.startswith("length ")]
    assert line.removeprefix("length").strip() == says


@pytest.mark.parametrize(
    ("arguments", "title"),
    [
        (["--layer", "0"], "Layer 0, mean of 2 heads"),
        (["--head", "-1"], "Layer 2, head 1"),
        (["--layer", "-2", "--head", "0"], "Layer 1, head 0"),
    ],
)
def test_attend_can_select_one_layer_or_head(run: Run, arguments: list[str], title: str) -> None:
    assert run("attend", "a b c", *arguments)[1].splitlines()[0] == title


def test_attend_writes_json_and_npz(run: Run, client: Client, tmp_path: Path) -> None:
    expected = client.attend("a b c")
    answer = json.loads(run("attend", "a b c", "--format", "json")[1])
    np.testing.assert_array_equal(np.array(answer["weights"], np.float32), expected.weights)
    assert (answer["layers"], answer["heads"]) == ([0, 1, 2], [0, 1])
    path = tmp_path / "a.npz"
    chosen = ("--layer", "1", "--head", "1")
    run("attend", *chosen, "--format", "npz", "--out", str(path), stdin=b"a b c\n")
    with np.load(path, allow_pickle=False) as archive:
        np.testing.assert_array_equal(archive["weights"], expected.weights[1:2, 1:2])
        assert archive["pieces"].tolist() == list(expected.tokens.pieces)
        assert (archive["layers"].tolist(), archive["heads"].tolist()) == ([1], [1])


def test_a_picture_alone_writes_nothing_else(run: Run, tmp_path: Path) -> None:
    code, out, err = run("attend", "a b", "--png", str(tmp_path / "a.png"))
    assert (code, out) == (0, "")
    assert err.startswith(f"headlight: wrote {tmp_path}/a.png: 3 layers of 2 heads, 4 tokens, ")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_a_page_alone_prints_nothing(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "a.html"
    code, out, err = run("attend", "a b", "--html", str(path))
    assert (code, out) == (0, "")
    assert err.startswith(f"headlight: wrote {path}: 3 layers of 2 heads, 4 tokens, ")
    assert '"layers":[0,1,2],"heads":2,"labels":["[CLS]","a","b","[SEP]"]' in path.read_text(
        encoding="utf-8"
    )


@pytest.mark.parametrize("drawn", ["--html", "--png"])
def test_a_named_output_file_is_written_in_addition_to_a_picture(
    run: Run, tmp_path: Path, drawn: str
) -> None:
    out, page = tmp_path / "out", tmp_path / drawn.replace("--", "drawn.")
    expected = run("attend", "a b")[1]
    code, shown, err = run("attend", "a b", drawn, str(page), "--out", str(out))
    assert (code, shown, err.count("headlight: wrote ")) == (0, "", 2)
    assert out.read_text(encoding="utf-8") == expected
    assert page.stat().st_size


def test_a_page_opens_at_the_selected_head(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "a.html"
    arguments = ["attend", "a b", "--html", str(path), "--head", "1"]
    answer = json.loads(run(*arguments, "--format", "json")[1])
    assert (answer["layers"], answer["heads"]) == ([2], [1])
    page = path.read_text(encoding="utf-8")
    assert '"layers":[0,1,2]' in page
    assert '"start":{"layer":2,"head":1}' in page
    assert run(*arguments, "--layer", "1")[:2] == (0, "")
    assert '"layers":[1]' in path.read_text(encoding="utf-8")


def test_a_picture_without_matplotlib_is_refused_with_the_remedy(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    code, _, err = run("attend", "a b", "--png", "a.png")
    assert (code, err) == (
        2,
        f"headlight: --png needs matplotlib: {remedy('plot')}\n",
    )


@pytest.mark.parametrize(
    ("arguments", "stdin", "says"),
    [
        (["embed"], b"\xff", "standard input: not UTF-8 (byte 0)"),
        (["embed"], b"\xef\xbb\xbfab\n\xff", "standard input: not UTF-8 (byte 6)"),
        (["embed"], b"\xef\xbb", "standard input: not UTF-8 (byte 0)"),
        (["embed", "a", "--file", "b"], b"", "not both"),
        (["embed", "--file", "/nonexistent/x"], b"", "/nonexistent/x: cannot read it"),
        (["embed", "a", "--format", "npy"], b"", "--out"),
        (["attend", "a", "--head", "9"], b"", "--head: head 9 is not here; there are 0 to 1"),
        (
            ["attend", "a", "--html", "x.html", "--head", "2"],
            b"",
            "--head: head 2 is not here; there are 0 to 1",
        ),
    ],
)
def test_errors_of_the_caller_are_one_line_and_exit_code_2(
    run: Run, arguments: list[str], stdin: bytes, says: str
) -> None:
    code, out, err = run(*arguments, stdin=stdin)
    assert (code, out) == (2, "")
    assert err.startswith("headlight: ")
    assert says in err
    assert err.count("\n") == 1


def test_what_the_service_failed_at_is_one_line_and_1(run: Run, servicer: FakeServicer) -> None:
    code, _, err = run("embed", "a", "--retry-for", "0", "--target", "127.0.0.1:1")
    assert code == 1
    assert err.startswith("headlight: no answer from 127.0.0.1:1 (")
    assert err.endswith(
        "); start a service there, or name another by --target or HEADLIGHT_TARGET\n"
    )
    trailing = (("grpc-retry-pushback-ms", "90500"),)
    servicer.refusals.append(
        Refusal(grpc.StatusCode.RESOURCE_EXHAUSTED, "the queue\nis full", trailing)
    )
    assert run("embed", "a", "--timeout", "60")[::2] == (
        1,
        "headlight: the queue is full; try again in 90.5 s\n",
    )
    assert run("embed", "a", "--timeout", "0")[2].endswith("; give more time by --timeout\n")


def test_the_version_is_shown(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        run("--version")
    assert capsys.readouterr().out == f"headlight {headlight.__version__}\n"


def test_ctrl_c_prints_no_traceback(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(client: Client) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Client, "model", interrupted)
    assert run("info") == (128 + signal.SIGINT, "", "")
