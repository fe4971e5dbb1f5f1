"""A reader of Dockerfiles, as far as ours go: instructions in order, by stage."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Instruction:
    """One instruction: its word in capitals, and the rest on one line."""

    word: str
    text: str

    def settings(self) -> dict[str, str]:
        """NAME=VALUE pairs, as ENV and LABEL have them; an ARG without a value has ""."""
        pairs = (part.partition("=") for part in shlex.split(self.text))
        return {name: value for name, _, value in pairs}

    def words(self) -> list[str]:
        """What ENTRYPOINT runs; ValueError for the form that needs a shell."""
        found: list[str] = json.loads(self.text)
        return found


def read(path: Path) -> list[Instruction]:
    """Every instruction, comments dropped and continued lines joined."""
    kept = (
        line
        for line in path.read_text(encoding="utf-8").splitlines()
        if not line.lstrip().startswith("#")
    )
    joined = re.sub(r"\\\n\s*", "", "\n".join(kept))
    lines = (line.split(None, 1) for line in joined.splitlines() if line.strip())
    return [Instruction(word.upper(), text.strip()) for word, text in lines]


def stages(path: Path) -> list[list[Instruction]]:
    """What stands before the first FROM, then one list for each stage, its FROM first."""
    found: list[list[Instruction]] = [[]]
    for instruction in read(path):
        if instruction.word == "FROM":
            found.append([])
        found[-1].append(instruction)
    return found


def of(stage: list[Instruction], word: str) -> list[Instruction]:
    """The instructions of one kind."""
    return [instruction for instruction in stage if instruction.word == word]
