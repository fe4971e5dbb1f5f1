"""A small HTTP client of the standard library, which hides nothing of an answer."""

from __future__ import annotations

import http.client
import json
import ssl
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

SECONDS_TO_LEAVE = 0.05  # a request of 80 texts takes longer on any device


class NoAnswer(Exception):
    """The server did not answer, or closed the connection."""


@dataclass(frozen=True)
class Answer:
    """Status, headers by their small names, and body of an answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        """Return the body; raise ValueError if it is not JSON."""
        return json.loads(self.body)

    def summary(self) -> str:
        """Return the status and the start of the body."""
        return f"{self.status} {self.body[:80].decode('utf-8', 'replace')}".strip()


class HttpServer:
    """A server at a base URL."""

    def __init__(self, url: str, token: str = "", seconds: float = 120) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url!r} is not a URL with http:// or https://")
        self._parts, self._seconds = parts, seconds
        self.token = token

    def _connect(self) -> http.client.HTTPConnection:
        host, port = str(self._parts.hostname), self._parts.port
        if self._parts.scheme == "https":
            context = ssl.create_default_context()
            return http.client.HTTPSConnection(host, port, timeout=self._seconds, context=context)
        return http.client.HTTPConnection(host, port, timeout=self._seconds)

    def _send(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        path: str,
        body: bytes | None,
        headers: Mapping[str, str],
    ) -> None:
        given = {"Content-Type": "application/json"} if body is not None else {}
        if self.token:
            given["Authorization"] = f"Bearer {self.token}"
        target = self._parts.path.rstrip("/") + path
        connection.request(method, target, body=body, headers={**given, **headers})

    def request(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Return the answer to a request; raise NoAnswer if there is none."""
        connection = self._connect()
        try:
            self._send(connection, method, path, body, headers or {})
            response = connection.getresponse()
            fields = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, fields, response.read())
        except (OSError, http.client.HTTPException) as error:
            raise NoAnswer(f"{method} {path}: {type(error).__name__} {error}") from error
        finally:
            connection.close()

    def probe(self) -> None:
        """Raise NoAnswer if nothing answers, whatever it answers."""
        self.request("GET", "/")

    def get(self, path: str) -> Answer:
        return self.request("GET", path)

    def post(self, path: str, body: Any) -> Answer:
        """Send a value as JSON."""
        return self.request("POST", path, json.dumps(body).encode())

    def abandon(self, path: str, body: Any) -> None:
        """Send a value as JSON, and disconnect while the server works on it."""
        connection = self._connect()
        try:
            self._send(connection, "POST", path, json.dumps(body).encode(), {})
            threading.Event().wait(SECONDS_TO_LEAVE)
        except OSError as error:
            raise NoAnswer(f"POST {path}: {type(error).__name__} {error}") from error
        finally:
            connection.close()
