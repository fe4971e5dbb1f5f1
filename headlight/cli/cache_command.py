"""`headlight cache list` and `headlight cache remove`: the models that were exported here."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

from headlight.analysis.terminal_view import cells, fit
from headlight.archive import to_json
from headlight.cli.files import UsageError, say, show
from headlight.description import Parity, worst_pooled
from headlight.model_store.model_cache import Entry, cache_folder, entries, remove_entry
from headlight.model_store.model_source import ModelSourceError

COLUMNS = ("name", "source", "precision", "size", "proof", "key")
EXAMPLES = """examples:
  headlight cache list
  headlight cache remove all-MiniLM-L6-v2
"""


def add_cache(commands: Any) -> None:
    """Add `headlight cache` with its two commands."""
    made = commands.add_parser(
        "cache",
        help="the models that `headlight serve` exported here",
        description=(
            "The models that `headlight serve` exported here, in $HEADLIGHT_CACHE, "
            "else ~/.cache/headlight."
        ),
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verbs = made.add_subparsers(required=True, metavar="list|remove")
    listing = verbs.add_parser("list", help="name, source, size and proof of each")
    listing.add_argument("--format", choices=("text", "json"), help="default: text")
    listing.set_defaults(run=run_list, out=None)
    removing = verbs.add_parser("remove", help="remove models; running services are not affected")
    removing.add_argument("model", nargs="+", metavar="NAME|KEY", help="as in `cache list`")
    removing.set_defaults(run=run_remove, format="text", out=None)


def run_list(arguments: argparse.Namespace) -> None:
    """Run `headlight cache list`."""
    rows = [facts(entry) for entry in _entries()]
    if arguments.format == "json":
        show(f"{to_json({'models': rows})}\n", "json")
    elif rows:
        show(f"{_table(rows)}\n")
    else:
        say(f"{cache_folder(os.environ)} holds no model; `headlight serve MODEL` exports one")


def run_remove(arguments: argparse.Namespace) -> None:
    """Run `headlight cache remove`. Nothing is removed unless every name is known."""
    held = [(entry, facts(entry)) for entry in _entries()]
    chosen: dict[Path, Entry] = {}
    for asked in arguments.model:
        found = [entry for entry, row in held if asked in (row["key"], row["name"], row["model"])]
        if not found:
            raise UsageError(f"{asked}: not in the cache; see `headlight cache list`")
        chosen |= {entry.folder: entry for entry in found}
    for entry in chosen.values():
        try:
            size = entry.size
            remove_entry(entry)
        except (ModelSourceError, OSError) as error:
            raise UsageError(f"cannot remove {entry.folder}: {error}") from None
        say(f"removed {entry.folder} ({_megabytes(size)})")


def facts(entry: Entry) -> dict[str, Any]:
    """Return what is known of a model, for JSON."""
    manifest: dict[str, Any] = {**entry.manifest()}
    hub = manifest["source"].get("hub", {})
    proof = worst_pooled(Parity(**row) for row in manifest["parity"])
    return {
        "name": manifest["name"],
        "model": hub.get("model", ""),
        "revision": hub.get("revision", ""),
        "commit": hub.get("commit", ""),
        "precisions": sorted({graph["precision"] for graph in manifest["graphs"]}),
        "bytes": entry.size,
        "pooled_max_error": None if proof is None else proof.max_error,
        "key": entry.key,
        "folder": str(entry.folder),
    }


def _entries() -> list[Entry]:
    try:
        return entries(os.environ)
    except ModelSourceError as error:
        raise UsageError(str(error)) from None


def _table(rows: list[dict[str, Any]]) -> str:
    shown = [
        (
            row["name"],
            f"{row['model']} @ {row['revision']} ({row['commit'][:12]})"
            if row["model"]
            else "a folder",
            ", ".join(row["precisions"]),
            _megabytes(row["bytes"]),
            "" if row["pooled_max_error"] is None else f"|Δ| {row['pooled_max_error']:.1e}",
            row["key"],
        )
        for row in rows
    ]
    widths = [max(map(cells, column)) for column in zip(COLUMNS, *shown, strict=True)]
    return "\n".join("  ".join(map(fit, row, widths)).rstrip() for row in (COLUMNS, *shown))


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"
