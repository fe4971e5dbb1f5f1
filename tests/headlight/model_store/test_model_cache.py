"""The cache of exports: its place, its keys, its locks."""

from __future__ import annotations

import dataclasses
import multiprocessing
import stat
from multiprocessing.synchronize import Event
from pathlib import Path

import pytest

from headlight.model_store.model_cache import (
    Entry,
    cache_folder,
    entries,
    entry_of,
    locked,
    make_entry,
    remove_entry,
)
from headlight.model_store.model_source import ModelSource, ModelSourceError

TINY = ModelSource("org/tiny", "main")


@pytest.mark.parametrize(
    ("environ", "folder"),
    [
        ({"HEADLIGHT_CACHE": "/a", "XDG_CACHE_HOME": "/b", "HOME": "/c"}, "/a"),
        ({"XDG_CACHE_HOME": "/b", "HOME": "/c"}, "/b/headlight"),
        ({"XDG_CACHE_HOME": "not/absolute", "HOME": "/c"}, "/c/.cache/headlight"),
    ],
)
def test_the_place_of_the_cache(environ: dict[str, str], folder: str) -> None:
    assert cache_folder(environ) == Path(folder)


def test_without_a_home_the_message_names_what_to_set() -> None:
    with pytest.raises(ModelSourceError, match=r"^there is no HOME .*; set HEADLIGHT_CACHE"):
        cache_folder({})


def entry(cache: Path, source: ModelSource = TINY, **options: object) -> Entry:
    return entry_of(source, options, {"HEADLIGHT_CACHE": str(cache)})


def complete(cache: Path, source: ModelSource = TINY) -> Entry:
    made = entry(cache, source)
    make_entry(made)
    made.bundle.mkdir()
    (made.bundle / "manifest.json").write_text('{"name": "tiny"}', encoding="utf-8")
    return made


def test_the_name_of_an_entry_can_be_read(tmp_path: Path) -> None:
    assert entry(tmp_path).folder.name.startswith("org-tiny-")


@pytest.mark.parametrize(
    ("source", "options"),
    [
        (dataclasses.replace(TINY, revision="v2"), {}),
        (dataclasses.replace(TINY, location="org/small"), {}),
        (ModelSource("org/tiny", digest="ab"), {}),
        (TINY, {"precision": "int8"}),
        (TINY, {"max_length": 64}),
    ],
)
def test_source_revision_and_options_have_entries_of_their_own(
    tmp_path: Path, source: ModelSource, options: dict[str, object]
) -> None:
    assert entry(tmp_path, source, **options).key != entry(tmp_path).key


def test_the_same_files_elsewhere_have_the_same_entry(tmp_path: Path) -> None:
    first, second = (ModelSource(f"/{place}/tiny", digest="ab") for place in ("a", "b"))
    assert entry(tmp_path, first) == entry(tmp_path, second)


def test_another_version_of_the_exporter_exports_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = entry(tmp_path)
    monkeypatch.setattr("headlight.model_store.model_cache.__version__", "99")
    assert entry(tmp_path) != before


def test_folders_are_for_their_owner_alone(tmp_path: Path) -> None:
    made = entry(tmp_path / "cache")
    make_entry(made)
    for folder in (made.folder, made.folder.parent):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_only_complete_models_are_listed(tmp_path: Path) -> None:
    environ = {"HEADLIGHT_CACHE": str(tmp_path)}
    assert entries(environ) == []
    make_entry(entry(tmp_path, ModelSource("org/other", "main")))
    made = complete(tmp_path)
    assert entries(environ) == [made]
    assert made.manifest() == {"name": "tiny"}
    assert made.size == len('{"name": "tiny"}')


def hold(folder: Path, held: Event, end: Event) -> None:
    with locked(folder, wait=True):
        held.set()
        end.wait()


def test_a_model_that_another_process_exports_is_not_removed(tmp_path: Path) -> None:
    made = complete(tmp_path)
    spawn = multiprocessing.get_context("spawn")
    held, end = spawn.Event(), spawn.Event()
    other = spawn.Process(target=hold, args=(made.folder, held, end))
    other.start()
    try:
        assert held.wait(60)
        with pytest.raises(ModelSourceError, match="is being exported; try again after that"):
            remove_entry(made)
        assert made.complete
    finally:
        other.kill()  # the lock ends with the process
        other.join()
    remove_entry(made)
    assert not made.folder.exists()
