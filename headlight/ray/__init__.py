"""Embeddings in Ray Data: a callable class for `map_batches`. Needs the extra [ray].

It imports no Ray, so that other engines with Arrow batches can use it.
"""

from headlight.extras import require

require("headlight.ray", "ray", "pyarrow")

from headlight.ray.embedder import Embedder

__all__ = ["Embedder"]
