"""Check what clients rely on: python -m tests.conformance URL --dialect openai|tei|cohere|oip."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.conformance import cohere, oip, openai, tei
from tests.conformance.checks import Check, Dialect, Options, Outcome, Result
from tests.conformance.http_client import NoAnswer

DIALECTS: dict[str, tuple[type[Dialect], list[Check]]] = {
    "openai": (openai.OpenAI, openai.CHECKS),
    "tei": (tei.Tei, tei.CHECKS),
    "cohere": (cohere.Cohere, cohere.CHECKS),
    "oip": (oip.Oip, oip.CHECKS),
}


def run(
    dialect: str,
    url: str,
    options: Options,
    token: str = "",
    only: Sequence[str] = (),
    show: Callable[[Result], object] = lambda _: None,
) -> list[Result]:
    """Return the results of a dialect's checks; `only`: of these.

    Raises:
        ValueError: the URL or an option is wrong.
        NoAnswer: nothing answers there.
    """
    kind, checks = DIALECTS[dialect]
    scheme, _, address = url.partition("://")
    if scheme not in kind.transports or not address:
        accepted = " or ".join(f"{each}://" for each in kind.transports)
        raise ValueError(f"the URL has to begin with {accepted}")
    server = kind.transports[scheme](url, token, options.seconds)
    server.probe()
    api, results = kind(server, options), []
    for check in checks:
        if not only or check.name in only:
            results.append(check.result(api))
            show(results[-1])
    return results


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__)
    add = parser.add_argument
    add("url", metavar="URL", help="as a client of the dialect gets it; oip: also grpc://HOST:PORT")
    add("--dialect", choices=sorted(DIALECTS), required=True)
    add("--model", default="", help="name of the model; openai: by default the first")
    add("--rerank-model", default="", help="cohere: model that reranks, if another")
    add("--token", default="", help="sent as Authorization: Bearer TOKEN")
    add("--json", type=Path, metavar="FILE", help="write the results to this file")
    add("--name", default="", help="name of the server in that file")
    add("--only", nargs="+", default=[], metavar="CHECK", help="names of checks")
    add(
        "--tolerance",
        type=float,
        default=1e-4,
        help="largest difference of equal numbers (%(default)s)",
    )
    add("--words", type=int, default=10_000, help="words of a text that is too long (%(default)s)")
    add("--seconds", type=float, default=120, help="longest wait for an answer (%(default)s)")
    add("--overload", type=int, default=0, metavar="N", help="send N requests at once (none)")
    add("--list", action="store_true", help="list the checks with their sources, and send nothing")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the checks; return 1 if one fails, and 2 if they cannot run."""
    line = parser().parse_args(arguments)
    checks = DIALECTS[line.dialect][1]
    if line.list:
        for check in checks:
            print(f"{check.name:24} {check.source}")
        return 0
    unknown = sorted(set(line.only) - {each.name for each in checks})
    if unknown:
        print(f"--only: {', '.join(unknown)} is not a check; --list names them", file=sys.stderr)
        return 2
    names = [each.name for each in dataclasses.fields(Options)]
    options = Options(**{name: getattr(line, name) for name in names})

    def show(each: Result) -> None:
        print(f"{each.outcome:15}{each.name:24}{each.reason}", flush=True)

    try:
        results = run(line.dialect, line.url, options, line.token, line.only, show)
    except (ValueError, NoAnswer) as error:
        print(f"{line.url}: {error}", file=sys.stderr)
        return 2
    counts = {outcome: sum(each.outcome is outcome for each in results) for outcome in Outcome}
    print(", ".join(f"{number} {outcome}" for outcome, number in counts.items()))
    if line.json is not None:
        rows = [vars(each) for each in results]
        server = {"server": line.name or line.url, "model": line.model}
        body = {"dialect": line.dialect, **server, "checks": rows}
        line.json.write_text(json.dumps(body, indent=1, ensure_ascii=False) + "\n", "utf-8")
    return int(counts[Outcome.FAIL] > 0)


if __name__ == "__main__":
    sys.exit(main())
