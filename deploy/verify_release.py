"""python -m deploy.verify_release DIR: check what `make dist` wrote, or what was downloaded of it.

`make verify-release DIR=dist` runs it. It needs no network. SHA256SUMS alone can be checked by
`sha256sum --check --strict SHA256SUMS`, too. Checksums find damage; who made the files, only a
signature says, and the project has no key.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

SUMS = "SHA256SUMS"
LINE = re.compile(r"([0-9a-f]{64})  ([\w][\w.+-]*)")
# What a release has, with {} for its version: a pattern, and the number of such files.
PARTS = {
    "headlight_serving-{}-*.whl": 1,
    "headlight_serving-{}.tar.gz": 1,
    "headlight-{}-*.oci.tar": None,
    "headlight-{}-*.cdx.json": None,
    "NOTES.md": 1,
}
PART = 1 << 20  # bytes read at once
MOST_BYTES = 64 << 20  # of an index, a manifest or the wheel's metadata


class Damaged(Exception):
    """A file of a release that cannot be what it says; the message names it."""


def write_sums(folder: Path) -> None:
    """Write the digests of all files of a release beside them."""
    lines = [f"{_digest(path.open('rb'))}  {path.name}\n" for path in _files(folder)]
    (folder / SUMS).write_text("".join(lines), encoding="ascii")


def problems(folder: Path) -> Iterator[str]:
    """Yield what is wrong with a release: digests first, then versions and the images' insides."""
    try:
        listed = _read_sums(folder / SUMS)
    except FileNotFoundError:
        yield f"{folder} has no {SUMS}: name the folder of a release, as DIR=dist"
        return
    except (OSError, ValueError) as error:
        yield str(error)
        return
    present = {path.name: path for path in _files(folder)}
    yield from (f"{name} is missing" for name in sorted(listed.keys() - present.keys()))
    yield from (f"{name} is not in {SUMS}" for name in sorted(present.keys() - listed.keys()))
    damaged = {
        name
        for name in listed.keys() & present.keys()
        if _digest(present[name].open("rb")) != listed[name]
    }
    yield from (
        f"{name} is not the file of {SUMS}: its SHA-256 differs" for name in sorted(damaged)
    )
    try:
        version = _version(folder)
        for pattern, count in PARTS.items():
            matching = sorted(folder.glob(pattern.format(version)))
            if len(matching) != count and (count is not None or not matching):
                yield f"there are {len(matching)} files {pattern.format(version)}"
        for archive in sorted(folder.glob("*.oci.tar")):
            if archive.name not in damaged:
                _check_image(archive, version)
        for bill in sorted(folder.glob("*.cdx.json")):
            component = json.loads(bill.read_bytes())["metadata"]["component"]
            if component["version"] != version:
                yield f"{bill.name} is of version {component['version']}, the wheel {version}"
    except (Damaged, KeyError, ValueError, tarfile.TarError, zipfile.BadZipFile) as error:
        yield f"{type(error).__name__}: {error}"


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_file() and path.name != SUMS)


def _read_sums(path: Path) -> dict[str, str]:
    listed = {}
    for number, line in enumerate(path.read_text(encoding="ascii").splitlines(), 1):
        if (match := LINE.fullmatch(line)) is None or match[2] in listed:
            raise ValueError(
                f"{path.name}, line {number}: not one new digest and name: {line!r:.90}"
            )
        listed[match[2]] = match[1]
    return listed


def _digest(opened: IO[bytes]) -> str:
    total = hashlib.sha256()
    with opened:
        while part := opened.read(PART):
            total.update(part)
    return total.hexdigest()


def _version(folder: Path) -> str:
    """Return the version that the wheel's metadata has."""
    wheels = sorted(folder.glob("*.whl"))
    if len(wheels) != 1:
        raise Damaged(f"there are {len(wheels)} wheels; a release has one")
    with zipfile.ZipFile(wheels[0]) as opened:
        [name] = [each for each in opened.namelist() if each.endswith(".dist-info/METADATA")]
        with opened.open(name) as file:
            metadata = file.read(MOST_BYTES).decode()
    match = re.search(r"^Version: (\S+)$", metadata, re.MULTILINE)
    if match is None:
        raise Damaged(f"{wheels[0].name} has no version")
    return match[1]


def _check_image(archive: Path, version: str) -> None:
    """Check that every blob of an OCI archive has its digest, and that the label has the version.

    Raises:
        Damaged: one of them does not.
    """
    with tarfile.open(archive) as opened:
        names = set(opened.getnames())

        def blob(descriptor: dict[str, Any]) -> str:
            kind, _, digest = descriptor["digest"].partition(":")
            name = f"blobs/{kind}/{digest}"
            file = opened.extractfile(name) if kind == "sha256" and name in names else None
            if file is None or _digest(file) != digest:
                raise Damaged(f"{archive.name}: {name} is missing or has another digest")
            return name

        def document(name: str) -> dict[str, Any]:
            file = opened.extractfile(name)
            assert file is not None
            with file:
                return dict(json.loads(file.read(MOST_BYTES)))

        [entry] = document("index.json")["manifests"]
        manifest = document(blob(entry))
        for layer in manifest["layers"]:
            blob(layer)
        labels = document(blob(manifest["config"]))["config"]["Labels"]
    if (label := labels["org.opencontainers.image.version"]) != version:
        raise Damaged(f"{archive.name} is of version {label}, the wheel {version}")


def main() -> int:
    """Print what is wrong; return the exit code."""
    parser = argparse.ArgumentParser(prog="verify_release", description=__doc__)
    parser.add_argument("folder", type=Path, metavar="DIR")
    parser.add_argument("--write", action="store_true", help=f"write {SUMS} first")
    options = parser.parse_args()
    if options.write:
        write_sums(options.folder)
    wrong = list(problems(options.folder))
    sys.stdout.write("".join(f"FAILED  {line}\n" for line in wrong))
    if not wrong:
        sys.stdout.write(f"ok  {len(_files(options.folder))} files, as {SUMS} says\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
