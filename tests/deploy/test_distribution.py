"""Archives that hold too little or too much, and the notes of a release."""

from __future__ import annotations

import io
import tarfile
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from deploy.distribution import EXPECTED, contents, release_notes

Write = Callable[[Path, Iterable[str]], Path]
STRANGERS = (
    "tests/test_docs.py",
    "headlight/__pycache__/a.cpython-311.pyc",
    ".env",
    "headlight_model/checkpoints/docs-sinusoidal/model.safetensors",
)


def wheel(folder: Path, names: Iterable[str]) -> Path:
    path = folder / "h-1.whl"
    licences = {
        "LICENSE": "h-1.dist-info/licenses/LICENSE",
        "NOTICE": "h-1.dist-info/licenses/NOTICE",
    }
    with zipfile.ZipFile(path, "w") as opened:
        for name in names:
            opened.writestr(licences.get(name, name), "")
    return path


def sdist(folder: Path, names: Iterable[str]) -> Path:
    path = folder / "h-1.tar.gz"
    places = {
        "headlight_service": "service/",
        "headlight_export": "export/",
        "headlight_model": "model/",
    }
    with tarfile.open(path, "w:gz") as opened:
        for name in names:
            place = places.get(name.split("/")[0], "")
            opened.addfile(tarfile.TarInfo(f"h-1/{place}{name}"), io.BytesIO())
    return path


@pytest.mark.parametrize("write", [wheel, sdist])
def test_what_is_missing_and_what_does_not_belong_there_is_found(
    write: Write, tmp_path: Path
) -> None:
    assert list(contents(write(tmp_path, EXPECTED))) == []
    [problem] = contents(write(tmp_path, EXPECTED[1:]))
    assert problem.endswith(f"{EXPECTED[0]} is missing")
    for name in STRANGERS:
        [problem] = contents(write(tmp_path, [*EXPECTED, name]))
        assert name in problem


def test_notes_are_the_newest_section_that_says_anything() -> None:
    newest = "## [0.2.0] - 2026-12-01\n\n- [New](a.md).\n"
    changelog = f"# Changelog\n\n## [Unreleased]\n\n{newest}\n## [0.1.0]\n\n- Old.\n"
    address = "https://e.example"
    expected = "# Headlight 0.2.0\n\n- [New](https://e.example/a.md).\n"
    assert release_notes(changelog, "0.2.0", address) == expected
    more = changelog.replace("[Unreleased]\n", "[Unreleased]\n\n- More.\n")
    assert release_notes(more, "0.2.0") == "# Headlight Unreleased, after 0.2.0\n\n- More.\n"
    with pytest.raises(ValueError, match="no section"):
        release_notes("# Changelog\n", "0.2.0")
