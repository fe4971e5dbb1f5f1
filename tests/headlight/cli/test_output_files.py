"""Formats by the endings of files, and what is said of a file that was written."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from headlight import Client
from headlight.cli.files import PARTIAL, UsageError
from headlight.cli.output_files import count_text, format_of, size_text
from tests.headlight.cli.conftest import Run

EMBED = ("text", "json", "jsonl", "npz", "npy")
ATTEND = ("text", "json", "npz")


@pytest.mark.parametrize(
    ("out", "asked", "formats", "expected"),
    [
        ("v.NPZ", None, EMBED, "npz"),
        ("a.b/v.jsonl", None, EMBED, "jsonl"),
        ("v.ndjson", None, EMBED, "jsonl"),
        ("v", None, EMBED, "text"),
        (".npz", None, EMBED, "text"),
        ("/dev/stdout", None, EMBED, "text"),
        ("v", "npz", EMBED, "npz"),
        ("v.dat", "npz", EMBED, "npz"),
        ("v.json", None, ATTEND, "json"),
    ],
)
def test_the_ending_decides_and_format_where_there_is_none(
    out: str, asked: str | None, formats: tuple[str, ...], expected: str
) -> None:
    assert format_of(out, asked, formats) == expected


@pytest.mark.parametrize(
    ("out", "asked", "formats", "says"),
    [
        (
            "v.npz",
            "json",
            EMBED,
            "--format json: v.npz ends in .npz; name a file that ends in .json, "
            "or leave out --format",
        ),
        (
            "v.csv",
            None,
            EMBED,
            "--out: v.csv ends in .csv; end it in .txt, .json, .jsonl, .ndjson, .npz, .npy, "
            "or name its format by --format",
        ),
    ],
)
def test_a_contradiction_and_an_unknown_ending_are_refused(
    out: str, asked: str | None, formats: tuple[str, ...], says: str
) -> None:
    with pytest.raises(UsageError) as caught:
        format_of(out, asked, formats)
    assert str(caught.value) == says


@pytest.mark.parametrize(
    ("option", "name"), [("--png", "a.jpg"), ("--png", "a"), ("--html", "a.png")]
)
def test_a_picture_and_a_page_have_their_endings(
    run: Run, tmp_path: Path, option: str, name: str
) -> None:
    path = tmp_path / name
    endings = ".png" if option == "--png" else ".html or .htm"
    said = f"headlight: {option}: {path} must end in {endings}\n"
    assert run("attend", "a b", option, str(path)) == (2, "", said)
    assert not path.exists()


def test_lines_of_json_have_a_vector_each(run: Run, client: Client, tmp_path: Path) -> None:
    texts, out = tmp_path / "t.jsonl", tmp_path / "v.jsonl"
    entries = [
        {"id": 7, "text": "one"},
        {"id": "b", "text": "word " * 50},
        {"id": "c", "text": "two words"},
    ]
    texts.write_text("".join(f"{json.dumps(entry)}\n" for entry in entries), encoding="utf-8")
    command = ["embed", "--file", str(texts), "--out", str(out), "--skip-bad"]
    code, _, err = run(*command, "--id-field", "id")
    assert code == PARTIAL
    written = err.splitlines()[-2]
    assert written.startswith(f"headlight: wrote {out}: 2 vectors of 8, float32, ")
    first, bad, last = map(json.loads, out.read_text(encoding="utf-8").splitlines())
    assert (first["id"], first["tokens"], first["truncated"]) == ("7", 3, False)
    assert (bad["id"], bad["embedding"]) == ("b", None)
    assert bad["error"].startswith("has 52 tokens")
    assert last["id"] == "c"
    np.testing.assert_array_equal(
        np.array([first["embedding"], last["embedding"]], np.float32),
        client.encode(["one", "two words"]),
    )
    assert run(*command, "--dtype", "float16", "--dtype", "ubinary")[0] == PARTIAL
    *_, last = map(json.loads, out.read_text(encoding="utf-8").splitlines())
    assert {name: len(vector) for name, vector in last["embedding"].items()} == {
        "float16": 8,
        "ubinary": 1,
    }


def test_every_kind_of_file_is_reported(run: Run, tmp_path: Path) -> None:
    for command, name, what in (
        (["tokens", "a", "b"], "t.json", "tokens of 2 texts"),
        (["info"], "i.txt", "description of fake"),
        (["heads", "a b c"], "h.npz", "6 heads over 1 text"),
        (["attend", "a b", "--layer", "0", "--head", "1"], "a.npz", "1 layer of 1 head, 4 tokens"),
        (["embed", "a", "--dtype", "ubinary"], "v.npz", "1 vector of 8, ubinary"),
    ):
        out = tmp_path / name
        answer = run(*command, "--out", str(out))
        said = f"headlight: wrote {out}: {what}, {size_text(out.stat().st_size)}\n"
        assert answer == (0, "", said)
    assert run("info", "--out", "/dev/null") == (0, "", "")  # which has no size


@pytest.mark.parametrize(
    ("size", "shown"),
    [
        (0, "0 bytes"),
        (999_949, "999.9 kB"),
        (999_950, "1.0 MB"),
        (12_345_678_900, "12.3 GB"),
        (10**15, "1,000.0 TB"),
    ],
)
def test_sizes_are_for_people(size: int, shown: str) -> None:
    assert size_text(size) == shown


def test_counts_have_their_nouns() -> None:
    assert [count_text(count, "head") for count in (0, 1, 1234)] == [
        "0 heads",
        "1 head",
        "1,234 heads",
    ]
