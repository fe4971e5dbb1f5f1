"""`make verify-release`: files of a release that are missing, added or changed are reported."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from deploy.verify_release import SUMS, problems, write_sums

VERSION = "7.0.0"
WHEEL, IMAGE = f"headlight_serving-{VERSION}-py3-none-any.whl", f"headlight-{VERSION}-cpu.oci.tar"
BILL = f"headlight-{VERSION}-cpu.cdx.json"


def write_wheel(folder: Path) -> None:
    with zipfile.ZipFile(folder / WHEEL, "w") as wheel:
        wheel.writestr(f"headlight_serving-{VERSION}.dist-info/METADATA", f"Version: {VERSION}\n")


def write_image(folder: Path, version: str = VERSION, layer: bytes = b"a layer") -> None:
    """Write an OCI archive of one layer; the manifest has the digest of b"a layer"."""
    files: dict[str, bytes] = {}

    def add(content: bytes, stored: bytes | None = None) -> dict[str, str]:
        digest = hashlib.sha256(content).hexdigest()
        files[f"blobs/sha256/{digest}"] = content if stored is None else stored
        return {"digest": f"sha256:{digest}"}

    labels = {"org.opencontainers.image.version": version}
    config = add(json.dumps({"config": {"Labels": labels}}).encode())
    manifest = add(
        json.dumps({"config": config, "layers": [add(b"a layer", stored=layer)]}).encode()
    )
    files["index.json"] = json.dumps({"manifests": [manifest]}).encode()
    with tarfile.open(folder / IMAGE, "w") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))


def write_bill(folder: Path, version: str = VERSION) -> None:
    component = {"metadata": {"component": {"version": version}}}
    (folder / BILL).write_text(json.dumps(component), encoding="utf-8")


@pytest.fixture
def release(tmp_path: Path) -> Path:
    write_wheel(tmp_path)
    write_image(tmp_path)
    write_bill(tmp_path)
    (tmp_path / f"headlight_serving-{VERSION}.tar.gz").write_bytes(b"source")
    (tmp_path / "NOTES.md").write_text("# Headlight\n", encoding="utf-8")
    write_sums(tmp_path)
    return tmp_path


def test_a_whole_release_has_no_problem(release: Path) -> None:
    assert list(problems(release)) == []
    assert len((release / SUMS).read_text(encoding="ascii").splitlines()) == 5


@pytest.mark.parametrize("name", [WHEEL, IMAGE, BILL, f"headlight_serving-{VERSION}.tar.gz"])
def test_a_file_with_one_other_byte_is_reported(release: Path, name: str) -> None:
    content = bytearray((release / name).read_bytes())
    content[len(content) // 2] ^= 1
    (release / name).write_bytes(content)
    assert any(line.startswith(f"{name} is not the file of") for line in problems(release))


def test_missing_and_added_files_are_reported(release: Path) -> None:
    (release / "NOTES.md").rename(release / "notes.txt")
    lines = list(problems(release))
    assert "NOTES.md is missing" in lines
    assert f"notes.txt is not in {SUMS}" in lines


def test_a_folder_without_a_release_is_named(tmp_path: Path) -> None:
    assert list(problems(tmp_path)) == [
        f"{tmp_path} has no {SUMS}: name the folder of a release, as DIR=dist"
    ]


def test_a_list_that_names_another_folder_is_refused(release: Path) -> None:
    (release / SUMS).write_text(f"{'0' * 64}  ../NOTES.md\n", encoding="ascii")
    [line] = problems(release)
    assert "line 1: not one new digest and name" in line


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda folder: write_image(folder, layer=b"another"), "has another digest"),
        (lambda folder: write_image(folder, version="6.0.0"), "is of version 6.0.0"),
        (lambda folder: write_bill(folder, version="6.0.0"), "is of version 6.0.0"),
        (lambda folder: (folder / IMAGE).unlink(), "there are 0 files headlight-7.0.0-*.oci.tar"),
        (lambda folder: (folder / IMAGE).write_bytes(b"no archive"), "ReadError"),
    ],
)
def test_new_checksums_do_not_hide_what_does_not_fit(
    release: Path, change: Callable[[Path], None], said: str
) -> None:
    change(release)
    write_sums(release)
    assert any(said in line for line in problems(release)), list(problems(release))
