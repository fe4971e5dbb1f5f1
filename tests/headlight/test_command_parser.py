"""Errors of wrong usage: of the command's own, with the nearest name."""

from __future__ import annotations

import pytest

from headlight.cli.commands import parser
from headlight.command_parser import did_you_mean

ATTEND = "usage: headlight attend [TEXT] [OPTION]...\nheadlight attend: "
TOP = "usage: headlight COMMAND [OPTION]...\nheadlight: "


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (
            ["attend", "a", "--layr", "2"],
            f"{ATTEND}there is no option --layr (did you mean --layer?)\n",
        ),
        (
            ["attend", "a", "--layr=2"],
            f"{ATTEND}there is no option --layr (did you mean --layer?)\n",
        ),
        (
            ["attend", "a", "--zzz"],
            f"{ATTEND}there is no option --zzz; see headlight attend --help\n",
        ),
        (["atend", "a"], f"{TOP}there is no command 'atend' (did you mean attend?)\n"),
        (["xyzzy"], f"{TOP}there is no command 'xyzzy'; see headlight --help\n"),
        (
            ["attend", "a", "--priority", "bulkk"],
            f"{ATTEND}--priority: is 'bulkk'; choose interactive or bulk (did you mean bulk?)\n",
        ),
        (
            ["attend", "a", "--format", "npy"],
            (f"{ATTEND}--format: is 'npy'; choose text, json or npz (did you mean npz?)\n"),
        ),
        (
            ["attend", "a", "b"],
            (
                f"{ATTEND}unexpected 'b'; arguments stand together, one with spaces in quotes; "
                "see headlight attend --help\n"
            ),
        ),
        (
            ["attend", "--layer", "last"],
            f"{ATTEND}--layer: invalid int value: 'last'; see headlight attend --help\n",
        ),
        (
            ["info", "a"],
            (
                "usage: headlight info [OPTION]...\nheadlight info: takes no arguments, "
                "and 'a' was given; see headlight info --help\n"
            ),
        ),
        (
            ["cache", "lst"],
            (
                "usage: headlight cache list|remove [OPTION]...\n"
                "headlight cache: there is no command 'lst' (did you mean list?)\n"
            ),
        ),
    ],
)
def test_an_error_shows_the_commands_own_usage_and_the_nearest_name(
    capsys: pytest.CaptureFixture[str], arguments: list[str], says: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        parser().parse_args(arguments)
    assert (ended.value.code, capsys.readouterr()) == (2, ("", says))


def test_dashes_are_no_likeness() -> None:
    assert did_you_mean("--x", ["--a", "--b"]) == ""
    assert did_you_mean("-layer", ["--layer", "--tls"]) == " (did you mean --layer?)"
