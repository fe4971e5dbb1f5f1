"""What a manifest says of the quality of a precision."""

from __future__ import annotations

import dataclasses
from typing import Any

from headlight.errors import BundleError
from headlight.runtime.bundle.manifest_fields import MANIFEST, Fields

MOST_TEXTS = (1 << 31) - 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class QualityEntry:
    """How near a precision is to fp32 on one provider: vectors of texts, and which texts are near to which."""

    provider: str
    precision: str
    texts: str  # what they were
    count: int  # of texts
    real_text: bool  # False: random ids, which tell nothing of neighbours
    cosine_mean: float
    cosine_p1: float  # the first percentile
    cosine_min: float
    nearest_kept: float  # share of the texts whose nearest other text is the same
    ten_nearest_kept: float  # share of the ten nearest that are among the ten
    batch_drift: float  # max |Δ| of a text's vector between alone and among others


def quality_entry(fields: Fields) -> QualityEntry:
    """One of the manifest's `quality`. Raises BundleError naming the field at fault."""
    values: dict[str, Any] = {name: fields.take(name, str) for name in ("provider", "precision", "texts")}
    values |= {"count": fields.count("count", MOST_TEXTS), "real_text": fields.take("real_text", bool)}
    for field in dataclasses.fields(QualityEntry):
        if field.name not in values:
            values[field.name] = fields.take(field.name, float)
            if not -2 < values[field.name] < float("inf"):  # of cosines, which rounding may take a little beyond -1
                raise BundleError(f"{fields.path}{field.name} is {values[field.name]}; expected a number", MANIFEST)
    return QualityEntry(**values)
