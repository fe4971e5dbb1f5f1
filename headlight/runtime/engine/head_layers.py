"""The layers behind pooling as a graph of its own, for vectors that the graphs do not pool."""

from __future__ import annotations

import numpy as np

from headlight.errors import EngineError, HeadlightError, NotFinite
from headlight.runtime.providers.device_faults import Faults, logged_message
from headlight.runtime.providers.session import Session
from headlight.runtime.values import Floats

NOT_FINITE = "a result is not finite"
SPREAD, AFFINE = 8.0, 1e-4  # of the numbers tried; the relative rounding of fp32 over a layer
MOST_VECTORS = 1024  # run at once; bounds their memory


class HeadLayers:
    """The layers behind pooling, in fp32."""

    def __init__(self, session: Session | None, faults: Faults, title: str) -> None:
        """Store the opened graph `head`; None: the bundle has none.

        Args:
            session: the graph.
            faults: of its engine.
            title: model and provider, for logs.
        """
        self._session, self._faults, self._title = session, faults, title
        self._exists = session is not None
        self._affine: bool | None = None if self._exists else True

    def __bool__(self) -> bool:
        return self._exists

    def is_affine(self, dim: int) -> bool:
        """Return whether they map the mean of vectors to the mean of what they map.

        So do Dense layers without an activation. It is tried with two vectors, once.
        """
        if self._affine is None:
            pair = np.random.default_rng(0).normal(scale=SPREAD, size=(2, dim)).astype(np.float32)
            one, other, middle = self(np.stack([*pair, pair.mean(axis=0)]))
            least = AFFINE * max(1.0, float(np.abs([one, other]).max()))
            self._affine = bool(np.abs((one + other) / 2 - middle).max() <= least)
        return self._affine

    def close(self) -> None:
        """Give the memory of the graph back. Later calls raise."""
        self._session = None

    def __call__(self, vectors: Floats) -> Floats:
        """Apply the layers: float32 [N, dim] -> [N, pooled_dim], not normalised.

        Without a graph the vectors are returned unchanged.

        Raises:
            EngineError, DeviceLost, DeviceFull, HostFull: as `Engine.run`.
            EngineError: the graph was closed.
        """
        if not self._exists:
            return vectors
        session = self._session
        if session is None:
            raise EngineError("the model was closed")
        self._faults.check()
        parts = []
        try:
            for begin in range(0, len(vectors), MOST_VECTORS):
                feeds = {"vectors": vectors[begin : begin + MOST_VECTORS]}
                with session.run(["pooled"], feeds, {}) as outputs:
                    parts.append(outputs["pooled"].copy())
        except HeadlightError:
            raise
        except Exception as error:  # libraries raise many types, none of them a base of the others
            raise self._faults.of(error) from error
        self._faults.check()  # another thread may have found the device lost meanwhile
        logits = np.concatenate(parts)
        if not np.isfinite(logits).all():
            details = f"role head, {self._title}"
            raise self._faults.judge(NOT_FINITE, details) or NotFinite(
                logged_message(NOT_FINITE, details)
            )
        return logits
