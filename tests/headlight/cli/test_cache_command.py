"""`headlight cache list` and `remove`, on a cache with a real bundle."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from headlight.cli.main import main
from headlight.model_store.model_cache import Entry, entry_of, make_entry
from headlight.model_store.model_source import ModelSource
from tests.conftest import MakeBundle


@pytest.fixture
def cached(make_bundle: MakeBundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Entry:
    """A model of the Hub in the cache."""
    monkeypatch.setenv("HEADLIGHT_CACHE", str(tmp_path))
    entry = entry_of(ModelSource("org/tiny", "main"), {}, {"HEADLIGHT_CACHE": str(tmp_path)})
    make_entry(entry)
    shutil.copytree(make_bundle("rope"), entry.bundle)
    path = entry.bundle / "manifest.json"
    manifest = json.loads(path.read_text(encoding="utf-8"))
    manifest["name"] = "tiny"
    manifest["source"]["hub"] = {"model": "org/tiny", "revision": "main", "commit": "ab" * 20}
    path.write_text(json.dumps(manifest), encoding="utf-8")
    return entry


def test_the_list_has_source_commit_size_and_proof(
    cached: Entry, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["cache", "list"]) == 0
    heading, line = capsys.readouterr().out.splitlines()
    assert heading.split() == ["name", "source", "precision", "size", "proof", "key"]
    assert line.split("  ")[0] == "tiny"
    assert "org/tiny @ main (abababababab)" in line
    assert " MB  |Δ| " in line
    assert line.endswith(cached.key)


def test_the_list_as_json(cached: Entry, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cache", "list", "--format", "json"]) == 0
    [model] = json.loads(capsys.readouterr().out)["models"]
    assert (model["model"], model["revision"], model["commit"]) == ("org/tiny", "main", "ab" * 20)
    assert model["bytes"] == cached.size
    assert 0 < model["pooled_max_error"] < 1e-5
    assert (model["key"], model["folder"]) == (cached.key, str(cached.folder))


@pytest.mark.parametrize("by", ["name", "id", "key"])
def test_a_model_is_removed_by_name_id_or_key(
    cached: Entry, capsys: pytest.CaptureFixture[str], by: str
) -> None:
    name = {"name": "tiny", "id": "org/tiny", "key": cached.key}[by]
    assert main(["cache", "remove", name]) == 0
    assert not cached.folder.exists()
    assert capsys.readouterr().err.startswith(f"headlight: removed {cached.folder} (")


def test_nothing_is_removed_if_one_name_is_unknown(
    cached: Entry, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["cache", "remove", "tiny", "small"]) == 2
    assert cached.complete
    assert "small: not in the cache; see `headlight cache list`" in capsys.readouterr().err


def test_an_empty_cache_says_what_fills_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HEADLIGHT_CACHE", str(tmp_path))
    assert main(["cache", "list"]) == 0
    said = capsys.readouterr()
    assert said.out == ""
    assert "holds no model; `headlight serve MODEL` exports one" in said.err
