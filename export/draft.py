"""A bundle in the making: its files listed, its manifest written, and at the end all of it moved into place at once."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from pathlib import Path

from headlight.runtime.fields import MANIFEST
from headlight.runtime.manifest import FileEntry, Manifest


def entries(folder: Path) -> dict[str, FileEntry]:
    """Digest and size of every file in a folder but the manifest."""
    paths = [path for path in sorted(folder.iterdir()) if path.name != MANIFEST]
    return {path.name: FileEntry(sha256=_sha256(path), bytes=path.stat().st_size) for path in paths}


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def save(folder: Path, manifest: Manifest) -> Manifest:
    """Write the manifest, all files as they now are in it."""
    manifest = dataclasses.replace(manifest, files=entries(folder))
    write_manifest(folder, manifest)
    return manifest


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write the manifest as it is."""
    (folder / MANIFEST).write_text(json.dumps(manifest.to_json(), indent=1) + "\n", encoding="utf-8")


def replace(out: Path, draft: Path) -> None:
    """Move the draft into place; an old bundle is gone only once the new one stands."""
    if not out.exists():
        draft.rename(out)
        return
    old = draft.with_name("old")
    out.rename(old)
    try:
        draft.rename(out)
    except OSError:
        old.rename(out)
        raise
