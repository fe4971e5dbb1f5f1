"""Bearer tokens: authentication by a file of names and tokens that may change at run time.

The file has a line for each token: the client's name, and its token or the token's SHA-256. A name
may be on several lines, so that a client gets a new token before the old one is removed. Every line
ends with a newline, the last one too.

    # name      token, or sha256:HEX
    search      3vJrW1o0q3bV0mYyX5Zr2uKc
    batch-jobs  sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import re
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from headlight.errors import Reason, Unauthenticated
from headlight.tls.watched_file import Watched
from headlight_service.config.command_line import ConfigError

OPTION = "--auth-tokens"
log = logging.getLogger("headlight_service.security.auth_tokens")
LEAST_CHARACTERS = 16  # of a token: a shorter one can be guessed
MOST_TOKENS = 1000  # each is compared with that of each call, in about a tenth of a microsecond
LOOK_SECONDS = 1.0  # between two checks of the file; a removed token is refused by then
HASHED = "sha256:"
NAME = re.compile(r"[A-Za-z0-9][!-~]{0,127}")
TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")  # characters that RFC 6750 allows in a header
DIGEST = re.compile(r"[0-9a-fA-F]{64}")
KEY, SCHEME = "authorization", "bearer"


class AuthTokens:
    """The valid tokens. Called from any thread."""

    def __init__(
        self,
        path: Path,
        on_refused: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
        option: str = OPTION,
    ) -> None:
        """Read the file.

        Args:
            path: path of the file.
            on_refused: called if a changed file cannot be used.
            clock: monotonic clock, in seconds.
            option: the option that names the file.

        Raises:
            ConfigError: naming the line, and never its content.
        """
        self._on_refused = on_refused
        self._clock = clock
        try:
            self._file = Watched({option: path}, parse, self._refused, clock)
        except ValueError as error:
            raise ConfigError(str(error)) from None
        self._names, self._looked = self._file.latest(), clock()

    def caller(self, metadata: Sequence[tuple[str, str | bytes]]) -> str:
        """Return the name of the client that made a call.

        Args:
            metadata: metadata of the call.

        Raises:
            Unauthenticated: the call has no token, a wrong one, or two.
        """
        given = [str(value) for key, value in metadata if key == KEY]
        if len(given) > 1:  # another reader of the call could take the other one
            raise Unauthenticated(Reason.TWO_TOKENS)
        scheme, _, token = "".join(given).partition(" ")
        if scheme.lower() != SCHEME or not token:
            raise Unauthenticated(Reason.NO_TOKEN)
        if self._clock() - self._looked >= LOOK_SECONDS:
            self._names, self._looked = self._file.latest(), self._clock()
        digest, client = hashlib.sha256(token.strip().encode()).digest(), None
        for known, name in self._names.items():  # all of them, against timing attacks
            if hmac.compare_digest(known, digest):
                client = name
        if client is None:
            raise Unauthenticated(Reason.WRONG_TOKEN)
        return client

    def _refused(self, problem: str) -> None:
        self._on_refused()
        log.error(f"the tokens before stay in use: {problem}", extra={"event": "tokens_refused"})


def parse(contents: Mapping[str, bytes]) -> dict[bytes, str]:
    """Return the clients' names by the SHA-256 of their tokens.

    Raises ValueError naming the line, and never its content.
    """
    [content] = contents.values()
    try:
        text = content.decode("ascii")
    except UnicodeDecodeError:
        raise ValueError(
            "the file holds characters beyond ASCII; names and tokens have none"
        ) from None
    lines = text.splitlines()
    if lines and not text.endswith("\n"):  # a truncated token would still be valid, and shorter
        raise ValueError(
            f"line {len(lines)}: has no end, so the file may be half written; the last line, too, "
            "must end with a newline"
        )
    clients: dict[bytes, str] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, digest = _entry(line.split(), f"line {number}")
        if clients.setdefault(digest, name) != name:
            raise ValueError(f"line {number}: has the token of another client; give each its own")
    if not 1 <= len(clients) <= MOST_TOKENS:
        raise ValueError(
            f"the file holds {len(clients)} tokens, of 1 to {MOST_TOKENS}; "
            "write a line `NAME TOKEN` for each"
        )
    return clients


def _entry(words: list[str], where: str) -> tuple[str, bytes]:
    """Return a client's name and the SHA-256 of its token; the token itself is not kept."""
    if len(words) != 2:
        raise ValueError(
            f"{where}: has {len(words)} words; write `NAME TOKEN` or `NAME {HASHED}HEX`"
        )
    name, token = words
    if not NAME.fullmatch(name):
        raise ValueError(
            f"{where}: the name must have 1 to 128 visible characters and begin with a "
            "letter or a digit"
        )
    if token.startswith(HASHED):
        if not DIGEST.fullmatch(token.removeprefix(HASHED)):
            raise ValueError(f"{where}: {HASHED} must be followed by 64 hexadecimal digits")
        return name, bytes.fromhex(token.removeprefix(HASHED))
    if len(token) < LEAST_CHARACTERS or not TOKEN.fullmatch(token):
        raise ValueError(
            f"{where}: a token must have at least {LEAST_CHARACTERS} letters, digits or any of . "
            "_ ~ + / -, and = at the end"
        )
    return name, hashlib.sha256(token.encode()).digest()
