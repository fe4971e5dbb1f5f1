"""Draft of a bundle beside its place, and the single move that puts it there."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

from headlight.errors import BundleError
from headlight.runtime.bundle.manifest import FileEntry, Manifest, TokenizerLimit
from headlight.runtime.bundle.manifest_fields import MANIFEST
from headlight.runtime.tokenization.tokenizer_probe import CHARACTERS_PER_TOKEN

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


def earlier_limit(
    out: Path, tokenizer: str, measured: TokenizerLimit, max_length: int
) -> TokenizerLimit:
    """Return the limit in the bundle at `out` if it still holds, else `measured`.

    It holds if the tokenizer is the same, the limits differ by at most a factor of two, and it is
    enough for a text of `max_length` tokens. Otherwise noise of the measurement would give an
    unchanged export another manifest, and another digest to pin.
    """
    try:
        manifest = Manifest.parse(json.loads((out / MANIFEST).read_bytes()))
    except (OSError, ValueError, BundleError):
        return measured
    earlier, entry = manifest.tokenizer_limit, manifest.files.get(manifest.tokenizer or "")
    same = entry is not None and entry.sha256 == hashlib.sha256(tokenizer.encode()).hexdigest()
    if earlier is None or not same or earlier.max_characters < CHARACTERS_PER_TOKEN * max_length:
        return measured
    if not 0.5 <= measured.max_characters / earlier.max_characters <= 2:
        return measured
    return earlier


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
