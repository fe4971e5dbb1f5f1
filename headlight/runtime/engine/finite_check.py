"""Whether numbers are finite: of a batch at once, and where they are not, of which of its items."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from headlight.runtime.encode_items import EncodeItem
from headlight.runtime.providers.session import Outputs

WITNESSES = ("pooled", "tokens")  # what is not finite anywhere in the computation is not finite here


def all_finite(outputs: Outputs) -> bool:
    """Whether a batch's vectors are finite, padding and all."""
    return all(np.isfinite(outputs[name]).all() for name in WITNESSES if name in outputs)


def finite_rows(items: Sequence[EncodeItem], outputs: Outputs) -> NDArray[np.bool_]:
    """Of which items they are: bool [B]. Company changes no item's: its padding and what others want do not count."""
    good = np.asarray(np.isfinite(outputs["pooled"]).all(axis=1))
    if "tokens" in outputs:
        finite = np.isfinite(outputs["tokens"]).all(axis=2)
        padding = np.arange(finite.shape[1]) >= np.array([len(item.ids) for item in items])[:, None]
        unwanted = np.array([not item.selection.tokens for item in items])
        good = good & ((finite | padding).all(axis=1) | unwanted)
    return good
