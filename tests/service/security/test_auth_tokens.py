"""The file of tokens: its format, reloading and authentication."""

from __future__ import annotations

import hashlib
import logging
import os
from pathlib import Path

import pytest

from headlight.errors import Unauthenticated
from headlight_service.config.command_line import ConfigError
from headlight_service.security.auth_tokens import LOOK_SECONDS, AuthTokens
from tests.service.batching import Clock
from tests.service.logged import logged

FIRST, SECOND, HASHED = (
    "first-token-of-search",
    "second-token-of-search",
    "token-that-only-its-digest-is-of",
)
FILE = f"""# who     with what

search    {FIRST}
search {SECOND}
 batch-jobs  sha256:{hashlib.sha256(HASHED.encode()).hexdigest().upper()}
"""


class Setup:
    def __init__(self, folder: Path, text: str = FILE) -> None:
        self.path, self.clock, self.refused = folder / "tokens", Clock(), 0
        self.path.write_text(text, encoding="utf-8")
        self.tokens = AuthTokens(self.path, self.count, self.clock)

    def count(self) -> None:
        self.refused += 1

    def caller(self, value: str | None) -> str:
        metadata = [("user-agent", "test"), *([] if value is None else [("authorization", value)])]
        return self.tokens.caller(metadata)

    def change(self, text: str) -> None:
        self.path.write_text(text, encoding="utf-8")
        self.clock.now += LOOK_SECONDS


@pytest.fixture
def setup(tmp_path: Path) -> Setup:
    return Setup(tmp_path)


def test_each_token_names_its_client(setup: Setup) -> None:
    tokens = (f"Bearer {FIRST}", f"bearer {SECOND}", f"BEARER  {HASHED}")
    assert [setup.caller(each) for each in tokens] == ["search", "search", "batch-jobs"]


DIGEST = hashlib.sha256(FIRST.encode()).hexdigest()


@pytest.mark.parametrize(
    "value",
    [
        None,
        "",
        "Bearer",
        "Bearer ",
        FIRST,
        f"Basic {FIRST}",
        f"Bearer{FIRST}",
        "Bearer search",
        "Bearer é",
    ],
)
def test_a_missing_or_wrong_token_is_refused(setup: Setup, value: str | None) -> None:
    with pytest.raises(Unauthenticated) as error:
        setup.caller(value)
    assert (
        "authorization: Bearer TOKEN" in error.value.message
        or "not one of this server's" in error.value.message
    )


@pytest.mark.parametrize("other", ["", "Bearer", f"Bearer {FIRST}"])
def test_two_entries_are_refused_whatever_they_hold(setup: Setup, other: str) -> None:
    given = ("authorization", f"Bearer {FIRST}")
    for both in ([given, ("authorization", other)], [("authorization", other), given]):
        with pytest.raises(Unauthenticated, match="two authorization entries"):
            setup.tokens.caller(both)


@pytest.mark.parametrize(
    "wrong", [FIRST[:-1], FIRST + "x", FIRST.upper(), DIGEST, f"sha256:{DIGEST}"]
)
def test_no_message_contains_the_token(setup: Setup, wrong: str) -> None:
    with pytest.raises(Unauthenticated) as error:
        setup.caller(f"Bearer {wrong}")
    assert wrong not in error.value.message


def test_a_changed_file_is_used_within_a_second(setup: Setup) -> None:
    setup.path.write_text(f"other {SECOND}\n", encoding="ascii")
    assert setup.caller(f"Bearer {FIRST}") == "search", "not looked at yet"
    setup.clock.now += 1.0
    with pytest.raises(Unauthenticated):
        setup.caller(f"Bearer {FIRST}")
    assert setup.caller(f"Bearer {SECOND}") == "other"


@pytest.mark.parametrize(
    "broken",
    [
        "",
        "# none\n",
        "search\n",
        f"search {FIRST} more\n",
        "search short\n",
        FILE + f"other {FIRST[:-3]}",
    ],
)
def test_a_broken_file_changes_nothing_and_is_logged(
    setup: Setup, broken: str, caplog: pytest.LogCaptureFixture
) -> None:
    setup.change(broken)
    with caplog.at_level(logging.ERROR):
        assert setup.caller(f"Bearer {FIRST}") == "search"
        assert setup.caller(f"Bearer {FIRST}") == "search"
    assert setup.refused == 1
    [record] = logged(caplog)
    assert vars(record)["event"] == "tokens_refused"
    assert "--auth-tokens: " in record.getMessage()
    assert FIRST not in record.getMessage()
    setup.change(f"again {FIRST}\n")
    assert setup.caller(f"Bearer {FIRST}") == "again"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "holds 0 tokens"),
        ("a\n", "line 1: has 1 words"),
        (
            f"a {SECOND}\nb {FIRST}",
            (
                "line 2: has no end, so the file may be half written; the last line, "
                "too, must end with"
            ),
        ),
        (f"# x\n\na b {FIRST}\n", "line 3: has 3 words"),
        (f"-a {FIRST}\n", "line 1: the name"),
        ("a sha256:12\n", "line 1: sha256: must be followed by 64"),
        ("a fifteen-letters\n", "line 1: a token must have at least 16"),
        ("a sixteen,letters!\n", "line 1: a token must have"),
        (f"a {FIRST}\nb {FIRST}\n", "line 2: has the token of another client"),
        (f"a {FIRST}\nb sha256:{DIGEST}\n", "line 2: has the token of another client"),
        (f"ä {FIRST}\n", "beyond ASCII"),
        (
            "".join(f"a token-{i:016}\n" for i in range(1001)),
            "holds 1001 tokens",
        ),
    ],
)
def test_at_start_a_broken_file_is_an_error_that_names_the_line(
    tmp_path: Path, text: str, problem: str
) -> None:
    with pytest.raises(ConfigError) as error:
        Setup(tmp_path, text)
    assert str(error.value).startswith("--auth-tokens: ")
    assert problem in str(error.value)
    assert FIRST not in str(error.value)


def test_at_start_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"--auth-tokens: .*nowhere cannot be read: No such file"):
        AuthTokens(tmp_path / "nowhere", lambda: None)


def test_at_start_a_pipe_is_an_error() -> None:
    """For example `--auth-tokens <(command)` in a shell."""
    reader, writer = os.pipe()
    try:
        with pytest.raises(
            ConfigError,
            match=r"--auth-tokens: /dev/fd/\d+ is a FIFO \(pipe\); it must be a regular file",
        ):
            AuthTokens(Path(f"/dev/fd/{reader}"), lambda: None)
    finally:
        os.close(reader)
        os.close(writer)
