"""Watched files: read again after a change; unusable content never replaces usable content."""

from __future__ import annotations

import os
import stat
import threading
import time
from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

T = TypeVar("T")
StrPath = str | os.PathLike[str]
READS = 3  # of files that change during a read; then the next call tries again
MOST_BYTES = 1 << 20  # of one file; a thousand tokens, or hundreds of certificates, have less
# after this time a refused file is checked again, even unchanged: a certificate may become valid
AGAIN_SECONDS = 60.0
KINDS = (
    (stat.S_ISFIFO, "a FIFO (pipe)"),
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISSOCK, "a socket"),
)
State = tuple[object, ...]


class Watched(Generic[T]):
    """Parsed content of some files together. Threads may share it.

    Kubernetes mounts a Secret as links that are swapped at any time. If a file changes during a
    read, all are read again. Their content is checked as a whole, and refused as a whole.

    Attributes:
        problem: the reason why the current files are not used, with the names of their options;
            None: they are used.
    """

    def __init__(
        self,
        files: Mapping[str, StrPath | None],
        parse: Callable[[Mapping[str, bytes]], T],
        on_refused: Callable[[str], None] = lambda problem: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Read the files.

        Args:
            files: their paths, by the options or arguments that give them; None: not given. Targets
                of links may change, too.
            parse: returns a value for the contents of the given files. It raises ValueError with
                the problem, which never quotes the contents.
            on_refused: called with the reason why changed files are not used, for any error: once
                for each change, and once a minute while it stays.
            clock: monotonic clock, in seconds.

        Raises:
            ValueError: one cannot be read, or `parse` refused them; the message names their
                options.
        """
        self._paths = {name: path for name, path in files.items() if path is not None}
        self._parse = parse
        self._on_refused = on_refused
        self._clock = clock
        self._lock = threading.Lock()
        self._refused_at: float | None = None
        self.problem: str | None = None
        try:
            self._seen, self._value = self._read()
        except ValueError as error:
            raise ValueError(self._named(str(error))) from None

    def latest(self) -> T:
        """Return the value of the current content, or of the last usable content.

        Checks only the metadata of the files unless they changed.
        """
        with self._lock:
            state, seen = self._state(), self._seen
            self._seen = state
            again = (
                self._refused_at is not None and self._clock() - self._refused_at >= AGAIN_SECONDS
            )
            if again or state != seen:
                try:
                    self._seen, self._value = self._read()
                    self._refused_at = self.problem = None
                except Exception as error:  # also unrelated ones, such as no free file descriptor
                    self._refused_at = self._clock()
                    # The message quotes none of the files: of an error that `parse` did not intend,
                    # only the kind is reported.
                    kind = type(error).__name__
                    other = f"{kind}: {error.strerror}" if isinstance(error, OSError) else kind
                    self.problem = self._named(
                        str(error) if isinstance(error, ValueError) else other
                    )
                    self._on_refused(self.problem)
            return self._value

    def _named(self, problem: str) -> str:
        return f"{', '.join(self._paths)}: {problem}"

    def _read(self) -> tuple[State, T]:
        for _ in range(READS):
            before = self._state()
            contents = {name: _content(path) for name, path in self._paths.items()}
            if self._state() == before:
                return before, self._parse(contents)
        first = next(iter(self._paths.values()))
        raise ValueError(f"{first} keeps changing while it is read; write it aside, then rename it")

    def _state(self) -> State:
        return tuple(map(_state, self._paths.values()))


def _state(path: StrPath) -> State:
    try:
        status = os.stat(path)
    except OSError as error:
        return (error.errno,)
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def _content(path: StrPath) -> bytes:
    """Return the content of a regular file; refuse anything that may block or never end."""
    try:
        _check_kind(path, os.stat(path).st_mode)  # opening alone may act on a device or a FIFO
        with open(path, "rb", opener=_open_at_once) as file:
            _check_kind(path, os.fstat(file.fileno()).st_mode)  # it may have been replaced since
            content = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from None
    if len(content) > MOST_BYTES:
        raise ValueError(f"{path} has more than {MOST_BYTES} bytes; is it the right file?")
    return content


def _check_kind(path: StrPath, mode: int) -> None:
    if not stat.S_ISREG(mode):
        kind = next((name for is_kind, name in KINDS if is_kind(mode)), "not a file")
        raise ValueError(
            f"{path} is {kind}; it must be a regular file or a link to one; "
            "write the content to a file and name that"
        )


def _open_at_once(path: str, flags: int) -> int:
    """Open without waiting for a writer, as opening a FIFO would (Windows has neither)."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
