"""Licence check of packages for an image: their metadata against `licences.toml`."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deploy.image.locked import IMAGE, canonical

OPERATORS = {"AND", "OR", "WITH"}


@dataclass(frozen=True)
class Rules:
    """Content of `licences.toml`, which explains it."""

    accepted: frozenset[str]
    words: Mapping[str, str]
    allowed: Mapping[str, str]


def read_rules() -> Rules:
    """Read the rules of the repository."""
    table = tomllib.loads((IMAGE / "licences.toml").read_text(encoding="utf-8"))
    return Rules(
        accepted=frozenset(table["accepted"]), words=table["words"], allowed=table["allowed"]
    )


def stated(metadata: Mapping[str, Any]) -> str:
    """Return a package's stated licence, "" if there is none.

    Args:
        metadata: of the package, in the form of pip's installation report (names in lower case with
            underscores).
    """
    if expression := metadata.get("license_expression"):
        return str(expression)
    words = str(metadata.get("license") or "").strip()
    if words and "\n" not in words:
        return words
    classifiers: Sequence[str] = metadata.get("classifier", ())
    named = sorted(
        text.rpartition(" :: ")[2] for text in classifiers if text.startswith("License ::")
    )
    return " AND ".join(named)


def problem(metadata: Mapping[str, Any], rules: Rules) -> str | None:
    """Return why this package may not be in an image, and the remedy; None if it may."""
    name, says = canonical(metadata["name"]), stated(metadata)
    if not says:
        return f"{name} does not state its licence; find it and allow the package in licences.toml"
    if rules.allowed.get(name) == says:
        return None
    expression = rules.words.get(says, says)
    parts = [part for part in re.split(r"[\s()]+", expression) if part and part not in OPERATORS]
    unknown = sorted(set(parts) - rules.accepted)
    if unknown:
        return f"{name} is under {says!r}, which licences.toml does not accept"
    return None
