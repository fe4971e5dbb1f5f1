"""A small HTTP client of the standard library, which hides nothing of an answer."""

from __future__ import annotations

import copy
import http.client
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self
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

    def __init__(self, url: str, token: str, seconds: float) -> None:
        parts = urlsplit(url)
        secure = parts.scheme == "https"
        self._kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
        self._address = (parts.hostname or "", parts.port)
        self._base, self._seconds, self.token = parts.path.rstrip("/"), seconds, token

    def with_token(self, token: str) -> Self:
        """Return the server as a caller with another token reaches it."""
        other = copy.copy(self)
        other.token = token
        return other

    @contextmanager
    def _sent(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]
    ) -> Iterator[http.client.HTTPConnection]:
        """Yield the connection of a request, and close it."""
        fields = {"Content-Type": "application/json"} if body is not None else {}
        if self.token:
            fields["Authorization"] = f"Bearer {self.token}"
        connection = self._kind(*self._address, timeout=self._seconds)
        try:
            connection.request(method, self._base + path, body=body, headers={**fields, **headers})
            yield connection
        except (OSError, http.client.HTTPException) as error:
            raise NoAnswer(f"{method} {path}: {type(error).__name__} {error}") from error
        finally:
            connection.close()

    def request(self, method: str, path: str, body: bytes | None = None, **headers: str) -> Answer:
        """Return the answer to a request; raise NoAnswer if there is none."""
        with self._sent(method, path, body, headers) as connection:
            response = connection.getresponse()
            fields = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, fields, response.read())

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
        with self._sent("POST", path, json.dumps(body).encode(), {}):
            threading.Event().wait(SECONDS_TO_LEAVE)
