"""Verified bundle directory: every byte is checked before ONNX Runtime receives any.

Each file is read once and used from memory: later changes to the folder have no effect.

Hashes inside the folder catch accidents. Against an attacker who can write the folder, pin the
manifest's digest from outside (`sha256`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path, PurePosixPath

from headlight.errors import BundleError
from headlight.runtime.bundle.file_contents import (
    File,
    OnnxGraph,
    Weights,
    check_file,
    read_file,
    read_weights,
    tensor_bytes,
)
from headlight.runtime.bundle.manifest import Graph, Manifest
from headlight.runtime.bundle.manifest_fields import MANIFEST
from headlight.runtime.bundle.onnx_file import ExternalData, external_data


def read_manifest(path: Path, sha256: str | None = None) -> tuple[Manifest, str]:
    """Return the manifest of a bundle, and its digest. No other file is read.

    Raises:
        BundleError: it cannot be read, or has another digest than `sha256`.
    """
    try:
        if not (path / MANIFEST).is_file():  # reading a FIFO would block
            raise OSError
        raw = (path / MANIFEST).read_bytes()
    except OSError:
        raise BundleError(
            f"cannot be read in {path}; is this a bundle made by `headlight export`?", MANIFEST
        ) from None
    digest = hashlib.sha256(raw).hexdigest()
    if sha256 is not None and sha256.lower() != digest:
        raise BundleError(f"has the digest {digest}, not {sha256.lower()} as demanded", MANIFEST)
    try:
        values = json.loads(raw, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):  # the latter from deeply nested brackets
        raise BundleError("is not JSON", MANIFEST) from None
    return Manifest.parse(values), digest


class Bundle:
    """A verified bundle directory.

    Attributes:
        path: the directory.
        manifest: its parsed manifest.
        sha256: hex digest of manifest.json, which pins every other file.
        files: by name, the golden inputs, the tokenizer, ranges and weights of terms, in memory.
            `release` keeps only the golden inputs.
        graphs: by name, the graphs that `opens` selected, with their weights, until `release`.
    """

    def __init__(
        self,
        path: Path,
        sha256: str | None = None,
        *,
        opens: Callable[[Graph], bool] = lambda _: False,
    ) -> None:
        """Read and verify the bundle.

        Files that the manifest does not list are ignored: volumes add files of their own.

        Args:
            path: the directory.
            sha256: the digest that manifest.json must have; None: any.
            opens: returns True for a graph that will be opened. The weights of other graphs are
                verified, but not kept in memory.

        Raises:
            BundleError: naming the file at fault.
        """
        self.path = path
        self.manifest, self.sha256 = read_manifest(path, sha256)
        self.graphs: dict[str, OnnxGraph] = {}
        self.files: dict[str, File] = {}
        self._verify(opens)

    def release(self) -> None:
        """Let go of graphs and weights after opening. What a session reads, it holds itself."""
        self.graphs.clear()
        self.files = {
            name: file for name, file in self.files.items() if name == self.manifest.golden
        }

    def file(self, name: str) -> Path:
        """Return the path of a listed file.

        Raises:
            BundleError: it is not listed, it is missing, or its name or a link leads out of the
                bundle.
        """
        if name not in self.manifest.files:
            raise BundleError("is used, but not listed in the manifest's files", name)
        pure = PurePosixPath(name)
        if pure.is_absolute() or ".." in pure.parts or "\\" in name or not pure.parts:
            raise BundleError(
                "leads out of the bundle; names must be relative and without ..", name
            )
        try:
            root, target = self.path.resolve(), (self.path / name).resolve()
            if not target.is_relative_to(root):
                raise BundleError("is a symbolic link that leads out of the bundle", name)
            if not target.is_file():
                raise BundleError("is missing", name)
            links = target.stat().st_nlink
        except (OSError, ValueError, RuntimeError):  # too long, with a NUL, or a link to itself
            raise BundleError(
                "is not a name that a file can be found by", f"{name!a:.80}"
            ) from None
        if links > 1:
            raise BundleError(
                f"is a hard link: {links} names lead to it, and each can change it; copy the file",
                name,
            )
        return target

    def _verify(self, opens: Callable[[Graph], bool]) -> None:
        manifest = self.manifest
        weights: dict[str, Weights] = {}
        opened = [graph for graph in manifest.graphs if opens(graph)]
        heavy = {name for graph in opened for name in graph.weights}
        graphs = {graph.file for graph in manifest.graphs}
        others = (manifest.golden, manifest.tokenizer, manifest.ranges, manifest.query_terms)
        small = {*others, *graphs}
        for name in small & heavy:
            raise BundleError(
                "is listed as weights and for another use; list it for one of them", name
            )
        for name, entry in manifest.files.items():
            path = self.file(name)
            if name in heavy:
                weights[name] = read_weights(path, name, entry)
            elif name in small:
                self.files[name] = read_file(path, name, entry)
            else:
                check_file(path, name, entry)
        for used in filter(None, others):
            self.file(used)
        for graph in manifest.graphs:
            for used in (*graph.weights, graph.file):
                self.file(used)
            references = self._verified_references(graph)
            if graph in opened:
                self.graphs[graph.file] = OnnxGraph(
                    self.files[graph.file].data,
                    references,
                    {name: weights[name] for name in graph.weights},
                )
        self.files = {name: file for name, file in self.files.items() if name not in graphs}

    def _verified_references(self, graph: Graph) -> tuple[ExternalData, ...]:
        """Check that a graph refers only to bytes of its declared weight files."""
        name, path = graph.file, self.file(graph.file)
        references = external_data(self.files[name].data, name)
        for reference in references:
            location = reference.location
            if location not in graph.weights:
                raise BundleError(
                    f"refers to {location!r:.80}, which the manifest does not give it", name
                )
            # Another reader of the bundle looks beside the graph file, after following its links.
            if (path.parent / location).resolve() != self.file(location):
                raise BundleError(f"would not find the verified {location} beside it", name)
            size = self.manifest.files[location].bytes
            end = reference.offset + (reference.length or 0)
            if reference.offset < 0 or (reference.length or 0) < 0 or end > size:
                raise BundleError(
                    f"refers to bytes {reference.offset}..{end} of {location}, which has {size}",
                    name,
                )
            length = size - reference.offset if reference.length is None else reference.length
            if not reference.initializer or tensor_bytes(reference) != length:
                raise BundleError(
                    (
                        f"refers to {length} bytes of {location} that are not an initialiser of "
                        "its type and shape; export again"
                    ),
                    name,
                )
        return tuple(references)


def _refuse_constant(name: str) -> None:
    """Refuse NaN and Infinity, which Python reads and JSON does not have.

    A comparison with a tolerance of NaN would never fail.
    """
    raise ValueError(name)
