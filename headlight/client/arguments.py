"""What a client is made with, checked before a channel is opened: gRPC would print lines of its own, or fail at the first call."""

from __future__ import annotations

import math
import numbers
import re

from headlight.errors import InvalidInput

# Left to gRPC as they are.
SCHEMES = re.compile(r"(dns|ipv4|ipv6|unix|unix-abstract|vsock|xds|google-c2p):")
ADDRESS = re.compile(r"(?:\[[^][\s]+\]|[^][\s:/,@?#]+):(?P<port>\d+)", re.ASCII)
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


def check_model(name: object) -> None:
    """Look at the name of a model, which every request holds; None is as good as empty.

    Raises:
        InvalidInput: it is no text, or one that a request cannot hold.
    """
    if name is None:
        return
    try:
        if not isinstance(name, str):
            raise TypeError
        name.encode()
    except (TypeError, UnicodeEncodeError):  # of an argument that is no UTF-8, Python makes lone surrogates
        raise InvalidInput(
            "model", f"is {name!r}; must be a text that UTF-8 can express, or empty for the only model"
        ) from None


def check_target(target: object) -> None:
    """Look at "host:port". Without a port, gRPC would dial 443; with one too high, another; and a URL's scheme it takes for a host.

    Raises:
        InvalidInput: it is neither that nor a target of one of gRPC's schemes.
    """
    if isinstance(target, str) and SCHEMES.match(target):
        return
    address = ADDRESS.fullmatch(target) if isinstance(target, str) else None
    if address is None:
        where = 'name a service as "host:port"'
        if isinstance(target, str) and "://" in target:
            where += ", without what a URL has; TLS is asked for by itself"
        elif isinstance(target, str) and target.count(":") > 1 and "," not in target:
            where += ', an address of IPv6 in brackets: "[::1]:50051"'
        raise InvalidInput("target", f"is {target!r}; {where}")
    port = address["port"].lstrip("0")
    if len(port) > len(str(HIGHEST_PORT)) or not 1 <= int(port or 0) <= HIGHEST_PORT:  # int refuses thousands of digits
        raise InvalidInput("target", f"is {target!r}; a port is a number from 1 to {HIGHEST_PORT}")
