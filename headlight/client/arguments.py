"""What a client is made with, checked before a channel is opened: gRPC would print lines of its own, or fail at the first call."""

from __future__ import annotations

import math
import numbers
import re
from typing import Any

from headlight.errors import InvalidInput

# Left to gRPC as they are.
SCHEMES = re.compile(r"(dns|ipv4|ipv6|unix|unix-abstract|vsock|xds|google-c2p):")
ADDRESS = re.compile(r"(?:\[[^][\s]+\]|[^][\s:/,@?#]+):(?=\d)0*(?P<port>\d*)", re.ASCII)
HIGHEST_PORT = 65535


def check_arguments(target: object, model: object, timeout: object, concurrency: object) -> None:
    """Look at what `headlight.client.sync_client.Client` describes.

    Raises:
        InvalidInput: the target is none, the model no name, or the timeout no number of seconds.
        ValueError: the concurrency is no whole number from 1.
    """
    check_target(target)
    check_model(model)
    if timeout is not None and (not isinstance(timeout, numbers.Real) or math.isnan(timeout)):
        raise InvalidInput("timeout", f"is {timeout!r}; must be a number of seconds")
    if not isinstance(concurrency, numbers.Integral) or concurrency < 1:
        raise ValueError(f"concurrency: is {concurrency!r}; must be a whole number, at least 1")


def check_model(name: Any) -> None:
    """Look at the name of a model, which every request holds; None is as good as empty.

    Raises:
        InvalidInput: it is no text, or one that a request cannot hold.
    """
    try:
        str.encode("" if name is None else name)
    except (TypeError, UnicodeEncodeError):  # of an argument that is no UTF-8, Python makes lone surrogates
        raise InvalidInput(
            "model", f"is {name!r}; must be a text that UTF-8 can express, or empty for the only model"
        ) from None


def check_target(target: object) -> None:
    """Look at "host:port". Without a port, gRPC would dial 443; with one too high, another; and a URL's scheme it takes for a host.

    Raises:
        InvalidInput: it is neither that nor a target of one of gRPC's schemes.
    """
    text = target if isinstance(target, str) else ""
    if SCHEMES.match(text):
        return
    address, where = ADDRESS.fullmatch(text), 'name a service as "host:port"'
    if address is not None:
        where = f"a port is a number from 1 to {HIGHEST_PORT}"
        if len(address["port"]) <= len(str(HIGHEST_PORT)) and 1 <= int(address["port"] or 0) <= HIGHEST_PORT:
            return  # int refuses thousands of digits
    elif "://" in text:
        where += ", without what a URL has; TLS is asked for by itself"
    elif text.count(":") > 1 and "," not in text:
        where += ', an address of IPv6 in brackets: "[::1]:50051"'
    raise InvalidInput("target", f"is {target!r}; {where}")
