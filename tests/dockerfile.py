"""Parser of the Dockerfile syntax that this repository uses: instructions in order, by stage."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Instruction:
    """One instruction: its keyword in capitals, and the rest on one line."""

    word: str
    text: str

    def settings(self) -> dict[str, str]:
        """Return NAME=VALUE pairs, as in ENV and LABEL; an ARG without a value has ""."""
        pairs = (part.partition("=") for part in shlex.split(self.text))
        return {name: value for name, _, value in pairs}

    def words(self) -> list[str]:
        """Return the arguments of ENTRYPOINT; raise ValueError for the shell form."""
        found: list[str] = json.loads(self.text)
        return found


def read(path: Path) -> list[Instruction]:
    """Return every instruction, without comments and with continued lines joined."""
    kept = (
        line
        for line in path.read_text(encoding="utf-8").splitlines()
        if not line.lstrip().startswith("#")
    )
    joined = re.sub(r"\\\n\s*", "", "\n".join(kept))
    lines = (line.split(None, 1) for line in joined.splitlines() if line.strip())
    return [Instruction(word.upper(), text.strip()) for word, text in lines]


def stages(path: Path) -> list[list[Instruction]]:
    """Return the instructions before the first FROM, then one list per stage, its FROM first."""
    found: list[list[Instruction]] = [[]]
    for instruction in read(path):
        if instruction.word == "FROM":
            found.append([])
        found[-1].append(instruction)
    return found


def of(stage: list[Instruction], word: str) -> list[Instruction]:
    """Return the instructions of one kind."""
    return [instruction for instruction in stage if instruction.word == word]
