"""Requested vectors of spans, resolved against a model."""

from __future__ import annotations

import dataclasses
from typing import get_args

from headlight.errors import InvalidInput
from headlight.runtime.bundle.manifest import Manifest
from headlight.runtime.vectors.vector_forms import VectorForm
from headlight.span_vectors import SpansSpec, Windows
from headlight.spec import NUMBER_BYTES, RowType, check_dimensions, check_name

SPANS = "outputs.spans"
MOST_SPANS = 10_000  # of one input


@dataclasses.dataclass(frozen=True, slots=True)
class SpanChoice:
    """Resolved vectors of spans.

    Attributes:
        spec: as requested.
        form: width of the vectors, and whether they have unit length.
    """

    spec: SpansSpec
    form: VectorForm

    def bytes(self, pooled_dim: int) -> int:
        """Return the bytes of one vector."""
        return (self.form.width or pooled_dim) * NUMBER_BYTES[self.spec.dtype]


def resolve_spans(spec: SpansSpec, manifest: Manifest, *, has_head: bool) -> SpanChoice:
    """Resolve and check a spec of span vectors.

    Args:
        spec: as requested.
        manifest: of the model.
        has_head: whether the graph of the layers behind pooling is loaded.

    Raises:
        InvalidInput: naming the field and the remedy.
    """
    width = manifest.architecture.pooled_dim
    if spec.dimensions is not None:
        check_dimensions(spec.dimensions, width, f"{SPANS}.dimensions")
    check_name(f"{SPANS}.dtype", spec.dtype, get_args(RowType))
    if spec.pooling is not None:
        check_name(f"{SPANS}.pooling", spec.pooling, ["mean"])
    elif manifest.pooling != "mean":
        raise InvalidInput(
            f"{SPANS}.pooling",
            f"vectors of spans are means of tokens, and this model pools by {manifest.pooling}; "
            'ask for "mean" if that is meant',
        )
    if isinstance(spec.kind, Windows):
        check_windows(spec.kind)
    if manifest.dense_layers is None and not has_head:
        raise InvalidInput(
            SPANS,
            "an earlier export does not say whether this model has Dense layers; "
            "export it again: headlight export MODEL --out BUNDLE",
        )
    if manifest.dense_layers and not has_head:
        raise InvalidInput(
            SPANS,
            "needs the graph `head` of the layers behind pooling, which this bundle lacks; "
            "write it with this version: headlight export MODEL --out BUNDLE",
        )
    return SpanChoice(spec, VectorForm(spec.dimensions, spec.normalize))


def check_windows(windows: Windows) -> None:
    """Raise InvalidInput for windows without a token, or that would not advance."""
    size, overlap = windows
    if size < 1:
        raise InvalidInput(f"{SPANS}.windows.size", f"is {size}; must be at least 1")
    if not 0 <= overlap < size:
        raise InvalidInput(
            f"{SPANS}.windows.overlap", f"is {overlap}; must be from 0 to {size - 1}, below size"
        )
