"""Options of tables that are wrong or missing, each refused in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from headlight.cli.commands import main
from tests.headlight.cli.tables.making import Run, texts, write


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--text-field", "x"), "--text-field: is not for tables; leave it out"),
        (("--skip-bad",), "--skip-bad: is not for tables; leave it out"),
        (("--format", "npz"), "--format npz: of a table, only parquet is written"),
        (("--part-rows", "0"), "--part-rows: is 0; must be from 1 to 1,000,000"),
        (("--keep-column", "embedding"), "--keep-column embedding: the output has a column of"),
        (("--out", "/nowhere/v.parquet"), "/nowhere/v.parquet: cannot write it: there is no fold"),
        (("--provider", "cpu"), "--provider: is for --local; a service has its own"),
        (("--local", "b", "--tls"), "--tls: is of a connection, and --local makes none; leave one"),
        (("--id-column", "key"), "in.parquet: has no column 'key', or several; its columns are"),
    ],
)
def test_wrong_options_are_refused_by_name(
    run: Run, tmp_path: Path, options: tuple[str, ...], message: str
) -> None:
    write(tmp_path / "in.parquet", texts(3))
    code, err = run(*options)
    assert (code, message in err, err.count("\n")) == (2, True, 1), err


@pytest.mark.parametrize(
    ("out", "message"),
    [
        ("in.parquet", "in.parquet is an input, which it would replace; name another"),
        ("docs/v.parquet", "docs/v.parquet is or lies in the input folder docs, and a later run"),
        ("docs", "docs is or lies in the input folder docs, and a later run would read it"),
    ],
)
def test_an_output_among_the_inputs_is_refused(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    out: str,
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    before = write(tmp_path / "in.parquet", texts(3)).read_bytes()
    write(tmp_path / "docs/1.parquet", texts(3))
    command = ["embed", "in.parquet", "docs", "--text-column", "body", "--out", out]
    assert main(command) == 2
    err = capsys.readouterr().err
    assert (message in err, err.count("\n")) == (True, 1), err
    assert (tmp_path / "in.parquet").read_bytes() == before


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (("docs.parquet",), "docs.parquet: name its column of texts by --text-column; give a text"),
        (("a", "--id-column", "id"), "--id-column: is for tables; add --text-column"),
        (("a", "--out", "v.parquet"), "--format parquet: is for tables; name their texts by --te"),
        (("--text-column", "a", "--out", "v"), "--text-column: name tables, as docs.parquet or a"),
        (("t", "--text-column", "a"), "--text-column: name the output by --out, as out.parquet"),
    ],
)
def test_a_table_needs_its_options(
    command: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["embed", *command]) == 2
    assert message in capsys.readouterr().err


def test_without_the_extra_the_remedy_is_named(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headlight.extras.importlib.util.find_spec", lambda name: None)
    code, err = run()
    assert (code, err) == (
        2,
        "headlight: headlight embed --text-column needs pyarrow, which is not installed: "
        "pip install '.[parquet]' in a clone of Headlight\n",
    )
