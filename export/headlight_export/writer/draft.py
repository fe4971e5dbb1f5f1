"""Draft of a bundle beside its place, and the single move that puts it there."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

from headlight.runtime.bundle.manifest import FileEntry, Manifest
from headlight.runtime.bundle.manifest_fields import MANIFEST

BLOCK = 1 << 20  # bytes read at once


def save(folder: Path, manifest: Manifest) -> Manifest:
    """Write the manifest into the folder, and return it with all current files listed."""
    paths = [path for path in sorted(folder.iterdir()) if path.name != MANIFEST]
    entries = {
        path.name: FileEntry(sha256=sha256([path]), bytes=path.stat().st_size) for path in paths
    }
    manifest = dataclasses.replace(manifest, files=entries)
    (folder / MANIFEST).write_text(
        json.dumps(manifest.to_json(), indent=1) + "\n", encoding="utf-8"
    )
    return manifest


def sha256(paths: Iterable[Path]) -> str:
    """Return the hex digest of the concatenated files."""
    digest = hashlib.sha256()
    for path in paths:
        with path.open("rb") as file:
            while block := file.read(BLOCK):
                digest.update(block)
    return digest.hexdigest()


def put_in_place(out: Path, draft: Path) -> None:
    """Move the draft to `out`; an old bundle is removed only after the new one is in place."""
    if not out.exists():
        draft.rename(out)
        return
    old = draft.with_name("old")
    try:
        out.rename(old)
        draft.rename(out)
    except BaseException:  # a signal too can come between the two moves
        if not out.exists():
            old.rename(out)
        raise
