"""The meaning of MODEL: the shipped model, a bundle, a folder, a Hub id, or an error."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headlight.model_store.model_source import (
    ModelSource,
    ModelSourceError,
    find_model,
    is_hub_id,
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model's folder, as far as it is looked at before an export."""
    path = tmp_path / "model"
    (path / "1_Pooling").mkdir(parents=True)
    for name in ("config.json", "model.safetensors", "1_Pooling/config.json", "notes.log"):
        (path / name).write_bytes(name.encode())
    return path


def test_a_bundle_is_served_as_it_is(folder: Path) -> None:
    (folder / "manifest.json").touch()
    assert find_model(str(folder)) == folder


def test_a_folder_is_known_by_its_files_wherever_it_lies(folder: Path, tmp_path: Path) -> None:
    first = find_model(str(folder))
    assert isinstance(first, ModelSource)
    assert (first.location, first.name, first.revision) == (str(folder), "model", "")
    moved = folder.rename(tmp_path / "moved")
    second = find_model(str(moved))
    assert isinstance(second, ModelSource)
    assert second.digest == first.digest


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "1_Pooling/config.json"])
def test_a_changed_file_makes_another_model(folder: Path, name: str) -> None:
    before = find_model(str(folder))
    (folder / name).write_bytes(b"changed")
    assert find_model(str(folder)) != before


def test_files_that_no_export_reads_make_no_other_model(folder: Path) -> None:
    before = find_model(str(folder))
    (folder / "notes.log").write_bytes(b"changed")
    assert find_model(str(folder)) == before


def test_a_hub_id_has_the_branch_main_unless_a_revision_is_given() -> None:
    assert find_model("org/name") == ModelSource("org/name", "main")
    assert find_model("org/name", "v2") == ModelSource("org/name", "v2")


def test_a_folder_comes_before_a_hub_id(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder.parent)
    found = find_model("model")
    assert isinstance(found, ModelSource)
    assert found.digest


def test_hub_ids() -> None:
    names = ["org/name", "name", "a.b_c-d/e.f_g-h", "BAAI/bge-m3"]
    assert list(filter(is_hub_id, names)) == names
    others = ["", ".", "..", "a/b/c", "/a", "a/", "./a", "~/a", "-a/b", "a--b/c", "a..b/c", "a b"]
    assert list(filter(is_hub_id, [*others, "a/b\n"])) == []


@given(st.text())
def test_any_text_is_a_hub_id_or_a_folder_or_an_error_on_one_line(text: str) -> None:
    with pytest.raises(ModelSourceError) as caught:
        find_model(f"nowhere/{text}/nowhere")
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("x" * 1000, "xxx does not exist, and is no Hub id"),
        ("./missing", "'./missing' does not exist, and is no Hub id; name a bundle"),
        ("config.json", "'config.json' is a file; name a bundle, a model's folder, or a Hub id"),
        ("1_Pooling/..", None),
    ],
)
def test_what_is_no_model_is_refused_with_the_remedy(
    folder: Path, monkeypatch: pytest.MonkeyPatch, model: str, message: str | None
) -> None:
    monkeypatch.chdir(folder)
    if message is None:
        assert find_model(model) == find_model(str(folder))
        return
    with pytest.raises(ModelSourceError, match=message):
        find_model(model)


def test_a_folder_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        ModelSourceError, match=r"is neither a bundle \(manifest.json\) nor a model"
    ):
        find_model(str(tmp_path))


def test_a_revision_is_for_a_hub_id_alone(folder: Path) -> None:
    with pytest.raises(ModelSourceError, match=r"^--revision is for a Hub id; .* is a folder$"):
        find_model(str(folder), "main")


def test_without_a_name_the_shipped_model_is_found() -> None:
    found = find_model(None)
    assert isinstance(found, ModelSource)
    assert Path(found.location).name == "docs-rope"


def test_without_a_shipped_model_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(
        ModelSourceError, match=r"^no model is named, and none is shipped here; name"
    ):
        find_model(None)
