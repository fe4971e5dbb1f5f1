"""Identity of models: their entry, when the file is read again, and the files of their bundle."""

from __future__ import annotations

import os
from pathlib import Path

from headlight.model_store.model_source import MANIFEST, SHIPPED
from headlight_service.config.model_entries import Entry

Key = tuple[str, str]  # first name of an entry, empty if the bundle gives it, and its source
Identity = tuple[object, ...]  # of the files of a folder


def key_of(entry: Entry) -> Key:
    """Return what an entry is known by when the file is read again."""
    return next(iter(entry.config.served_model_name), ""), source_of(entry)


def source_of(entry: Entry) -> str:
    """Return the source of an entry, as the options have it."""
    config = entry.config
    return str(config.bundle or next(iter(config.model), SHIPPED))


def label_of(key: Key) -> str:
    """Return the name of an entry, as far as it is known before its bundle is read."""
    name, source = key
    return name or source.rstrip("/").rpartition("/")[2]


def real_folder(bundle: Path) -> Path:
    """Return the folder of a bundle's files without links. Kubernetes mounts volumes as links."""
    return Path(os.path.realpath(bundle / MANIFEST)).parent


def identity_of(bundle: Path) -> Identity:
    """Return the place of a bundle, and names, sizes and times of its files. No file is read."""
    folder = real_folder(bundle)
    files = (Path(at) / name for at, _, names in os.walk(folder) for name in names)
    return (str(folder), *sorted((str(file), *stat_of(file)) for file in files))


def stat_of(file: Path) -> tuple[int, ...]:
    """Return what changes with the content of a file; empty: it cannot be found."""
    try:
        status = os.stat(file)
    except OSError:
        return ()
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
