"""Logs as text: one line for each event, for a person at a terminal.

The rules of headlight_service.telemetry.json_logs hold here too: no line quotes a request.
"""

from __future__ import annotations

import logging
import os
import sys
import textwrap
import time
from typing import Any

from headlight_service.telemetry import json_logs

MESSAGE_CELLS = 44  # extras stand in a column behind it; with them most lines fit 80 columns
INDENT = " " * 10  # below the message
# Long, and of use to programs only; the message, and a place, say what a reader needs.
HIDDEN = frozenset({"folder", "message", "model_source", "sha256", "stack"})
LEAST_COLUMNS = 40
STDERR = 2


class TextFormatter(logging.Formatter):
    """Formatter to text: time of day, level unless it is info, message, the fields of `extra`.

    A field `text` of `extra` takes the place of message and fields.
    """

    def __init__(self, terminal: int | None = None) -> None:
        """Make one.

        Args:
            terminal: descriptor of the terminal that shows the lines, which are wrapped at its
                width; None: they are not wrapped.
        """
        super().__init__()
        self._terminal = terminal

    def format(self, record: logging.LogRecord) -> str:
        shown = vars(record).get("text") if json_logs.is_trusted(record.name) else None
        when = time.strftime("%H:%M:%S", time.localtime(record.created))
        if shown is None:
            shown = self._wrapped(f"{when}  {_text_of(record.levelno, json_logs.fields(record))}")
        else:
            shown = f"{when}  {shown}"
        # Overwrites an unfinished line of progress, or the ^C that a terminal shows.
        return shown if self._terminal is None else f"\r\x1b[K{shown}"

    def _wrapped(self, line: str) -> str:
        if self._terminal is None:
            return line
        try:
            columns = os.get_terminal_size(self._terminal).columns
        except OSError:
            return line
        return textwrap.fill(
            line,
            max(columns, LEAST_COLUMNS),
            subsequent_indent=INDENT,
            replace_whitespace=False,
            break_long_words=False,
            break_on_hyphens=False,
        )


def _text_of(level: int, entry: dict[str, Any]) -> str:
    """Return message and fields; those that the message has already are not repeated."""
    message = entry["message"]
    name = "error: " if level >= logging.ERROR else "warning: "
    line = f"{name if level >= logging.WARNING else ''}{printable(message)}"
    if stack := entry.get("stack"):
        entry["place"] = stack[-1]
    words = {word.strip(",;:.()'") for word in message.split()}
    shown = [
        f"{key}={printable(str(value))}"
        for key, value in entry.items()
        if key not in HIDDEN and value is not None and str(value) not in words
    ]
    return f"{line:<{MESSAGE_CELLS}}  {' '.join(shown)}".rstrip() if shown else line


def printable(text: str) -> str:
    """Return a text whose control characters are escaped: none reaches the terminal."""
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)


def is_noteworthy(record: logging.LogRecord) -> bool:
    """Return whether a reader would miss the line.

    The table shows the ports, and a drain without calls ends in the next line.
    """
    event = json_logs.event_of(record)
    return event != "listening" and (event != "draining" or bool(vars(record).get("calls")))


def is_text(log_format: str) -> bool:
    """Return whether the log is text: "text", or "auto" and standard error is a terminal."""
    return log_format == "text" or (log_format == "auto" and _on_terminal())


def configure(level: str, log_format: str) -> None:
    """Send all logs to standard error, in the form of --log-format; see json_logs.configure."""
    if is_text(log_format):
        formatter = TextFormatter(STDERR if _on_terminal() else None)
        json_logs.configure(level, formatter=formatter, filters=(is_noteworthy,))
    else:
        json_logs.configure(level)


def _on_terminal() -> bool:
    # `sys.stderr` is replaced in a running service.
    return sys.__stderr__ is not None and os.isatty(STDERR)
