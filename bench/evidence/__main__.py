"""Command of `nox -s evaluate-evidence`: what evidence and span vectors find, and what they cost.

    python -m bench.evidence

It writes bench/results/evidence.md, and beside it the figures (.json) and curves (.png). A run of
some parts keeps the others' figures.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bench.evidence import chunking, cost, deletion, methods, planted, sections
from bench.evidence.report import deletion_curves, page
from bench.frame.machine import Others, machine
from bench.frame.processes import ANY_PORTS, Failed, Service, serve
from bench.frame.report import command, parser, publish, save
from headlight import Client
from headlight.runtime import Runtime

QUERY = "return the name of each file below a folder that has changed"
PACKAGES = ("onnxruntime", "numpy", "tokenizers")
QUICK_CASES, QUICK_CURVES = 4, 2
QUICK_SIZES = (1, 2)
QUICK_DOCUMENTS = -6  # the last, which are short


def _planted(runtimes: Sequence[Runtime], options: argparse.Namespace) -> dict[str, Any]:
    cases = planted.all_cases(options.cases)
    by_model = {_name(each): methods.measure(each, cases) for each in runtimes}
    return {"digest": planted.digest(cases), **_merged(by_model)}


def _deletion(runtimes: Sequence[Runtime], options: argparse.Namespace) -> dict[str, Any]:
    cases = planted.first_cases(planted.all_cases(options.cases), options.curves)
    by_model = {_name(each): {"rows": deletion.measure(each, cases)} for each in runtimes}
    return {"digest": planted.digest(cases), **_merged(by_model)}


def _name(runtime: Runtime) -> str:
    return runtime.model().ref.name


def _merged(
    by_model: dict[str, dict[str, list[dict[str, Any]]]],
) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of each model in one list, each with its model."""
    merged: dict[str, list[dict[str, Any]]] = {}
    for model, tables in by_model.items():
        for name, rows in tables.items():
            merged.setdefault(name, []).extend({"model": model, **row} for row in rows)
    return merged


def _chunking(runtimes: Sequence[Runtime], options: argparse.Namespace) -> dict[str, Any]:
    runtime = runtimes[0]
    documents = sections.documents()[QUICK_DOCUMENTS if options.quick else 0 :]
    return {"digest": sections.digest(documents), **chunking.measure(runtime, documents)}


def _cost(runtimes: Sequence[Runtime], options: argparse.Namespace) -> dict[str, Any]:
    runtime = runtimes[0]
    random.seed(planted.SEED)
    others, sizes = Others(), QUICK_SIZES if options.quick else cost.SIZES
    texts = cost.passages(runtime, planted.all_cases(options.cases), max(sizes))
    lists = [texts[:size] for size in sizes]
    rows = cost.measure(runtime, "in process", QUERY, lists, options.rounds)
    if not options.no_service:
        with (
            tempfile.TemporaryDirectory() as folder,
            contextlib.closing(
                Service(serve(options.bundle[0], *ANY_PORTS), Path(folder) / "serve.log")
            ) as service,
            Client(service.address()) as client,
        ):
            rows += cost.measure(client, "over gRPC", QUERY, lists, options.rounds)
    tokens = len(runtime.tokenize(QUERY)[0])
    return {"query_tokens": tokens, "others": round(others.share(), 3), "rows": rows}


BY_MODEL = ("planted", "deletion")
PARTS: dict[str, Callable[[Sequence[Runtime], argparse.Namespace], dict[str, Any]]] = {
    "planted": _planted,
    "deletion": _deletion,
    "chunking": _chunking,
    "cost": _cost,
}


def _models(part: str, runtimes: Sequence[Runtime]) -> str:
    """Return the names and versions of the models of a part."""
    refs = [each.model().ref for each in runtimes]
    return ", ".join(f"{ref.name} {ref.version}" for ref in refs[: None if part in BY_MODEL else 1])


def main() -> None:
    """Measure the parts, and publish them with those measured before."""
    made = parser("bench.evidence", __doc__, "evidence.md", rounds=7)  # of the cost
    made.add_argument("--parts", nargs="+", choices=list(PARTS), default=list(PARTS))
    made.add_argument(
        "--bundle",
        type=Path,
        nargs="+",
        default=[Path("build/bundles/docs-rope")],
        help="models whose evidence is compared; chunking and cost are of the first",
    )
    made.add_argument("--cases", type=int, default=planted.CASES, help="of each group")
    made.add_argument("--curves", type=int, default=10, help="cases of each group that have one")
    made.add_argument("--no-service", action="store_true", help="measure cost in process alone")
    made.add_argument("--quick", action="store_true", help="in seconds, to see that it works")
    options = made.parse_args()
    if options.quick:
        options.cases, options.curves, options.rounds = QUICK_CASES, QUICK_CURVES, 1
    figures = options.out.with_suffix(".json")
    run = json.loads(figures.read_text(encoding="utf-8")) if figures.exists() else {}
    for name in BY_MODEL:  # rows of an earlier form, of one model
        if any("model" not in row for row in run.get(name, {}).get("rows", ())):
            del run[name]
    origin = {"command": command("bench.evidence"), "machine": machine(PACKAGES)}
    with contextlib.ExitStack() as stack:
        runtimes = [stack.enter_context(Runtime(each)) for each in options.bundle]
        for name, measure in PARTS.items():
            if name in options.parts:
                try:
                    figures_of_part = measure(runtimes, options)
                except Failed as error:
                    sys.exit(f"bench.evidence: {error}")
                run[name] = {**origin, "model": _models(name, runtimes), **figures_of_part}
                save(figures, run)
    picture = options.out.with_suffix(".png")
    if "deletion" in run:
        deletion_curves(run["deletion"]["rows"], picture)
    publish(options.out, page(run, picture.name))


if __name__ == "__main__":
    main()
