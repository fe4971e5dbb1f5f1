"""`headlight cache list` and `headlight cache remove`: the exported models on this machine."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

from headlight.archive import to_json
from headlight.cli.files import UsageError, say, show
from headlight.cli.output_files import size_text
from headlight.cli.result_output import aligned
from headlight.command_parser import examples_text
from headlight.description import Parity, worst_pooled
from headlight.model_store.model_cache import Entry, cache_folder, entries, remove_entry
from headlight.model_store.model_source import ModelSourceError

COLUMNS = ("name", "precision", "size", "proof", "key")
LIST_EXAMPLES = ("headlight cache list", "headlight cache list --format json")
REMOVE_EXAMPLES = ("headlight cache remove all-MiniLM-L6-v2",)


def add_cache(commands: Any) -> None:
    """Add `headlight cache` with its two commands."""
    made = commands.add_parser(
        "cache",
        help="the models that `headlight serve` exported here",
        usage="headlight cache list|remove [OPTION]...",
        description=(
            "The models that `headlight serve` exported here, in $HEADLIGHT_CACHE,\n"
            "else ~/.cache/headlight."
        ),
        epilog=examples_text((*LIST_EXAMPLES[:1], *REMOVE_EXAMPLES)),
    )
    verbs = made.add_subparsers(
        required=True, prog="headlight cache", title="commands", metavar="list|remove"
    )
    listing = verbs.add_parser(
        "list",
        help="name, source, size and proof of each",
        usage="headlight cache list [OPTION]...",
        description="Name, source, precisions, size, proof and key of each model.",
        epilog=examples_text(LIST_EXAMPLES),
    )
    listing.add_argument("--format", choices=("text", "json"), help="default: text")
    listing.set_defaults(run=run_list, out=None)
    removing = verbs.add_parser(
        "remove",
        help="remove models; running services are not affected",
        usage="headlight cache remove NAME|KEY...",
        description="Remove models. Running services are not affected.",
        epilog=examples_text(REMOVE_EXAMPLES),
    )
    removing.add_argument("model", nargs="+", metavar="NAME|KEY", help="as in `cache list`")
    removing.set_defaults(run=run_remove, format=None, out=None)


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
    for name in arguments.model:
        matches = [entry for entry, row in held if name in (row["key"], row["name"], row["model"])]
        if not matches:
            raise UsageError(f"{name}: not in the cache; see `headlight cache list`")
        chosen |= {entry.folder: entry for entry in matches}
    for entry in chosen.values():
        try:
            size = entry.size
            remove_entry(entry)
        except (ModelSourceError, OSError) as error:
            raise UsageError(f"cannot remove {entry.folder}: {error}") from None
        say(f"removed {entry.folder} ({size_text(size)})")


def facts(entry: Entry) -> dict[str, Any]:
    """Return what is known of a model, for JSON; without precisions if its manifest is damaged."""
    known = {"bytes": entry.size, "key": entry.key, "folder": str(entry.folder)}
    try:
        manifest: dict[str, Any] = {**entry.manifest()}
        hub = manifest["source"].get("hub", {})
        proof = worst_pooled(Parity(**row) for row in manifest["parity"])
        return {
            "name": manifest["name"],
            "model": hub.get("model", ""),
            "revision": hub.get("revision", ""),
            "commit": hub.get("commit", ""),
            "precisions": exported_precisions(manifest["graphs"]),
            "pooled_max_error": None if proof is None else proof.max_error,
            **known,
        }
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        name = entry.folder.name.rpartition("-")[0]
        none = dict.fromkeys(("model", "revision", "commit"), "")
        return {"name": name, **none, "precisions": [], "pooled_max_error": None, **known}


def exported_precisions(graphs: list[dict[str, Any]]) -> list[str]:
    """Return the precisions that graphs were written in.

    A file of fp32 is listed again for a provider that rounds it by itself.
    """
    whole = {graph["file"] for graph in graphs if graph["precision"] == "fp32"}
    others = {graph["precision"] for graph in graphs if graph["file"] not in whole}
    return sorted(others | ({"fp32"} if whole else set()))


def _entries() -> list[Entry]:
    try:
        return entries(os.environ)
    except ModelSourceError as error:
        raise UsageError(str(error)) from None


def _table(rows: list[dict[str, Any]]) -> str:
    """Return two lines for each model: its columns, and its source."""
    shown = [
        (
            row["name"],
            ", ".join(row["precisions"]),
            size_text(row["bytes"]),
            "damaged"
            if not row["precisions"]
            else ""
            if row["pooled_max_error"] is None
            else f"|Δ| {row['pooled_max_error']:.1e}",
            row["key"],
        )
        for row in rows
    ]
    title, *lines = aligned([COLUMNS, *shown])
    sources = (
        f"{row['model']} @ {row['revision']} ({row['commit'][:12]})" if row["model"] else "a folder"
        for row in rows
    )
    return "\n".join((title, *(f"{a}\n  {b}" for a, b in zip(lines, sources, strict=True))))
