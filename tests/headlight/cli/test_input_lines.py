"""Input of `headlight embed`, and lines that it may skip."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pytest

from headlight import Client
from headlight.cli.commands import main
from headlight.cli.files import PARTIAL
from tests.headlight.cli.conftest import Run
from tests.headlight.fake_server import FakeServicer

LONG = "word " * 50
TEXTS = [*(f"text {number}" for number in range(20)), "", "good", LONG, "too", LONG, "x" * 2**20]
BAD = {
    21: "is empty; remove it",
    23: "has 52 tokens, the model takes 32",
    25: "has 52 tokens, the model takes 32",
    26: "takes 1048",
}
GOOD = [number for number in range(1, len(TEXTS) + 1) if number not in BAD]


@pytest.fixture
def run(command: Run, target: str) -> Run:
    """Run embed against the fake service."""
    return lambda *arguments, **options: command("embed", *arguments, "--target", target, **options)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "texts.txt"
    path.write_text("\n".join(TEXTS), encoding="utf-8")
    return path


def test_lines_that_cannot_be_encoded_are_skipped_and_listed(
    run: Run, path: Path, client: Client
) -> None:
    out = path.with_name("v.npz")
    code, _, err = run("--file", str(path), "--skip-bad", "--format", "npz", "--out", str(out))
    assert code == PARTIAL
    *lines, written, skipped = err.splitlines()
    assert skipped == f"headlight: 4 of 26 texts were skipped: listed above and in {out}"
    assert written.startswith(f"headlight: wrote {out}: 22 vectors of 8, float32, ")
    for line, (number, why) in zip(lines, BAD.items(), strict=True):
        assert line.startswith(f"headlight: {path}, line {number}: {why}")
        assert line.endswith(" (skipped)")
    with np.load(out) as archive:
        assert archive["lines"].tolist() == GOOD
        assert archive["skipped_lines"].tolist() == list(BAD)
        np.testing.assert_array_equal(
            archive["embeddings"], client.encode([TEXTS[number - 1] for number in GOOD])
        )
        assert len(archive["token_counts"]) == len(archive["truncated"]) == len(GOOD)


def test_skipped_lines_are_null_in_json_and_absent_in_text(
    run: Run, path: Path, client: Client
) -> None:
    expected = client.encode([TEXTS[number - 1] for number in GOOD])
    answer = json.loads(run("--file", str(path), "--skip-bad", "--format", "json")[1])
    found = answer["embeddings"]
    assert [place + 1 for place, vector in enumerate(found) if vector is None] == list(BAD)
    assert [
        place + 1 for place, count in enumerate(answer["token_counts"]) if count is None
    ] == list(BAD)
    assert answer["usage"]["tokens"] == sum(count for count in answer["token_counts"] if count)
    assert [error["line"] for error in answer["errors"]] == list(BAD)
    np.testing.assert_array_equal(
        np.array([vector for vector in found if vector], np.float32), expected
    )
    text = run("--file", str(path), "--skip-bad")[1]
    np.testing.assert_array_equal(np.loadtxt(io.StringIO(text), np.float32), expected)


def test_all_lines_may_be_skipped(run: Run, tmp_path: Path) -> None:
    out = tmp_path / "v.npz"
    assert run("--skip-bad", "--format", "npz", "--out", str(out), stdin="\n\n")[0] == PARTIAL
    with np.load(out) as archive:
        assert (archive["embeddings"].shape, archive["skipped_lines"].tolist()) == ((0, 8), [1, 2])


def test_without_skip_bad_the_first_bad_line_ends_the_command(
    run: Run, path: Path, tmp_path: Path
) -> None:
    code, _, err = run("--file", str(path))
    assert (code, err.count("\n")) == (2, 1)
    assert err.startswith(
        f"headlight: {path}, line 21: is empty; remove it, or put a text there, "
        "or leave such lines out by --"
    )
    # Not an error of a line.
    assert (
        run("--skip-bad", "--file", str(path), "--prompt-name", "x", "--dimensions", "-1")[0] == 2
    )
    path.write_text("\n".join(each for each in TEXTS if each), encoding="utf-8")
    out = ("--format", "npz", "--out", str(tmp_path / "v"))
    code, _, err = run("--file", str(path), *out)
    assert (code, "line 22: has 52 tokens" in err) == (2, True)
    assert err.endswith(", or leave such lines out by --skip-bad\n")
    code, _, err = run("--file", str(path), *out, "--skip-bad")  # the second run resumes
    assert (code, "going on from" in err) == (PARTIAL, True)
    assert "3 of 25 texts were skipped" in err


def test_a_resumed_run_keeps_earlier_skipped_lines(
    run: Run, path: Path, servicer: FakeServicer, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = [text or "not empty" for text in TEXTS]
    path.write_text("\n".join(texts), encoding="utf-8")
    out = ("--file", str(path), "--format", "json", "--out", str(path.with_name("v")))
    with monkeypatch.context() as patched:

        def failing(*arguments: object) -> None:
            raise OSError(28, "No space left on device")

        patched.setattr("headlight.cli.embed.embed_files.os.replace", failing)
        code, _, err = run(*out, "--skip-bad")
        assert (code, "cannot write it: No space left on device" in err) == (1, True)
    path.write_text("\n".join([*texts, "one more"]), encoding="utf-8")
    code, _, err = run(*out)
    assert (code, "was made with --skip-bad" in err) == (2, True)
    servicer.encoded.clear()
    code, _, err = run(*out, "--skip-bad")
    said = f"headlight: 3 of 27 texts were skipped: listed above and in {path.with_name('v')}"
    assert (code, err.splitlines()[-1]) == (PARTIAL, said)
    assert [item.text for request in servicer.encoded for item in request.inputs] == ["one more"]
    assert [
        error["line"] for error in json.loads(path.with_name("v").read_text())["errors"]
    ] == list(BAD)[1:]


def json_lines(path: Path, *entries: object) -> None:
    path.write_text("".join(f"{json.dumps(entry)}\n" for entry in entries), encoding="utf-8")


@pytest.mark.parametrize("suffix", [".ndjson", ".JSONL"])
def test_json_lines_are_recognised_by_the_file_name(run: Run, tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"t{suffix}"
    json_lines(path, {"id": 7, "text": "one\ntwo"}, {"text": "naïve", "id": "b"})
    assert run("--file", str(path)) == run("one\ntwo", "naïve")


def test_json_lines_are_recognised_by_the_text_field_option(
    run: Run, capsys: pytest.CaptureFixture[str], target: str, tmp_path: Path
) -> None:
    lines = '{"body": "one"}\n{"body": "two"}\n'
    assert run("--text-field", "body", stdin=lines) == run("one", "two")
    (tmp_path / "t.txt").write_text(lines)
    assert run("--file", str(tmp_path / "t.txt")) == run(*lines.splitlines())  # plain text
    for command in ("tokens", "heads"):
        file = ("--file", str(tmp_path / "t.txt"), "--text-field", "body")
        assert main([command, *file, "--target", target]) == 0
        shown = capsys.readouterr().out
        assert main([command, "one", "two", "--target", target]) == 0
        assert capsys.readouterr().out == shown


def test_ids_of_json_lines_are_in_the_output(run: Run, tmp_path: Path) -> None:
    path, out = tmp_path / "t.jsonl", tmp_path / "v"
    json_lines(
        path,
        {"text": "one", "id": 7},
        {"text": LONG, "id": "bad"},
        {"text": "two", "id": "b ü"},
        {"text": "three"},
    )
    options = ("--file", str(path), "--id-field", "id", "--skip-bad", "--out", str(out))
    assert run(*options, "--format", "npz")[0] == PARTIAL
    with np.load(out, allow_pickle=False) as archive:
        assert (archive["ids"].tolist(), archive["lines"].tolist()) == (["7", "b ü"], [1, 3])
    assert run(*options, "--format", "json")[0] == PARTIAL
    assert json.loads(out.read_text(encoding="utf-8"))["ids"] == ["7", "bad", "b ü", ""]
    assert run(*options)[2].startswith("headlight: --id-field: text and npy hold vectors alone; ")
    json_lines(path)
    assert run(*options, "--format", "npz")[0] == 0
    with np.load(out, allow_pickle=False) as archive:
        assert archive["ids"].dtype.kind == "U"


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("", "is empty; remove it, or put a JSON object there"),
        ('{"text": ', "is not JSON (column 10); mend it"),
        ("[" * 100_000, "is not JSON; mend it"),
        ('["text"]', "is not a JSON object; write one object a line"),
        ('{"id": "b"}', "has no field 'text'; name the one with the text by --text-field"),
        ('{"id": "b", "text": ""}', "has no text in the field 'text'; put one there"),
        (
            '{"id": "\\ud800", "text": "b"}',
            "holds a lone surrogate in the field 'id', which UTF-8 cannot express",
        ),
        (
            f'{{"id": "{"x" * 1001}", "text": "b"}}',
            "has more than 1000 characters in the field 'id', which --id-field names",
        ),
        ('{"id": "b\\u0000", "text": "b"}', "holds a NUL in the field 'id', which an id may not"),
        (
            '{"id": true, "text": "b"}',
            "has neither a text nor a whole number in the field 'id', which --id-field names",
        ),
    ],
)
def test_a_line_without_a_text_is_reported_or_skipped(
    run: Run, tmp_path: Path, line: str, says: str
) -> None:
    path, good = tmp_path / "t.jsonl", '{"id": "a", "text": "a"}'
    path.write_text(f"{good}\n{line}\n{good}\n", encoding="utf-8")
    options = ("--file", str(path), "--id-field", "id", "--format", "json")
    assert run(*options) == (
        2,
        "",
        f"headlight: {path}, line 2: {says}, or leave such lines out by --skip-bad\n",
    )
    code, shown, err = run(*options, "--skip-bad")
    assert (code, json.loads(shown)["errors"]) == (PARTIAL, [{"line": 2, "error": says}])
    assert err.startswith(f"headlight: {path}, line 2: {says} (skipped)\n")


def test_a_lone_surrogate_is_a_bad_line(run: Run, tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text('{"text": "\\ud800"}\n{"text": "b"}\n')
    out = tmp_path / "v"
    code, _, err = run("--file", str(tmp_path / "t.jsonl"), "--skip-bad", "--out", str(out))
    assert (code, "line 1: holds a lone surrogate" in err, len(out.read_text().splitlines())) == (
        PARTIAL,
        True,
        1,
    )


def test_field_options_for_argument_texts_are_refused(run: Run) -> None:
    assert run("a", "--text-field", "x")[2].startswith(
        "headlight: --text-field and --id-field are of lines of JSON; "
    )


def test_token_ids_are_sent_as_they_are(
    run: Run, tmp_path: Path, client: Client, servicer: FakeServicer
) -> None:
    servicer.accepts = ("ids",)
    ids = [[1, 70, 2], [1, 5, 2]]
    expected = client.encode(ids)
    shown = run("--token-ids", "1 70 2", "1,5, 2")
    np.testing.assert_array_equal(np.loadtxt(io.StringIO(shown[1]), np.float32), expected)
    assert run("--token-ids", stdin="1 70 2\r\n1\t5 2\n") == shown
    out = tmp_path / "v"
    lines = "1 70 2\na\n\n9999999999999999999\n1 5 2\n"
    code, _, err = run("--token-ids", "--skip-bad", "--out", str(out), stdin=lines)
    assert (code, err.count("(skipped)"), out.read_text()) == (PARTIAL, 3, shown[1])
    code, _, err = run("--token-ids", "1 2.5")
    assert code == 2
    assert err.startswith("headlight: text 1: is not a list of token ids; give whole numbers")


@pytest.mark.parametrize("number", ["-4", "12345678901234567890"])
def test_invalid_token_ids_are_named(run: Run, servicer: FakeServicer, number: str) -> None:
    servicer.accepts = ("ids",)
    code, _, err = run("--token-ids", stdin=f"1 2\n3 {number}\n")
    said = (
        f"headlight: standard input, line 2: holds {number}, which is not a token id; "
        "give whole numbers from 0 to "
    )
    assert (code, err.startswith(said), servicer.encoded) == (2, True, [])


def test_unsupported_inputs_are_refused_with_the_remedy(run: Run, servicer: FakeServicer) -> None:
    servicer.accepts = ("ids",)
    said = "headlight: fake takes ids, and no text; give token ids, by --token-ids\n"
    assert run("--skip-bad", stdin="a\nb\n") == (2, "", said)
    servicer.accepts = ("text", "pair")
    assert run("1 2", "--token-ids") == (
        2,
        "",
        "headlight: fake takes text or pair, and no ids; leave out --token-ids\n",
    )
    assert run("--token-ids", "--text-field", "x", stdin="{}")[2].startswith(
        "headlight: --token-ids: expects lines of whole"
    )
    assert servicer.encoded == []


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("t.txt",), "t.txt: is a file, and this would read its name; for its lines, give --file"),
        (
            ("--file", "d.csv"),
            "d.csv: is a table: convert it to Parquet, and give that to `headlight em",
        ),
        (("--file", "d.json"), "d.json: is one JSON value: write an object a line to a file that"),
        (("--file", "d.parquet"), "d.parquet: is a table: give it to `headlight em"),
    ],
)
def test_files_that_are_no_lines_of_text_are_refused_with_the_remedy(
    run: Run,
    servicer: FakeServicer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: tuple[str, ...],
    says: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("t.txt", "d.csv", "d.json", "d.parquet"):
        (tmp_path / name).write_text("a,b\n", encoding="utf-8")
    code, _, err = run(*options)
    assert (code, err.startswith(f"headlight: {says}"), servicer.encoded) == (2, True, [])


def test_a_dash_is_standard_input_and_lines_of_json_may_have_any_name(
    run: Run, tmp_path: Path
) -> None:
    expected = run("one", "two")
    assert run("--file", "-", stdin="one\ntwo\n") == expected
    assert run("--file", "-", stdin="\n")[2].startswith("headlight: standard input, line 1: ")
    json_lines(tmp_path / "d.json", {"body": "one"}, {"body": "two"})
    assert run("--file", str(tmp_path / "d.json"), "--text-field", "body") == expected
