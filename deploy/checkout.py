"""Environments for work in a checkout, without an installed copy or import hooks.

python deploy/checkout.py requirements EXTRAS   print pip's requirements for these extras
python deploy/checkout.py link [--see FOLDER]   put the roots on this Python's path, add the command
"""

from __future__ import annotations

import argparse
import re
import sys
import sysconfig
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ROOTS = (ROOT, ROOT / "service", ROOT / "export", ROOT / "model")
COMMAND = """#!{python}
import sys

from headlight.cli.main import main

sys.exit(main())
"""


def requirements(extras: Iterable[str]) -> list[str]:
    """Return the requirements of the project and its extras, and of extras that those name."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

    def of(extra: str) -> Iterator[str]:
        for requirement in project["optional-dependencies"][extra]:
            nested = re.fullmatch(re.escape(project["name"]) + r"\[(.+)\]", requirement)
            if nested is None:
                yield requirement
                continue
            for each in nested[1].split(","):
                yield from of(each.strip())

    return sorted({*project["dependencies"], *(each for extra in extras for each in of(extra))})


def link(see: Path | None) -> None:
    """Write a .pth with the four roots, and the command `headlight`.

    Args:
        see: packages of another environment, to be found behind this one's.
    """
    lines = [*map(str, ROOTS), *([str(see)] if see else [])]
    Path(sysconfig.get_path("purelib"), "headlight.pth").write_text(
        "\n".join(lines) + "\n", encoding="utf-8"
    )
    command = Path(sysconfig.get_path("scripts"), "headlight")
    command.write_text(COMMAND.format(python=sys.executable), encoding="utf-8")
    command.chmod(0o755)


def main() -> None:
    """Run one of the two commands."""
    parser = argparse.ArgumentParser(prog="checkout.py", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("requirements").add_argument("extras", metavar="EXTRA,EXTRA")
    commands.add_parser("link").add_argument("--see", type=Path, metavar="FOLDER")
    options = parser.parse_args()
    if options.command == "requirements":
        sys.stdout.write("\n".join(requirements(options.extras.split(","))) + "\n")
    else:
        link(options.see)


if __name__ == "__main__":
    main()
