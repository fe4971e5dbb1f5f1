"""Watched files that change while they are used."""

from __future__ import annotations

import errno
import os
import socket
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from headlight.tls import watched_file
from headlight.tls.watched_file import AGAIN_SECONDS, MOST_BYTES, Watched


class Pair:
    """Two watched files whose contents must be equal."""

    def __init__(self, folder: Path) -> None:
        self.first, self.second = folder / "first", folder / "second"
        self.write("one", "one")
        self.parsed = 0
        self.refused: list[str] = []
        self.now = 0.0
        self.watched = Watched(
            {"--first": self.first, "--second": self.second, "--third": None},
            self.parse,
            self.refused.append,
            lambda: self.now,
        )

    def write(self, first: str, second: str) -> None:
        self.first.write_text(first, encoding="ascii")
        self.second.write_text(second, encoding="ascii")

    def parse(self, contents: Mapping[str, bytes]) -> str:
        self.parsed += 1
        first, second = contents["--first"], contents["--second"]
        if first != second:
            raise ValueError("they differ")
        return first.decode()


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    return Pair(tmp_path)


def test_files_are_read_again_only_when_they_change(pair: Pair) -> None:
    assert [pair.watched.latest() for _ in range(3)] == ["one"] * 3
    assert pair.parsed == 1
    pair.write("three", "three")
    assert pair.watched.latest() == "three"
    assert pair.parsed == 2


def test_a_half_written_file_is_refused_once_and_the_old_value_kept(pair: Pair) -> None:
    assert pair.watched.problem is None
    pair.first.write_text("three", encoding="ascii")
    for _ in range(3):
        assert pair.watched.latest() == "one"
        assert str(pair.watched.problem) == "--first, --second: they differ"
    pair.second.write_text("three", encoding="ascii")
    assert pair.watched.latest() == "three"
    assert pair.watched.problem is None
    assert pair.refused == ["--first, --second: they differ"]


def test_a_refused_file_is_read_again_later(pair: Pair) -> None:
    pair.write("three", "four")
    pair.watched.latest()
    for now, refused in ((59.0, 1), (60.0, 2), (119.0, 2), (120.0, 3)):
        pair.now = now
        pair.watched.latest()
        assert len(pair.refused) == refused


def test_a_missing_file_is_refused_by_name_and_used_once_it_returns(pair: Pair) -> None:
    pair.second.unlink()
    assert pair.watched.latest() == "one"
    assert pair.watched.latest() == "one"
    assert pair.refused == [
        f"--first, --second: {pair.second} cannot be read: No such file or directory"
    ]
    pair.write("five!", "five!")
    assert pair.watched.latest() == "five!"


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (OSError(errno.EMFILE, "Too many open files"), "OSError: Too many open files"),
        (KeyError("secret"), "KeyError"),
    ],
)
def test_unexpected_errors_are_refusals_and_retried(
    tmp_path: Path, error: Exception, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = Pair(tmp_path)
    pair.write("three", "three")

    def fail(path: Path) -> bytes:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(watched_file, "_content", fail)
        assert [pair.watched.latest() for _ in range(2)] == ["one"] * 2
    assert pair.refused == [f"--first, --second: {told}"]
    assert pair.watched.latest() == "one"
    pair.now += AGAIN_SECONDS
    assert pair.watched.latest() == "three"
    assert pair.refused == [f"--first, --second: {told}"]


def test_a_missing_file_at_start_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"^--file: .* cannot be read"):
        Watched({"--file": tmp_path / "none"}, lambda contents: contents)


def test_a_swapped_folder_of_links_is_followed(tmp_path: Path) -> None:
    """As Kubernetes mounts a Secret.

    File -> ..data/file, ..data -> a folder for each version, swapped by a rename.
    """
    for version in ("1", "2"):
        (tmp_path / version).mkdir()
        for name in ("first", "second"):
            (tmp_path / version / name).write_text(version, encoding="ascii")
    (tmp_path / "..data").symlink_to("1")
    paths = {name: tmp_path / name for name in ("first", "second")}
    for path in paths.values():
        path.symlink_to(Path("..data") / path.name)
    links = Watched(paths, lambda contents: b"".join(contents.values()))
    assert links.latest() == b"11"
    (tmp_path / "next").symlink_to("2")
    os.replace(tmp_path / "next", tmp_path / "..data")
    assert links.latest() == b"22"


def test_files_swapped_during_a_read_are_never_mixed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = Pair(tmp_path)
    pair.write("three", "three")
    read, swapped = watched_file._content, list[Path]()

    def read_bytes(path: Path) -> bytes:
        content = read(path)
        if not swapped:
            swapped.append(path)
            pair.write("second", "second")
        return content

    monkeypatch.setattr(watched_file, "_content", read_bytes)
    assert pair.watched.latest() == "second"
    assert pair.refused == []


def test_files_that_keep_changing_are_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = Pair(tmp_path)
    pair.write("three", "three")
    read = watched_file._content

    def read_bytes(path: Path) -> bytes:
        content = read(path)
        pair.write(pair.second.read_text() + "x", pair.second.read_text() + "x")
        return content

    monkeypatch.setattr(watched_file, "_content", read_bytes)
    assert pair.watched.latest() == "one"
    assert "keeps changing" in pair.refused[0]


def make_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))


NOT_FILES: dict[str, tuple[Callable[[Path], object], str]] = {
    "fifo": (os.mkfifo, "is a FIFO (pipe)"),
    "directory": (Path.mkdir, "is a directory"),
    "device": (lambda path: path.symlink_to("/dev/null"), "is a device"),
    "socket": (make_socket, "is a socket"),
    "too large": (
        lambda path: path.write_bytes(bytes(MOST_BYTES + 1)),
        f"has more than {MOST_BYTES} bytes",
    ),
}


@pytest.fixture(params=list(NOT_FILES))
def not_a_file(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, str]:
    make, problem = NOT_FILES[request.param]
    path = tmp_path / "not a file"
    make(path)
    return path, f"{path} {problem}"


def within_seconds(call: Callable[[], object]) -> object:
    """Call in a thread, so that a blocking call fails; return the result or the exception."""
    results: list[object] = []

    def run() -> None:
        try:
            results.append(call())
        except ValueError as error:
            results.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(10)
    assert results, "it blocks"
    return results[0]


def test_an_irregular_file_is_refused_at_start(not_a_file: tuple[Path, str]) -> None:
    path, problem = not_a_file
    error = within_seconds(lambda: Watched({"--file": path}, lambda contents: contents))
    assert isinstance(error, ValueError)
    assert str(error).startswith(f"--file: {problem}")


def test_a_path_that_becomes_an_irregular_file_changes_nothing(
    pair: Pair, not_a_file: tuple[Path, str]
) -> None:
    path, problem = not_a_file
    os.replace(pair.second, pair.second.with_name("old"))
    pair.second.symlink_to(path)
    assert [within_seconds(pair.watched.latest) for _ in range(2)] == ["one"] * 2
    [refused] = pair.refused
    assert refused.startswith(f"--first, --second: {problem.replace(str(path), str(pair.second))}")
    pair.second.unlink()
    pair.write("three", "three")
    assert pair.watched.latest() == "three"


def test_a_fifo_that_replaces_a_file_does_not_block(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair.write("three", "three")
    opened = watched_file._open_at_once

    def swap(path: str, flags: int) -> int:
        os.unlink(path)
        os.mkfifo(path)
        return opened(path, flags)

    monkeypatch.setattr(watched_file, "_open_at_once", swap)
    assert within_seconds(pair.watched.latest) == "one"
    assert "is a FIFO (pipe)" in pair.refused[0]
