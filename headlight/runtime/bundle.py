"""Opening a bundle: nothing is handed to ONNX Runtime before every byte of it is known to be what the exporter wrote.

Hashes inside the folder catch accidents. Against someone who can write the folder, pin the manifest's digest from outside (`sha256`).
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path, PurePosixPath

from headlight.errors import BundleError
from headlight.runtime.fields import MANIFEST
from headlight.runtime.manifest import Manifest
from headlight.runtime.onnxfile import external_data


class Bundle:
    """A verified bundle directory.

    Attributes:
        path: the directory.
        manifest: its parsed manifest.
        sha256: hex digest of manifest.json, which pins every other file.
    """

    def __init__(self, path: Path, sha256: str | None = None) -> None:
        """Read and verify. Files that the manifest does not list are ignored: volumes bring neighbours of their own.

        Args:
            path: the directory.
            sha256: the digest that manifest.json must have; None to take it as it is.

        Raises:
            BundleError: naming the file at fault.
        """
        self.path = path
        try:
            raw = (path / MANIFEST).read_bytes()
        except OSError:
            raise BundleError(
                f"cannot be read in {path}; is this a bundle made by `python -m export`?", MANIFEST
            ) from None
        self.sha256 = hashlib.sha256(raw).hexdigest()
        if sha256 is not None and sha256.lower() != self.sha256:
            raise BundleError(f"has the digest {self.sha256}, not {sha256.lower()} as demanded", MANIFEST)
        try:
            values = json.loads(raw, parse_constant=_refuse_constant)
        except (ValueError, RecursionError):  # the latter from brackets nested without end
            raise BundleError("is not JSON", MANIFEST) from None
        self.manifest = Manifest.parse(values)
        self._verify()

    def file(self, name: str) -> Path:
        """The path of a listed file.

        Raises:
            BundleError: it is not listed, it is missing, or its name or a link leads out of the bundle.
        """
        if name not in self.manifest.files:
            raise BundleError("is used, but not listed in the manifest's files", name)
        pure = PurePosixPath(name)
        if pure.is_absolute() or ".." in pure.parts or "\\" in name or not pure.parts:
            raise BundleError("leads out of the bundle; names must be relative and without ..", name)
        try:
            root, target = self.path.resolve(), (self.path / name).resolve()
            if not target.is_relative_to(root):
                raise BundleError("is a symbolic link that leads out of the bundle", name)
            if not target.is_file():
                raise BundleError("is missing", name)
            links = target.stat().st_nlink
        except (OSError, ValueError, RuntimeError):  # too long, with a zero byte, a link to itself
            raise BundleError("is not a name that a file can be found by", f"{name!a:.80}") from None
        if links > 1:
            raise BundleError(f"is a hard link: {links} names lead to it, any of which can change it; copy it", name)
        return target

    def _verify(self) -> None:
        for name, entry in self.manifest.files.items():
            path = self.file(name)
            try:
                size = path.stat().st_size
                if size != entry.bytes:
                    raise BundleError(f"has {size} bytes; the manifest says {entry.bytes}", name)
                with path.open("rb") as file:
                    if hashlib.file_digest(file, "sha256").hexdigest() != entry.sha256:
                        raise BundleError("was altered: its SHA-256 is not the one in the manifest", name)
            except OSError as error:
                raise BundleError(f"cannot be read: {error.strerror}", name) from None
        self.file(self.manifest.golden)
        for used in (self.manifest.tokenizer, self.manifest.ranges):
            if used is not None:
                self.file(used)
        for graph in self.manifest.graphs:
            for weights in graph.weights:
                self.file(weights)
            self._verify_references(graph.file, graph.weights)

    def _verify_references(self, graph: str, weights: tuple[str, ...]) -> None:
        """A graph may only refer to its declared weight files, and to bytes that these have."""
        path = self.file(graph)
        for reference in external_data(path, graph):
            if reference.location not in weights:
                raise BundleError(f"refers to {reference.location!r:.80}, which the manifest does not give it", graph)
            # ONNX Runtime looks beside the graph, wherever a link has led to that: it must find the file that was hashed.
            if (path.parent / reference.location).resolve() != self.file(reference.location):
                raise BundleError(f"would not find the verified {reference.location} beside it", graph)
            size = self.manifest.files[reference.location].bytes
            end = reference.offset + (reference.length or 0)
            if reference.offset < 0 or (reference.length or 0) < 0 or end > size:
                raise BundleError(
                    f"refers to bytes {reference.offset}..{end} of {reference.location}, which has {size}", graph
                )


def _refuse_constant(name: str) -> None:
    """NaN and Infinity, which Python reads and JSON has not: no comparison with a tolerance of NaN ever fails."""
    raise ValueError(name)
