"""Fields and parsers of options. A parser raises ValueError with the accepted values."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from headlight.command_parser import did_you_mean

LONGEST = (1 << 31) - 1  # tokens; far beyond any model's
EVERYWHERE, EVERYWHERE_V4 = "::", "0.0.0.0"  # the first includes the second
MODEL_NAME = re.compile(r"[!-+\--~]{1,200}")  # no comma
# As browsers send it: scheme, host, and the port if it is not the scheme's.
ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://(?:\[[0-9a-f:.]+\]|[\w.~-]+)(?::\d{1,5})?", re.ASCII)
MOST_DIGITS = 40  # of a whole number; Python's own limit is some thousand


class Address(NamedTuple):
    """An address to listen on."""

    host: str
    port: int  # 0: any free one

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def meets(self, other: Address) -> bool:
        """Return whether both addresses cannot be listened on at once. Names are not resolved."""
        if not self.port == other.port != 0:
            return False
        hosts = {self.host, other.host}
        of_six = any(":" in host for host in hosts)
        return len(hosts) == 1 or EVERYWHERE in hosts or (EVERYWHERE_V4 in hosts and not of_six)


def address(text: str) -> Address:
    """Parse 127.0.0.1:50051, or [::1]:50051."""
    host, _, port = text.rpartition(":")
    host, number = host.strip("[]"), _natural(port)
    try:
        host.encode("idna")  # as the resolver does, which would fail
    except UnicodeError:
        host = ""
    if not host or "/" in host or number is None or number > 65535:
        raise ValueError("must be HOST:PORT with a port of 0 (any free one) to 65535")
    return Address(host, number)


def address_or_off(text: str) -> Address | None:
    """Parse an address, or "off"."""
    try:
        return None if text == "off" else address(text)
    except ValueError as error:
        raise ValueError(f"{error}, or off") from None


def host_name(text: str) -> str:
    """Parse the name of a host, without a port."""
    if not re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9])?", text):
        raise ValueError("must be the name of a host, as headlight.internal, without a port")
    return text.lower()


def whole(low: int, high: int = (1 << 63) - 1) -> Callable[[str], int]:
    """Return a parser of whole numbers, both ends included; by default, up to 63 bits."""

    def integer(text: str) -> int:
        value = _natural(text)
        if value is None or not low <= value <= high:
            raise ValueError(f"must be a whole number from {low} to {high}")
        return value

    return integer


def _natural(text: str) -> int | None:
    """Return the value of decimal digits; None: none, or too many for a sensible number."""
    return int(text) if text.isdecimal() and len(text) <= MOST_DIGITS else None


def between(low: float, high: float) -> Callable[[str], float]:
    """Return a parser of numbers, both ends included."""

    def number(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = float("nan")
        if not low <= value <= high:
            raise ValueError(f"must be a number from {low:g} to {high:g}")
        return value

    return number


def one_of(*choices: str) -> Callable[[str], str]:
    """Return a parser of names."""

    def choice(text: str) -> str:
        if text not in choices:
            raise ValueError(f"must be one of {', '.join(choices)}{did_you_mean(text, choices)}")
        return text

    return choice


def lengths(text: str) -> tuple[int, ...]:
    """Parse 16,64,256; an empty text gives none."""
    values = [_natural(part.strip()) for part in text.split(",") if part.strip()]
    accepted = tuple(value for value in values if value is not None and 1 <= value <= LONGEST)
    if len(accepted) < len(values):
        raise ValueError(
            f"must be lengths in tokens from 1 to {LONGEST} with commas between them, "
            "as 16,64,256, or nothing"
        )
    return accepted


def model_names(text: str) -> tuple[str, ...]:
    """Parse NAME,NAME."""
    names = _parts(text)
    if not names or not all(MODEL_NAME.fullmatch(name) for name in names):
        raise ValueError(
            "must be names with commas between them, each of at most 200 printable ASCII "
            "characters without spaces, as text-embedding-3-small,org/model"
        )
    return names


def origins(text: str) -> tuple[str, ...]:
    """Parse https://app.example,http://localhost:5173, or *."""
    given = tuple(_as_sent(part.lower()) for part in _parts(text))
    if not given or (given != ("*",) and not all(ORIGIN.fullmatch(each) for each in given)):
        raise ValueError(
            "must be origins with commas between them, as https://app.example,"
            "http://localhost:5173, without a path or a slash at the end; or * for all"
        )
    return given


def _as_sent(origin: str) -> str:
    """Return an origin without the port of its scheme, as browsers send it."""
    usual = {"http": ":80", "https": ":443"}
    return origin.removesuffix(usual.get(origin.partition(":")[0], ""))


def _parts(text: str) -> tuple[str, ...]:
    """Return what stands between commas; nothing stays nothing."""
    return tuple(part.strip() for part in text.split(",")) if text else ()


def digest(text: str) -> str:
    """Parse 64 hexadecimal digits."""
    if len(text) != 64 or not set(text.lower()) <= set("0123456789abcdef"):
        raise ValueError("must be a SHA-256 digest: 64 hexadecimal digits")
    return text.lower()


def endpoint(text: str) -> str:
    """Parse http://localhost:4317."""
    try:
        url = urlsplit(text)
        usable = (
            url.scheme in ("http", "https") and url.hostname and url.port and url.username is None
        )
    except ValueError:
        usable = False
    if not usable or text != f"{url.scheme}://{url.netloc}":
        raise ValueError(
            "must be http://HOST:PORT, or https:// for TLS, of an OTLP collector for gRPC; "
            "the port is mostly 4317"
        )
    return text


def flag(text: str) -> bool:
    """Parse true or false."""
    return one_of("true", "false")(text) == "true"


def option(
    default: object,
    parse: Callable[[str], Any],
    why: str,
    *,
    metavar: str = "",
    bare: bool = False,
    was: str | None = None,
) -> Any:
    """Return the field of an option.

    Args:
        default: value if it is not given.
        parse: returns the value of a text; raises ValueError.
        why: text for --help, without the default.
        metavar: name of the value in --help; by default, the last word of the option's name.
        bare: whether it is given without a flag, as MODEL is.
        was: its name in the last release, which still works; None: the same.
    """
    metadata = {"parse": parse, "why": why, "metavar": metavar, "bare": bare, "was": was}
    return dataclasses.field(default=default, metadata=metadata)


def choice_option(default: str, why: str, *choices: str) -> Any:
    """Return the field of an option that has one of some values, which --help lists."""
    return option(default, one_of(*choices), why, metavar="|".join(choices))


SECONDS = between(0, 86400)
BYTES = whole(1024)
MESSAGE_BYTES = whole(1024, (1 << 31) - 1)  # neither gRPC nor protobuf has larger messages
# No message has more entries, and GetModel reports limits as uint32.
COUNT = whole(1, (1 << 31) - 1)
THREADS = whole(1, 1024)  # far more than CPUs; with many more, a process can die without a message
