"""Cache of exported models: one folder for each source, revision, exporter and set of options."""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from headlight import __version__
from headlight.model_store.model_source import MANIFEST, ModelSource, ModelSourceError

VARIABLE = "HEADLIGHT_CACHE"
KEY_DIGITS = 12
PRIVATE = 0o700


@dataclasses.dataclass(frozen=True)
class Entry:
    """One model of the cache.

    Attributes:
        folder: `<name>-<key>` in the cache.
    """

    folder: Path

    @property
    def bundle(self) -> Path:
        """The bundle's folder."""
        return self.folder / "bundle"

    @property
    def complete(self) -> bool:
        """Whether the bundle exists: it is moved to its place in one step."""
        return (self.bundle / MANIFEST).is_file()

    @property
    def key(self) -> str:
        """Hexadecimal digits of the source, the exporter and its options."""
        return self.folder.name.rpartition("-")[2]

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(path.stat().st_size for path in self.folder.rglob("*") if path.is_file())

    def manifest(self) -> Mapping[str, object]:
        """Return the bundle's manifest, unchecked."""
        fields: dict[str, object] = json.loads((self.bundle / MANIFEST).read_text(encoding="utf-8"))
        return fields


def cache_folder(environ: Mapping[str, str]) -> Path:
    """Return $HEADLIGHT_CACHE, else `headlight` in the user's folder for caches.

    Raises:
        ModelSourceError: neither is known.
    """
    if named := environ.get(VARIABLE):
        return Path(named).absolute()
    # XDG Base Directory Specification: a path that is not absolute is ignored.
    general = Path(environ.get("XDG_CACHE_HOME", ""))
    if general.is_absolute():
        return general / "headlight"
    if home := environ.get("HOME"):
        return Path(home) / ".cache" / "headlight"
    raise ModelSourceError(
        f"there is no HOME to keep exported models in; set {VARIABLE} to a folder"
    )


def entry_of(
    source: ModelSource, options: Mapping[str, object], environ: Mapping[str, str]
) -> Entry:
    """Return the entry of a source's export, which may not exist yet.

    Args:
        source: the model.
        options: options of the exporter that change the bundle.
        environ: the environment, which names the cache.
    """
    # A folder is identified by its files: the same files elsewhere have the same bundle.
    known = [source.digest or source.location, source.revision, __version__, {**options}]
    text = json.dumps(known, sort_keys=True)
    key = hashlib.sha256(text.encode()).hexdigest()[:KEY_DIGITS]
    place = source.name if source.digest else source.location
    readable = re.sub(r"[^\w.]+", "-", place, flags=re.ASCII).strip("-.") or "model"
    return Entry(cache_folder(environ) / f"{readable}-{key}")


def entries(environ: Mapping[str, str]) -> list[Entry]:
    """Return the complete models of the cache, by name."""
    folder = cache_folder(environ)
    folders = sorted(folder.iterdir()) if folder.is_dir() else []
    return [entry for entry in map(Entry, folders) if entry.complete]


def make_entry(entry: Entry) -> None:
    """Make the folder of an entry, only for this user. Raises OSError if that fails."""
    entry.folder.parent.mkdir(mode=PRIVATE, parents=True, exist_ok=True)
    entry.folder.mkdir(mode=PRIVATE, exist_ok=True)


def remove_entry(entry: Entry) -> None:
    """Remove a model. Services that run with it are not affected: they hold its files in memory.

    Raises:
        ModelSourceError: an export is writing the model.
        OSError: the model cannot be removed.
    """
    with locked(entry.folder, wait=False) as held:
        if not held:
            raise ModelSourceError(f"{entry.folder.name} is being exported; try again after that")
        shutil.rmtree(entry.folder)


@contextlib.contextmanager
def locked(folder: Path, *, wait: bool) -> Iterator[bool]:
    """Lock a folder for this process. The lock ends with the process, even after a crash.

    Yields:
        Whether the folder is locked; with `wait` always True.
    """
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(opened)
