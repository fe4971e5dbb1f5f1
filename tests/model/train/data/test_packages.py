from __future__ import annotations

import json
from pathlib import Path

import pytest

from headlight_model.texts import corpus
from headlight_model.texts.corpus import TEST_PACKAGES, VALIDATION_PACKAGES, Part, Source
from headlight_model.train.data import packages
from headlight_model.train.data.packages import MANIFEST, Package


def test_constraint_names_are_normalised(tmp_path: Path) -> None:
    (tmp_path / "constraints.txt").write_text(
        "# a == comment\nJinja2==3.1\nhf_xet.more==1\nloose\n", encoding="utf-8"
    )
    assert packages.pinned(tmp_path / "constraints.txt") == ["hf-xet-more", "jinja2"]


def test_an_installed_package_is_described() -> None:
    found = packages.package("tqdm")
    assert found is not None
    assert found.version
    assert "MIT" in found.licence
    modules = [module for module, _ in found.files]
    assert modules == sorted(modules)
    assert {"tqdm", "tqdm.std"} <= set(modules)
    texts = packages.read(found)
    assert {source.package for source in texts} == {"tqdm"}
    assert {source.part for source in texts} == {Part.TEST}


def test_a_package_that_is_not_installed_is_none() -> None:
    assert packages.package("no-such-package-anywhere") is None


def test_a_repeated_text_counts_once_and_belongs_to_the_test_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "same.py").write_text("x = 1\n", encoding="utf-8")
    (tmp_path / "own.py").write_text("y = 1\n", encoding="utf-8")
    shared, own = ("same", tmp_path / "same.py"), ("own", tmp_path / "own.py")
    chosen = (
        Package("a-trained-one", "1", "MIT", (own, shared)),
        Package("click", "1", "MIT", (shared,)),
    )
    monkeypatch.setattr(packages, "packages", lambda: chosen)
    assert packages.sources.__wrapped__() == (
        Source("same", "x = 1\n", "click"),
        Source("own", "y = 1\n", "a-trained-one"),
    )


def test_long_and_unreadable_files_are_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packages, "LONGEST", 10)
    contents = {"long": b"x" * 11, "latin": b"\xe9", "empty": b"", "good": b"x = 1"}
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    files = tuple((name, tmp_path / name) for name in (*contents, "missing"))
    assert [source.module for source in packages.read(Package("p", "1", "MIT", files))] == ["good"]


def test_the_digest_depends_on_every_text() -> None:
    one, two = Source("a", "x"), Source("b", "x")
    assert packages.digest([one, two]) != packages.digest([two, one]) != packages.digest([one])


def test_parts_are_disjoint() -> None:
    assert TEST_PACKAGES.isdisjoint(VALIDATION_PACKAGES)
    assert corpus.part_of_package("networkx") is Part.TEST
    assert corpus.part_of_package("virtualenv") is Part.VALIDATION
    assert corpus.part_of_package("torch") is Part.TRAINING


def test_the_manifest_lists_what_constraints_pin() -> None:
    listed = {
        entry["name"]: entry
        for entry in json.loads(MANIFEST.read_text(encoding="utf-8"))["packages"]
    }
    assert {*TEST_PACKAGES, *VALIDATION_PACKAGES, "torch", "sympy", corpus.STDLIB} <= set(listed)
    assert set(listed) - {corpus.STDLIB} <= set(packages.pinned())
    for name, entry in listed.items():
        assert entry["licence"], name
        assert entry["characters"] > 0
        assert len(entry["sha256"]) == 64
        assert name == corpus.STDLIB or entry["part"] == corpus.part_of_package(name).value
