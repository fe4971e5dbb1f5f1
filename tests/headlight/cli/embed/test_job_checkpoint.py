"""Checkpoints of `headlight embed` jobs.

Received rows are kept, and the same command resumes; another command is refused.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from headlight import Client
from tests.headlight.cli.embed.failing import BAD, KEPT, TEXTS, Embed, Failing, names, vectors
from tests.headlight.fake_server import default_limits, serving


def elsewhere(embed: Embed, form: str = "npz") -> tuple[int, str, list[str]]:
    """Run against a new replica; return exit code, errors, and the texts that it served.

    The first one may still serve requests of the job that failed before.
    """
    replica = Failing(default_limits())
    with serving(replica) as target:
        code, err = embed(form=form, target=target)
    return code, err, replica.texts()


@pytest.mark.parametrize("form", ["npz", "json", "text"])
def test_the_same_command_resumes_from_the_received_rows(
    embed: Embed, servicer: Failing, path: Path, client: Client, form: str
) -> None:
    assert embed(form=form)[0] == 0
    expected = path.with_name("v").read_bytes()
    path.with_name("v").write_bytes(b"as it was")
    servicer.fail()
    code, err = embed(form=form)
    kept = (
        f"headlight: {KEPT} of 80 texts are kept in {path.with_name('v')}.partial; "
        "the same command goes on from there"
    )
    assert (code, err.splitlines()) == (1, [kept, "headlight: error 4f2a"])
    assert path.with_name("v").read_bytes() == b"as it was"
    code, err, served = elsewhere(embed, form=form)
    going_on, written = err.splitlines()
    assert (code, going_on) == (
        0,
        f"headlight: going on from {path.with_name('v')}.partial, which has {KEPT} of 80 texts",
    )
    assert written.startswith(f"headlight: wrote {path.with_name('v')}: 80 vectors of 8, float32, ")
    assert sorted(served) == sorted(TEXTS[KEPT:])
    assert names(path) == ["texts.txt", "v"]
    servicer.do = lambda: None
    if form == "npz":  # a zip entry has the time of its parts
        np.testing.assert_array_equal(vectors(path), client.encode(TEXTS))
    else:
        assert path.with_name("v").read_bytes() == expected


def test_unfinished_texts_may_be_corrected_and_added(
    embed: Embed, servicer: Failing, path: Path, client: Client
) -> None:
    texts = [*TEXTS[:BAD], "word " * 50, *TEXTS[BAD + 1 :]]
    path.write_text("\n".join(texts), encoding="utf-8")
    code, err = embed()
    assert (code, err.splitlines()[1][: len(f"headlight: {path}, line 46: has 52 tokens")]) == (
        2,
        f"headlight: {path}, line 46: has 52 tokens",
    )
    texts[BAD:] = ["mended", "and", *TEXTS]
    path.write_text("\n".join(texts), encoding="utf-8")
    code, _, served = elsewhere(embed)
    assert (code, sorted(served)) == (0, sorted(texts[KEPT:]))
    np.testing.assert_array_equal(vectors(path), client.encode(texts))


@pytest.mark.parametrize(
    "options",
    [
        ["--dimensions", "4"],
        ["--truncate", "end"],
        ["--prompt", "x"],
        ["--special-tokens", "text"],
        ["--no-normalize"],
    ],
)
def test_resuming_with_other_embedding_options_is_refused(
    embed: Embed, servicer: Failing, path: Path, options: list[str]
) -> None:
    servicer.fail()
    embed()
    code, err = embed(*options)
    folder = path.with_name("v.partial")
    assert code == 2
    assert err.startswith(f"headlight: {folder}: holds vectors made with another --")
    assert options[0].replace("no-", "") in err
    assert err.endswith("; remove it to begin anew, or name another --out\n")
    servicer.do = lambda: None
    assert embed()[0] == 0  # no row is lost


def test_resuming_with_types_in_another_order_is_refused(embed: Embed, servicer: Failing) -> None:
    """A record has the vectors of each type in the requested order."""
    servicer.fail()
    embed("--dtype", "int8", "--dtype", "binary")
    code, err = embed("--dtype", "binary", "--dtype", "int8")
    assert (code, "made with another --dtype or --dimensions;" in err) == (2, True)
    servicer.do = lambda: None
    assert embed("--dtype", "int8", "--dtype", "binary")[0] == 0


@pytest.mark.parametrize("option", ["--text-field", "--id-field"])
def test_resuming_with_other_fields_is_refused(
    embed: Embed, servicer: Failing, path: Path, option: str
) -> None:
    """With other fields, encoded lines might become bad ones."""
    texts = [
        {"text": text} if at == 1 else {"text": text, "name": text} for at, text in enumerate(TEXTS)
    ]
    lines = path.with_name("t.jsonl")
    lines.write_text("\n".join(map(json.dumps, texts)), encoding="utf-8")
    servicer.fail()
    options = ("--file", str(lines), "--skip-bad")
    assert embed(*options)[0] == 1
    code, err = embed(*options, option, "name")
    assert (code, f"made with another {option};" in err) == (2, True)
    servicer.do = lambda: None
    assert embed(*options)[0] == 0


def test_resuming_with_other_weights_or_texts_is_refused(
    embed: Embed, servicer: Failing, path: Path
) -> None:
    servicer.fail()
    embed()
    folder = path.with_name("v.partial")
    path.write_text("\n".join([*TEXTS[:3], "another", *TEXTS[4:]]), encoding="utf-8")
    said = (
        f"headlight: {folder}: was made of another text 4; remove it to begin anew, "
        "or name another --out\n"
    )
    assert embed() == (2, said)
    path.write_text("\n".join(TEXTS[:7]), encoding="utf-8")
    assert embed() == (2, said.replace("text 4", "text 8"))
    job = folder / "job.json"
    job.write_text(job.read_text().replace("abab", "cdcd"), encoding="utf-8")
    assert "made with another model or precision;" in embed()[1]
    job.write_text("{", encoding="utf-8")
    assert "begun by another version of this command" in embed()[1]


def test_a_checkpoint_folder_is_locked_by_one_process(
    embed: Embed, servicer: Failing, path: Path
) -> None:
    said: list[str] = []

    def another() -> None:
        said.append(embed()[1])
        servicer.fail()
        servicer.do()

    servicer.do = another
    assert embed()[0] == 1
    (line,) = said
    assert line.startswith(
        f"headlight: {path.with_name('v')}.partial: another process is at work in it"
    )


def test_a_folder_with_foreign_files_is_not_changed(
    embed: Embed, servicer: Failing, path: Path
) -> None:
    folder = path.with_name("v.partial")
    folder.mkdir()
    (folder / "mine").touch()
    assert embed() == (
        2,
        f"headlight: {folder}: holds mine, which is not a file of a job; choose another --out\n",
    )
    assert servicer.texts() == []
