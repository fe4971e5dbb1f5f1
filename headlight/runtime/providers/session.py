"""Interface of an opened graph, for every library, and its check against the manifest."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Protocol

from headlight.errors import BundleError
from headlight.outputs.registry import OUTPUTS
from headlight.runtime.bundle.manifest import Graph, Manifest
from headlight.runtime.values import Architecture, Arrays

Shape = tuple[int | str | None, ...]  # a number, or any other value if the size varies


class Session(Protocol):
    """Opened graph, which any number of threads may run.

    Attributes:
        inputs: the names of its inputs.
        outputs: the shape of each output, by name.
    """

    inputs: frozenset[str]
    outputs: dict[str, Shape]

    def run(
        self, names: Sequence[str], feeds: Arrays, buffers: Arrays, *, wide: bool = False
    ) -> contextlib.AbstractContextManager[Arrays]:
        """Run one batch.

        Args:
            names: names of the requested outputs.
            feeds: all inputs, C-contiguous.
            buffers: C-contiguous arrays of the right shape and type, for some of the outputs.
            wide: use all threads, if the session was opened for that.

        Returns:
            The outputs named. They are valid until the context ends; copy them to keep them.
        """

    def shrink(self, feeds: Arrays) -> None:
        """Give back the memory of earlier batches, if possible, by running the batch `feeds`."""


def check_interface(session: Session, graph: Graph, manifest: Manifest) -> None:
    """Check that a graph has the manifest's inputs and outputs, in the sizes of its architecture.

    Raises:
        BundleError: naming the difference.
    """
    # A mismatch would pool prompts against the manifest, or leave an input without a feed.
    encodes = graph.role != "head"
    if encodes and ("pool_mask" in graph.inputs) == manifest.include_prompt:
        must = "must not take pool_mask" if manifest.include_prompt else "must take pool_mask"
        raise BundleError(
            f"{must}: the manifest's include_prompt is {str(manifest.include_prompt).lower()}",
            graph.file,
        )
    outputs = session.outputs
    for verb, actual, declared in (
        ("takes", session.inputs, graph.inputs),
        ("gives", set(outputs), graph.outputs),
    ):
        if actual != set(declared):
            raise BundleError(
                f"{verb} {sorted(actual)!a:.200}; the manifest says {sorted(declared)!a:.200}",
                graph.file,
            )
    for name, expected in _shapes(graph.role, manifest.architecture).items():
        if name not in outputs:
            raise BundleError(
                f"does not give {name}, as the manifest's architecture has it", graph.file
            )
        shape = outputs[name]
        fits = len(shape) == len(expected) and not any(
            isinstance(size, int) and fixed and size != fixed
            for size, fixed in zip(shape, expected, strict=True)
        )
        if not fits:
            required = [size or "any" for size in expected]
            raise BundleError(
                (
                    f"gives {name} in the shape {shape!a:.80}; "
                    f"the manifest's architecture makes it {required}"
                ),
                graph.file,
            )


def _shapes(role: str, architecture: Architecture) -> dict[str, tuple[int, ...]]:
    """Return the outputs that a graph must have, with their shapes; 0 for sizes that vary."""
    if role == "head":
        return {"pooled": (0, architecture.pooled_dim)}
    shapes = dict[str, tuple[int, ...]]()
    for output in OUTPUTS.values():
        if output.role in ("embed", role) and output.given_by(architecture):
            shapes |= output.graph_shapes(architecture)
    return shapes
