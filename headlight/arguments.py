"""What a client is made with, checked before a channel is opened: gRPC would print lines of its own, or fail at the first call."""

from __future__ import annotations

import math
import numbers

from headlight.errors import InvalidInput


def check_arguments(target: object, timeout: object, concurrency: object) -> None:
    """Look at what `headlight.client.Client` describes.

    Raises:
        InvalidInput: the target names nothing, or the timeout is no number of seconds.
        ValueError: the concurrency is no whole number from 1.
    """
    if not isinstance(target, str) or not target.strip():
        raise InvalidInput("target", f'is {target!r}; name a service as "host:port"')
    if timeout is not None and (not isinstance(timeout, numbers.Real) or math.isnan(timeout)):
        raise InvalidInput("timeout", f"is {timeout!r}; must be a number of seconds")
    if not isinstance(concurrency, numbers.Integral) or concurrency < 1:
        raise ValueError(f"concurrency: is {concurrency!r}; must be a whole number, at least 1")
