"""Checks of a request's headers before its body is read."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping

from headlight_service.frontends.http.http_status import http_error

JSON_TYPE = re.compile(r"application/(?:[a-z0-9.+-]+\+)?json\s*(?:;.*)?", re.IGNORECASE)
HOST = re.compile(r"(?:\[(?P<address>[0-9a-f:.]+)\]|(?P<name>[\w.~-]+))(?::\d*)?", re.IGNORECASE)
FOREIGN_HOST = "Host must be localhost or a loopback address; name others by --api-host"
NO_HOST = "the request has no Host header; send the name and port that the client connects to"


def check_content(headers: Mapping[str, str]) -> None:
    """Refuse a body that is not plain JSON, by its headers. Raises HttpError with 415."""
    kind = headers.get("content-type")
    if kind and not JSON_TYPE.fullmatch(kind):
        raise http_error(
            415, "Content-Type must be application/json, or absent", field="content-type"
        )
    coding = headers.get("content-encoding", "identity")
    if coding.lower() not in ("identity", ""):
        raise http_error(
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
        HttpError: with 421; or with 400 if HTTP/1.1 requires the header, or it names no host.
    """
    host = headers.get("host")
    if host is None:
        if http_version != "1.0":
            raise http_error(400, NO_HOST, field="host")
        return
    if host and not host_name(host):
        raise http_error(
            400, "Host must be a name or an address, and may have a port", field="host"
        )
    if not is_accepted(host, accepted):
        raise http_error(
            421,
            FOREIGN_HOST,
            field="host",
        )


def check_origin(headers: Mapping[str, str], accepted: frozenset[str] | None) -> None:
    """Refuse a request that another site's page makes a browser send to a loopback listener.

    Browsers send some requests without asking first, whose answers the page cannot read. They would
    still cost work, and the quota of a client's certificate. Programs send neither header.

    Args:
        headers: of the request.
        accepted: as in `check_host`; None: any origin is accepted, as the listener is no secret.

    Raises:
        HttpError: with 403.
    """
    if accepted is None:
        return
    origin, host = headers.get("origin"), headers.get("host", "")
    authority = "" if origin is None else origin.rpartition("://")[2].lower()
    same_origin = origin is None or authority == host.lower() or host_name(authority) in accepted
    if not same_origin or headers.get("sec-fetch-site", "none").lower() not in (
        "none",
        "same-origin",
    ):
        raise http_error(
            403,
            "the request comes from another site's page (Origin, Sec-Fetch-Site); a service on "
            "loopback answers programs and its own page. Name a proxy's host by --api-host, a "
            "site whose pages may call it by --cors-origins",
            field="origin",
        )


def host_name(host: str) -> str:
    """Return the name or address in a Host header, in lower case, without its port; "": none."""
    match = HOST.fullmatch(host)
    return "" if match is None else (match["address"] or match["name"]).lower()


def is_accepted(host: str, accepted: frozenset[str] | None) -> bool:
    """Return whether a Host header may be answered; `accepted`: as in `check_host`."""
    name = host_name(host)
    return accepted is None or name in accepted or is_loopback_name(name)


def is_loopback_name(name: str) -> bool:
    """Return whether a name or an address can only be this machine."""
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
