"""Packages of the extras: installed versions, and what is missing or does not fit."""

from __future__ import annotations

import dataclasses
import operator
import re

from headlight.extras import ON_GPUS, RANGES, remedy, version_of

COMPARED = {">=": operator.ge, "<": operator.lt}


@dataclasses.dataclass(frozen=True)
class Installed:
    """The packages of one extra.

    Attributes:
        extra: its name; "client" for the base.
        versions: of the installed packages, by name.
        missing: names of the others.
        problems: versions that do not fit, each with its remedy.
        remedy: the command that installs all of it.
    """

    extra: str
    versions: dict[str, str]
    missing: list[str]
    problems: list[str]
    remedy: str


def installed_packages() -> list[Installed]:
    """Return the packages of every extra."""
    return [_installed(extra, packages) for extra, packages in RANGES.items()]


def fits(version: str, accepted: str) -> bool:
    """Return whether a version is in a range, as ">=6.31.1,<8"; rc1 and the like are ignored."""
    for clause in accepted.split(","):
        sign, bound = re.findall(r"[<>=]+|[\d.]+", clause)
        if not COMPARED[sign](_numbers(version), _numbers(bound)):
            return False
    return True


def _installed(extra: str, packages: dict[str, str]) -> Installed:
    command = remedy(extra).replace("[client]", "")
    versions, missing, problems = dict[str, str](), list[str](), list[str]()
    for name, accepted in packages.items():
        beside = ON_GPUS.get(name, "")
        both = {each: found for each in (name, beside) if each and (found := version_of(each))}
        versions |= both
        if not both:
            missing.append(name)
        if len(both) > 1:
            problems.append(
                f"{name} and {beside} install the same files; uninstall both, then {command}"
            )
        problems += [
            f"{each} is {found}, and {accepted} is needed: {command}"
            for each, found in both.items()
            if not fits(found, accepted)
        ]
    return Installed(extra, versions, missing, problems, command)


def _numbers(version: str) -> tuple[int, ...]:
    release = re.match(r"\d+(\.\d+)*", version)
    return tuple(map(int, release[0].split("."))) if release else ()
