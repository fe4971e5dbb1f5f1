"""Recorder of all exchanges: `python -m tests.wire.today.record [GROUP]...`.

For a change of the wire that is meant: what changed is read in the diff of the answers.
"""

from __future__ import annotations

import contextlib
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.system.conftest import bundle_of
from tests.system.processes import Service
from tests.wire.today.asking import Door, answers_path, ask
from tests.wire.today.cases import GUARDED, MODEL, OPEN, TOKEN
from tests.wire.today.sameness import settled


@contextlib.contextmanager
def guarded(folder: Path) -> Iterator[Door]:
    """Serve with a token, and a quota that one request exceeds."""
    tokens = folder / "tokens"
    tokens.write_text(f"someone {TOKEN}\n", encoding="utf-8")
    options = ("--auth-tokens", str(tokens), "--quota-tokens-per-second", "1")
    with Service(bundle_of(MODEL), *options) as service:
        yield Door(service.target, service.rest)


def main(names: list[str]) -> None:
    groups = OPEN | {"guarded": GUARDED}
    with (
        Service(bundle_of(MODEL)) as service,
        tempfile.TemporaryDirectory() as folder,
        guarded(Path(folder)) as guarded_door,
    ):
        for name in names or groups:
            door = guarded_door if name == "guarded" else Door(service.target, service.rest)
            said = {case: settled(ask(door, each)) for case, each in groups[name].items()}
            answers_path(name).write_text(
                json.dumps(said, indent=1, ensure_ascii=False, sort_keys=True) + "\n",
                encoding="utf-8",
            )


if __name__ == "__main__":
    main(sys.argv[1:])
