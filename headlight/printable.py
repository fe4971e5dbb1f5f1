"""Escaping and shortening of server text for terminals, logs and error messages."""

from __future__ import annotations

import re

# C0, DEL and C1 drive a terminal. The others reorder the text (bidirectional marks, embeddings,
# overrides, isolates) or end a line (U+2028, U+2029).
CONTROLS = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]"
)
# Characters of an error message; a gRPC status may hold 8 KiB, an answer's field 4 MiB.
LONGEST_MESSAGE = 2000


def escaped(text: str) -> str:
    """Return the text on one line: tabs and line ends as spaces, other controls escaped."""
    return CONTROLS.sub(_escape, text)


def shortened(text: str, longest: int = LONGEST_MESSAGE) -> str:
    """Return at most so many characters of a text, with an ellipsis if it was cut."""
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def json_escaped(text: str) -> str:
    """Escape the characters that `json` leaves raw: DEL, C1 and bidirectional controls."""
    return CONTROLS.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def _escape(match: re.Match[str]) -> str:
    return " " if match[0] in "\t\n\r" else ascii(match[0])[1:-1]
