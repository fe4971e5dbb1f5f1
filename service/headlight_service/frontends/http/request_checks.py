"""Checks of a request's headers before its body is read."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping

from headlight_service.frontends.http.http_status import refused

JSON_TYPE = re.compile(r"application/(?:[a-z0-9.+-]+\+)?json\s*(?:;.*)?", re.IGNORECASE)
NO_HOST = "the request has no Host header; send the name and port that the client connects to"


def check_content(headers: Mapping[str, str]) -> None:
    """Refuse a body that is not plain JSON, by its headers. Raises Refused with 415."""
    kind = headers.get("content-type")
    if kind and not JSON_TYPE.fullmatch(kind):
        raise refused(415, "Content-Type must be application/json, or absent", field="content-type")
    coding = headers.get("content-encoding", "identity")
    if coding.lower() not in ("identity", ""):
        raise refused(
            415,
            "Content-Encoding must be identity, or absent: bodies are not decompressed",
            field="content-encoding",
        )


def check_host(
    headers: Mapping[str, str], http_version: str, accepted: frozenset[str] | None
) -> None:
    """Refuse a Host that a loopback listener does not have: a web page may have rebound its name.

    Args:
        headers: of the request.
        http_version: "1.0" or "1.1".
        accepted: names besides those of the loopback; None: any Host is accepted.

    Raises:
        Refused: with 421, or 400 where HTTP/1.1 requires the header.
    """
    host = headers.get("host")
    if host is None:
        if http_version != "1.0":
            raise refused(400, NO_HOST, field="host")
        return
    if accepted is None:
        return
    name = host_name(host)
    if name not in accepted and not is_loopback_name(name):
        raise refused(
            421,
            "Host must be localhost or a loopback address; name others by --rest-host",
            field="host",
        )


def host_name(host: str) -> str:
    """Return the name or address in a Host header, in lower case, without its port."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.rpartition(":")[0].lower() if ":" in host else host.lower()


def is_loopback_name(name: str) -> bool:
    """Return whether a name or an address can only be this machine."""
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
